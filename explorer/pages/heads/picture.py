"""The linked view of all heads, and what was clicked in it."""

import numpy as np
import streamlit as st

from explorer.analysis.heads.ranks import need_map
from explorer.analysis.masks.reasons import blocked_by
from explorer.components import Measure, heads_view, sent_cell, sent_selection
from explorer.pages.heads.matter import with_progress
from explorer.pages.heads.opened import Opened
from explorer.pages.heads.reading import predictions
from explorer.runs.rerun import written_tokens
from explorer.ui import controls, session
from explorer.ui.share import file_name
from explorer.ui.view import View

KEY, BESIDE = "heads.view", "heads.beside"
SHARES = ("previous", "diagonal", "first", "end_mark", "alignment")


def take_clicks(view: View, key: str = KEY) -> bool:
    """Put what was just chosen in a picture into the state; whether anything was."""
    choice = Opened(view)
    chosen = sent_selection(key, _shape(choice), len(choice.aggregates))
    if chosen is None:
        return False
    choice.take(chosen)
    return True


def go_down(view: View, key: str = KEY, left: View | None = None) -> None:
    """To the Cell page, where the way down into a cell was just taken in a picture.

    `left` is the view to the left of this one: the two sentences then swap places, since the other
    pages are about the first.
    """
    place = sent_cell(key, _shape(Opened(view)))
    if place is None:
        return
    if left is not None:
        sentences = left.text, *view.others[1:]
        session.change(text=view.text, target=None, beside="\n".join(sentences))
    layer, head, row, column = place
    session.change(layer=layer, head=head, row=row, key=column, goal=None)
    session.visit("cell")


def _shape(choice: Opened) -> tuple[int, int, int, int]:
    """[layer, head, query, key] of all heads of the view's kind."""
    n_query, n_key = choice.view.trace.mask(choice.view.site.name).shape[-2:]
    return len(choice.sites), choice.view.site.n_heads, n_query, n_key


def linked_heads(choice: Opened, other: Opened | None) -> None:
    """The heads on this sentence and, where there is one, on the sentence beside it."""
    if other is None:
        _heads(choice, KEY)
        return
    for column, each, key in zip(
        st.columns(2, gap="large"), (choice, other), (KEY, BESIDE), strict=True
    ):
        with column:
            controls.sentence_line(each.view, f"sentence-{key}")
            _heads(each, key)


def _heads(choice: Opened, key: str) -> None:
    """All heads, the shown ones large, as heatmap and as text."""
    view, trace = choice.view, choice.view.trace
    aggregates = choice.aggregates

    def why(layer: int, head: int) -> list[list[str]]:
        return controls.blocker_words(view, blocked_by(trace, choice.sites[layer].name)[head])

    heads_view(
        np.stack([trace.pattern(site.name) for site in choice.sites]),
        mask=np.stack([trace.mask(site.name) for site in choice.sites]),
        query_tokens=trace.query_tokens(view.site.name),
        key_tokens=trace.key_tokens(view.site.name),
        about_to_write=predictions(view),
        blocked_by=why,
        aggregates={
            choice.aggregate_name(aggregate): aggregate.pattern for aggregate in aggregates
        },
        aggregates_mask=np.stack([aggregate.mask for aggregate in aggregates]),
        measure=_measure(choice),
        selection=choice.selection,
        file=file_name(view, "heads"),
        words=view.words("components.heads_view"),
        key=key,
        **controls.place_titles(view),
    )


def _measure(choice: Opened) -> Measure | None:
    view, name = choice.view, choice.measure
    if name is None:
        return None
    title = view.t(f"heads.measures.{name}")
    if name == "needed":
        if not written_tokens(view.trace):
            return None
        return Measure(title, need_map(with_progress(view), choice.kind))
    return Measure(title, choice.measures[name], percent=name in SHARES)
