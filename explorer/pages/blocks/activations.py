"""ReLU, GELU, tanh-approximated GELU and SiLU as curves: values, slopes, differences."""

from typing import get_args

import numpy as np

from explorer.analysis.blocks.activations import What, curves
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.numbers import number, signed
from explorer.ui import controls
from explorer.ui.parts import pick_one

X = np.linspace(-4, 4, 801)
WHATS: tuple[What, ...] = get_args(What)


def curves_of(view: View) -> None:
    """One large figure of all four, and numbers that distinguish them."""
    what = pick_one(
        view,
        "picture",
        view.t("blocks.curves"),
        WHATS,
        "blocks.curves",
        lambda name: view.t(f"blocks.curve_{name}"),
    )
    found = curves(X, what)
    figure = lines(
        X,
        np.stack(list(found.values())),
        [view.t(f"blocks.act_{name}") for name in found],
        x_title="x",
        y_title=view.t(f"blocks.curve_{what}"),
        height=440,
        dark=view.dark,
    )
    with controls.reading_first():
        controls.chart(figure, "blocks.activations", alt=view.t("blocks.curves"))
        controls.reading("activations", _reading(view))
    controls.small_print(
        view,
        "blocks",
        formula=(
            r"\mathrm{ReLU}(x) = \max(0, x),\quad \mathrm{GELU}(x) = x\,\Phi(x) = "
            r"\frac{x}{2}\left(1 + \mathrm{erf}\frac{x}{\sqrt2}\right),\quad "
            r"\mathrm{SiLU}(x) = \frac{x}{1 + e^{-x}}",
            r"\mathrm{GELU}(x) \approx \frac{x}{2}\left(1 + \tanh\left(\sqrt{2/\pi}\,"
            r"(x + 0.044715\,x^3)\right)\right)",
        ),
        code=(curves,),
        numbers=lambda: _numbers(view),
        explained="blocks.activations_formula",
    )


def _reading(view: View) -> str:
    values = curves(X)
    gelu, silu = values["gelu"], values["silu"]
    difference = np.abs(curves(X, "difference")["gelu_tanh"])
    return view.t(
        "blocks.read_activations",
        gelu=signed(float(gelu.min())),
        gelu_at=signed(float(X[gelu.argmin()])),
        silu=signed(float(silu.min())),
        silu_at=signed(float(X[silu.argmin()])),
        tanh=number(float(difference.max())),
        tanh_at=f"{abs(float(X[difference.argmax()])):.1f}",
        own=view.t(f"blocks.ffn_{view.loaded.config.ffn}"),
    )


def _numbers(view: View) -> dict[str, list[object]]:
    points = np.arange(-4.0, 4.5, 0.5)
    columns: dict[str, list[object]] = {"x": points.tolist()}
    for name, y in curves(points).items():
        columns[view.t(f"blocks.act_{name}")] = np.round(y, 4).tolist()
    return columns
