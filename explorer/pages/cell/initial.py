"""Before training: the scores of untrained models, by initialisation and layout of weights."""

import math

import streamlit as st

from explorer.analysis.cell.initial import INITS, SEEDS, Fresh
from explorer.analysis.cell.steps import Cell
from explorer.exhibits.view import View
from explorer.figures.histograms import histograms
from explorer.numbers import fixed, percent, tabled
from explorer.pages.cell import cached
from explorer.pages.cell.choices import CellChoices
from explorer.ui import controls, session
from explorer.ui.tables import table

EVEN, DECIDED = 0.99, 0.5
"""Thresholds of relative entropy: above, softmax is nearly uniform; below, nearly one-hot."""


def initial(view: View, cell: Cell) -> None:
    """The control, the histogram of the three layouts, their table, and the conclusion."""
    st.markdown(view.t("cell.initial_lead"))
    init = view.choices(CellChoices).init
    st.session_state["cell.init"] = init
    st.segmented_control(
        view.t("cell.asides.initial"),
        INITS,
        format_func=lambda name: view.t(f"cell.inits.{name}"),
        required=True,
        key="cell.init",
        label_visibility="collapsed",
        on_change=lambda: session.change(init=st.session_state["cell.init"]),
    )
    st.caption(view.t(f"cell.init_notes.{init}"))
    bar = st.empty()

    def tell(done: float) -> None:
        bar.progress(done, view.t("cell.initial_working"))

    found = cached.fresh_scores(view.run, cell.site.name, init, progress=tell)
    bar.empty()
    names = [view.t(f"cell.layout.{each.storage}") for each in found]
    figure = histograms(
        [each.scores for each in found],
        names,
        max(1e-3, 3.5 * max(each.spread for each in found)),
        x_title=view.t("cell.initial_score"),
        y_title=view.t("cell.initial_share"),
        dark=view.dark,
    )
    controls.chart(figure, "cell.initial", alt=view.t("cell.asides.initial"))
    st.caption(view.t("cell.initial_note", seeds=len(SEEDS), heads=cell.site.n_heads))
    _table(view, names, found)
    controls.reading("aside", _of_layouts(view, found))
    st.markdown(_of_softmax(view, found[0]))
    st.latex(
        r"\sigma_W = \sqrt{\tfrac{2}{\mathrm{fan_{in}} + \mathrm{fan_{out}}}}, \qquad "
        r"\sigma_s = \sigma_{W_Q}\,\sigma_{W_K}\,\lVert x_i\rVert\,\lVert x_j\rVert"
        + (r"\,\sqrt{d_\mathrm{head}}" if view.loaded.config.divisor == 1 else "")
    )
    st.caption(view.t("cell.initial_formula"))


def _table(view: View, names: list[str], found: tuple[Fresh, ...]) -> None:
    columns = ("weights", "scores", "bits", "most")
    rows = [
        [
            f"{name}, {each.shape[0]}\u00a0×\u00a0{each.shape[1]}",
            f"{each.weight_formula:.4f} / {each.weight_std:.4f}",
            f"{tabled(each.theory)} / {each.spread:.3g}",
            "–" if math.isnan(each.entropy) else f"{fixed(each.entropy)} / {fixed(each.most)}",
            "–" if math.isnan(each.top) else percent(each.top),
        ]
        for name, each in zip(names, found, strict=True)
    ]
    table(["", *(view.t(f"cell.initial_{name}") for name in columns)], rows)


def _of_layouts(view: View, found: tuple[Fresh, ...]) -> str:
    """Whether the layout matters here: separate matrices compared with the fused one."""
    by_storage = {each.storage: each for each in found}
    one, fused = by_storage["one"], by_storage["fused"]
    ratio = fused.spread / one.spread
    spreads = {"one": f"{one.spread:.3g}", "fused": f"{fused.spread:.3g}"}
    spreads["theory"] = tabled(one.theory)
    if abs(ratio - 1) < 0.01:
        reason = "normed" if view.loaded.config.qk_norm else "rule"
        return view.t("cell.initial_same", why=view.t(f"cell.initial_why_{reason}"), **spreads)
    rows = {"rows": fused.shape[0], "own": one.shape[0]}
    return view.t("cell.initial_differs", ratio=fixed(ratio), **rows, **spreads)


def _of_softmax(view: View, one: Fresh) -> str:
    """The effect of softmax on such scores; "" if no query has more than one key."""
    if math.isnan(one.entropy):
        return ""
    left = one.entropy / one.most
    state = "decided" if left < DECIDED else "even" if left > EVEN else "open"
    bits = {"entropy": fixed(one.entropy), "most": fixed(one.most)}
    return view.t(f"cell.initial_{state}", top=percent(one.top), **bits)
