"""Patching: activations of one run replaced in another, and the share of the answer recovered."""

from collections.abc import Callable

import streamlit as st

from explorer.exhibits.view import View
from explorer.pages.patching.choices import PatchingChoices
from explorer.pages.patching.flow import back_to_the_words
from explorer.pages.patching.patch import single_patches
from explorer.pages.patching.paths import head_to_head
from explorer.ui import controls
from explorer.ui.page import draw_page
from explorer.ui.parts import pick_part

DRAW: dict[str, Callable[[View], None]] = {
    "patch": single_patches,
    "paths": head_to_head,
    "flow": back_to_the_words,
}


def render(view: View) -> None:
    """Draw the page."""
    draw_page(view, "patching", _drawn)


def _drawn(view: View) -> None:
    """Draw the page below its introduction."""
    silent = view.trace.predicts is None
    part = pick_part(view, "patching", ("flow",) if silent else PatchingChoices.parts)
    controls.edits_bar(view, "patching.reset")
    if silent:
        st.info(view.t("patching.no_logits"), icon=":material/lightbulb:")
    DRAW[part](view)
