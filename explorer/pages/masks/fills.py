"""Which value stands for "blocked", and what each type of number makes of it."""

import numpy as np
import streamlit as st

from explorer.analysis.masks.fills import DTYPES, FILLS, WAYS, Empty, Fill, Filled, fills, hidden_by
from explorer.analysis.masks.softmax import masked_softmax
from explorer.exhibits.view import View
from explorer.figures.outcomes import Level, outcomes
from explorer.numbers import digits, fixed, percent
from explorer.pages.masks.choices import MOST_LOWERED, MasksChoices
from explorer.ui import controls, session
from explorer.ui.parts import pick_one

VALUES: dict[Fill, str] = {
    "ten_thousand": "−1e4",
    "billion": "−1e9",
    "lowest": "finfo.min",
    "infinity": "−∞",
}
"""The fills as they are written; the rule "zeroed" has words."""
COARSE = 0.01
"""A rounding error of a weight from which a type is too coarse for these scores."""
LEVEL_OF: dict[Empty, Level] = {
    "nan": "loud",
    "uniform": "silent",
    "unmasked": "silent",
    "other": "silent",
    "zero": "good",
}


def fill_values(view: View) -> None:
    """How the fill is applied, a grid for rows with open keys and one for a row without."""
    st.markdown(view.t("masks.fills_lead"))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.pick_place(view, "masks")
    way = pick_one(
        view,
        "way",
        view.t("masks.way"),
        WAYS,
        "masks.way",
        lambda name: view.t(f"masks.way_{name}"),
    )
    lowered = view.choices(MasksChoices).lowered
    st.session_state["masks.lowered"] = lowered
    st.slider(
        view.t("masks.lowered"),
        0,
        MOST_LOWERED,
        key="masks.lowered",
        step=1000,
        help=view.t("masks.lowered_help"),
        width=420,
        on_change=lambda: session.change(lowered=st.session_state["masks.lowered"]),
    )
    site = view.site
    scores = view.trace.activations[site.hook("scores")][view.head]
    keep = view.trace.mask(site.name)[view.head]
    found = fills(scores, keep, view.row, way, float(lowered))
    query = controls.quoted_at(view, view.trace.query_tokens(site.name), view.row)
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown(f"**{view.t('masks.fills_open')}**")
        _grid(view, found, "open")
    with right:
        st.markdown(f"**{view.t('masks.fills_empty', query=query)}**")
        _grid(view, found, "empty")
    controls.reading("fills", _reading(view, found))
    if keep.all():
        st.info(view.t("masks.fills_all_open"), icon=":material/lightbulb:")
    controls.small_print(
        view,
        "masks",
        formula=(
            r"p_{b} = \frac{b\,e^{f}}{\sum_{k=1}^{n-b} e^{s_k} + b\,e^{f}}",
            r"b = n:\quad f > -\infty \Rightarrow p_j = \tfrac{1}{n},\qquad "
            r"f = -\infty \Rightarrow p_j = \tfrac{0}{0}",
        ),
        code=(hidden_by, masked_softmax),
        explained="masks.fills_formula",
        numbers=lambda: _numbers(view, found),
    )


def _grid(view: View, found: tuple[Filled, ...], which: str) -> None:
    cells = np.array(found, object).reshape(len(FILLS), len(DTYPES))
    says = _open if which == "open" else _empty
    both = [[says(view, each) for each in row] for row in cells]
    figure = outcomes(
        [[level for level, _ in row] for row in both],
        [[text for _, text in row] for row in both],
        [_name(view, fill) for fill in FILLS],
        list(DTYPES),
        dark=view.dark,
    )
    controls.chart(figure, f"masks.fills.{which}", alt=view.t(f"masks.fills_{which}_alt"))


def _name(view: View, fill: Fill) -> str:
    return VALUES.get(fill) or view.t("masks.fill_zeroed")


def _open(view: View, each: Filled) -> tuple[Level, str]:
    """A row that has something to attend to."""
    if each.refused:
        return "loud", view.t("masks.fill_refused")
    if each.lost:
        return "loud", view.t("masks.fill_nan")
    if not each.hides:
        return "silent", view.t("masks.fill_leaks", share=percent(each.hidden))
    error = _points(each.rounding)
    if each.rounding > COARSE:
        return "silent", view.t("masks.fill_rounds", error=error)
    return "good", view.t("masks.fill_hides", error=error)


def _points(error: float) -> str:
    return f"±{digits(100 * error, 2)} %" if error else "±0"


def _empty(view: View, each: Filled) -> tuple[Level, str]:
    """A row in which everything is blocked."""
    if each.refused or each.row is None:
        return "loud", view.t("masks.fill_refused")
    share = percent(float(np.nan_to_num(each.row).max()))
    return LEVEL_OF[each.empty], view.t(f"masks.empty_{each.empty}", share=share)


def _reading(view: View, found: tuple[Filled, ...]) -> str:
    """How many of the fills leak, are refused, or go wrong in an empty row; the last rule apart."""
    plain = [each for each in found if each.fill != "zeroed"]
    known = [each for each in plain if not each.refused]
    own = [each for each in found if each.fill == "zeroed"]
    counts = {
        "count": len(plain),
        "refused": len(plain) - len(known),
        "leaks": sum(not each.hides for each in known),
        "nan": sum(each.empty == "nan" for each in known),
        "spread": sum(each.empty in ("uniform", "unmasked", "other") for each in known),
    }
    words = view.t("masks.fills_reading", **counts)
    safe = all(each.hides and each.empty == "zero" for each in own)
    return f"{words} {view.t('masks.fills_own' if safe else 'masks.fills_own_not')}"


def _numbers(view: View, found: tuple[Filled, ...]) -> dict[str, list[object]]:
    return {
        view.t("masks.fill"): [_name(view, each.fill) for each in found],
        view.t("masks.dtype"): [each.dtype for each in found],
        view.t("masks.stored"): [
            view.t("masks.fill_refused") if each.refused else digits(each.stored, 8)
            for each in found
        ],
        view.t("masks.hidden_weight"): [fixed(each.hidden, 4) for each in found],
        view.t("masks.rounding"): [digits(each.rounding, 2) for each in found],
        view.t("masks.empty_row_became"): [_empty(view, each)[1] for each in found],
    }
