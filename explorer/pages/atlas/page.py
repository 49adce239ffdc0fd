"""Atlas: the behaviour of each head over a whole corpus, and its top sentences."""

from functools import partial

import streamlit as st

from explorer.exhibits.view import View
from explorer.pages.atlas.choices import AtlasChoices
from explorer.pages.atlas.compare import compared
from explorer.pages.atlas.heads import heads_csv, map_of_heads, sentences_csv
from explorer.pages.atlas.search import look_for
from explorer.pages.atlas.shown import Shown, shown_atlas
from explorer.problems import InputProblem
from explorer.ui import controls
from explorer.ui.current import latest
from explorer.ui.page import fragment
from explorer.ui.parts import pick_part
from explorer.ui.problem import show_problem
from explorer.ui.share import file_name, shared
from explorer.ui.stage import stage

DRAW = {"heads": map_of_heads, "compare": compared, "search": look_for}


def render(view: View) -> None:
    """Draw the page."""
    controls.opening(view, "atlas")
    _part(view)


@fragment
def _part(view: View) -> None:
    view = latest(view)
    kept: list[Shown] = []
    with shared(view, "atlas", more=lambda: _exports(kept)), stage():
        _drawn(view, kept)


def _drawn(view: View, kept: list[Shown]) -> None:
    """Draw the page below its introduction."""
    part = pick_part(view, "atlas", AtlasChoices.parts)
    try:
        shown = shown_atlas(view)
    except InputProblem as problem:
        show_problem(problem, view.lang)
        return
    if shown is None:
        return
    kept.append(shown)
    if shown.which.texts:
        st.info(
            view.t("atlas.no_file", model=view.loaded.name, count=len(shown.which.texts)),
            icon=":material/lightbulb:",
        )
    DRAW[part](shown)


def _exports(kept: list[Shown]) -> None:
    """Export the tables of the current atlas."""
    for shown in kept:
        view = shown.view
        for name, make in (("heads", heads_csv), ("sentences", sentences_csv)):
            st.download_button(
                view.t(f"atlas.csv_{name}"),
                partial(make, shown),
                f"{file_name(view, 'atlas')}-{name}.csv",
                "text/csv",
                key=f"atlas.take.{name}",
                on_click="ignore",
            )
