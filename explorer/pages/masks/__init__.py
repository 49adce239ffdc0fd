"""Masks: the matrices that the model really used, and what happens when they are changed."""

import streamlit as st

from explorer.analysis.heads.compare import Comparison, compare
from explorer.pages.masks.choices import MasksChoices
from explorer.pages.masks.conventions import conventions
from explorer.pages.masks.effects import effects
from explorer.pages.masks.fills import fill_values
from explorer.pages.masks.matrices import matrices
from explorer.pages.masks.purpose import purpose
from explorer.pages.masks.rules import rules
from explorer.ui import controls
from explorer.ui.current import latest
from explorer.ui.parts import pick_part
from explorer.ui.view import View
from models.masks import block_mask, causal_mask, padding_mask, prefix_mask, window_mask
from models.transformer import Stack


def render(view: View) -> None:
    """The page."""
    st.markdown(view.t("masks.lead"))
    st.markdown(view.t("masks.try"))
    _picture(view)


@st.fragment
def _picture(view: View) -> None:
    view = latest(view)
    part = pick_part(view, "masks", MasksChoices.parts)
    controls.sentence_line(view)
    rules(view)
    DRAW[part](view)


def _matrices(view: View) -> None:
    comparison = compare(view.before(), view.trace)
    matrices(view)
    purpose(view)
    effects(view, comparison)
    controls.small_print(
        view,
        "masks",
        formula=(
            r"\text{pattern}_{ij} = \frac{m_{ij}\,e^{s_{ij}}}{\sum_k m_{ik}\,e^{s_{ik}}},"
            r"\qquad m_{ij}\in\{0,1\}",
            r"m^{\text{encoder}}_{ij} = [\,j\ \text{real}\,],\quad "
            r"m^{\text{decoder}}_{ij} = [\,j\ \text{real}\,]\cdot[\,j\le i\,],\quad "
            r"m^{\text{cross}}_{ij} = [\,\text{source token}\ j\ \text{real}\,]",
        ),
        code=(Stack.run, causal_mask, padding_mask, window_mask, prefix_mask, block_mask),
        numbers=lambda: _numbers(view, comparison),
    )


def _numbers(view: View, comparison: Comparison) -> dict[str, list[object]]:
    rows = [
        (site, comparison.sites[site.name], view.trace.mask(site.name))
        for kind in view.kinds
        for site in view.trace.sites_of(kind)
    ]
    return {
        view.t("place.kind"): [view.t(f"kinds.{site.role}") for site, _, _ in rows],
        view.t("place.layer"): [site.layer + 1 for site, _, _ in rows],
        view.t("masks.open_cells"): [int(mask[0].sum()) for _, _, mask in rows],
        view.t("masks.blocked_cells"): [int((~mask[0]).sum()) for _, _, mask in rows],
        view.t("masks.largest_change"): [round(100 * each.max_abs, 4) for _, each, _ in rows],
    }


DRAW = {"matrices": _matrices, "conventions": conventions, "fills": fill_values}
