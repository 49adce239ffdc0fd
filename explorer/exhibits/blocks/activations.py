"""ReLU, GELU, tanh-approximated GELU and SiLU as curves: values, slopes, differences."""

from functools import partial

import numpy as np
import torch
from jaxtyping import Float

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.blocks.choices import BlocksChoices, CurveOf
from explorer.exhibits.blocks.norms import model_line
from explorer.exhibits.picking import pick_one
from explorer.figures.curves import lines
from explorer.numbers import number, signed
from models.feedforward import ACTIVATIONS

X = np.linspace(-4, 4, 801)
EACH = 50
"""Points from one row of the table to the next."""
EXACT = "gelu"
"""The reference for differences."""


def curves(
    x: Float[np.ndarray, " x"], what: CurveOf = "value"
) -> dict[str, Float[np.ndarray, " x"]]:
    """Each activation of the library at `x`, float64: its value, slope, or value minus GELU."""
    by_name = {}
    for name, function in ACTIVATIONS.items():
        leaf = torch.from_numpy(np.asarray(x, np.float64)).requires_grad_()
        with torch.enable_grad():
            y = function(leaf)
            (slope,) = torch.autograd.grad(y.sum(), leaf)
        by_name[name] = (slope if what == "slope" else y.detach()).numpy()
    if what == "difference":
        return {name: y - by_name[EXACT] for name, y in by_name.items() if name != EXACT}
    return by_name


def compute() -> dict[CurveOf, dict[str, Float[np.ndarray, " x"]]]:
    """All curves at X."""
    return {what: curves(X, what) for what in BlocksChoices.pictures}


def show(by_kind: dict[CurveOf, dict[str, Float[np.ndarray, " x"]]], view: View) -> b.Blocks:
    """One large figure of all four, and numbers that distinguish them."""
    yield from model_line(view)
    pictures = BlocksChoices.pictures
    what = view.one_of("picture", pictures)
    yield pick_one(view, "blocks.curves", pictures, what, "picture", "blocks.functions")
    drawn, title = by_kind[what], view.t("blocks.curves")
    names = [view.t("designs.ffn", name) for name in drawn]
    y_title = view.t("blocks.functions", what)
    values = np.stack(list(drawn.values()))
    yield b.Sentence("activations", _said(view, by_kind))
    draw = partial(lines, X, values, names, x_title="x", y_title=y_title, height=440)
    yield b.Chart("blocks.activations", draw, title)
    yield b.Formula.of(
        view.t("blocks.activations_formula"),
        r"\mathrm{ReLU}(x) = \max(0, x),\quad \mathrm{GELU}(x) = x\,\Phi(x) = "
        r"\frac{x}{2}\left(1 + \mathrm{erf}\frac{x}{\sqrt2}\right),\quad "
        r"\mathrm{SiLU}(x) = \frac{x}{1 + e^{-x}}",
        r"\mathrm{GELU}(x) \approx \frac{x}{2}\left(1 + \tanh\left(\sqrt{2/\pi}\,"
        r"(x + 0.044715\,x^3)\right)\right)",
    )
    yield b.Code((curves,))
    columns = {
        view.t("designs.ffn", name): y[::EACH].round(4).tolist()
        for name, y in by_kind["value"].items()
    }
    yield b.Numbers(lambda: {"x": X[::EACH].round(4).tolist(), **columns})


def _said(view: View, by_kind: dict[CurveOf, dict[str, Float[np.ndarray, " x"]]]) -> str:
    gelu, silu = by_kind["value"]["gelu"], by_kind["value"]["silu"]
    difference = np.abs(by_kind["difference"]["gelu_tanh"])
    return view.t(
        "blocks.read_activations",
        gelu=signed(float(gelu.min())),
        gelu_at=signed(float(X[gelu.argmin()])),
        silu=signed(float(silu.min())),
        silu_at=signed(float(X[silu.argmin()])),
        tanh=number(float(difference.max())),
    )


EXHIBIT = Exhibit(compute, show)
