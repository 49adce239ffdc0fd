"""Gradients over long paths: recurrent networks and attention on the user's text."""

import numpy as np
import streamlit as st

from explorer.analysis.machine.reach import LEAST, SEEDS, Reach, reaches, read_vectors
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.numbers import fixed, number
from explorer.pages.machine import cached
from explorer.ui import controls
from explorer.ui.tables import table

VANISHED = 0.01
"""Fraction of the neighbour's gradient below which a distant token counts as having no
influence."""


def gradients(view: View) -> None:
    """The curves, the factor per token of every network, and the conclusion."""
    st.markdown(f"**{view.t('reach.title')}**")
    found = cached.reaches(view.run)
    n_tokens = found[0].norms.shape[1]
    own = max(int(view.trace.src_valid.sum()), int(view.trace.tgt_valid.sum()))
    repeated = view.t("reach.repeated", least=LEAST) if own < LEAST else ""
    width = min(view.loaded.config.d_model, 64)
    st.markdown(view.t("reach.lead", width=width, seeds=len(SEEDS), n=n_tokens) + repeated)
    names = [view.t(f"reach.nets.{each.kind}") for each in found]
    figure = lines(
        np.arange(n_tokens),
        np.stack([np.median(each.norms, 0) for each in found]),
        names,
        x_title=view.t("reach.distance"),
        y_title=view.t("reach.gradient"),
        log_y=True,
        height=300,
        dark=view.dark,
    )
    figure["layout"]["yaxis"] |= {"exponentformat": "power", "nticks": 6}
    controls.chart(figure, "machine.reach", alt=view.t("reach.title"))
    table(
        ("", view.t("reach.per_token"), view.t("reach.far")),
        [
            (name, _range(each.per_token), _range(each.far))
            for name, each in zip(names, found, strict=True)
        ],
    )
    _verdict(view, found)
    controls.small_print(
        view,
        "reach",
        explained="reach.formula",
        formula=(
            r"h_t = \tanh(W_x x_t + W_h h_{t-1} + b), \qquad "
            r"D_t = \mathrm{diag}(1 - h_t^2)",
            r"\frac{\partial h_n}{\partial x_{n-k}} = "
            r"D_n W_h\, D_{n-1} W_h \cdots D_{n-k+1} W_h\, D_{n-k} W_x",
            r"z_n = \sum_j A_{nj} W_V x_j, \qquad "
            r"\frac{\partial z_n}{\partial x_j} = A_{nj}\left(W_V + "
            r"\frac{(v_j - z_n)\,q_n^{\top} W_K}{\sqrt{d}}\right), \quad j < n",
        ),
        code=(reaches, read_vectors),
        numbers=lambda: {
            view.t("reach.distance"): list(range(n_tokens)),
            **{
                name: [f"{value:.3g}" for value in np.median(each.norms, 0)]
                for name, each in zip(names, found, strict=True)
            },
        },
    )


def _shown(value: float) -> str:
    return fixed(value) if value >= 0.01 else number(value)


def _range(values: np.ndarray) -> str:
    low, high = _shown(float(values.min())), _shown(float(values.max()))
    return f"**{_shown(float(np.median(values)))}** ({low} – {high})"


def _verdict(view: View, found: tuple[Reach, ...]) -> None:
    """The conclusion supported by the numbers of all seeds."""
    by_kind = {each.kind: each for each in found}
    recurrent, attention = by_kind["recurrent"], by_kind["attention"]
    if recurrent.far.max() < VANISHED < attention.far.min():
        key = "reach.vanishes"
    elif recurrent.far.max() < attention.far.min():
        key = "reach.weaker"
    else:
        key = "reach.alike"
    controls.reading(
        "reach",
        view.t(
            key,
            distance=recurrent.norms.shape[1] - 1,
            far=_shown(float(np.median(recurrent.far))),
            attention=_shown(float(np.median(attention.far))),
        ),
    )
    factors = {
        name: _shown(float(np.median(by_kind[name].per_token)))
        for name in ("recurrent", "orthogonal")
    }
    st.markdown(view.t("reach.why", **factors))
