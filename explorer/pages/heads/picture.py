"""The linked view of all heads, and what was clicked in it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from explorer.analysis.heads.measures import HeadMeasure
from explorer.analysis.heads.ranks import need_map
from explorer.components import (
    HeadGrid,
    HeadsSelection,
    Measure,
    heads_view,
    sent_cell,
    sent_selection,
)
from explorer.engine import cache, jobs
from explorer.exhibits.heads.grids import grid_of
from explorer.exhibits.heads.linked import measure_of, options
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.view import View
from explorer.pages.heads.matter import begun
from explorer.runs.rerun import written_tokens
from explorer.ui import controls, running, session
from explorer.ui.share import file_name

KEY, BESIDE = "heads.view", "heads.beside"
Result = TypeVar("Result")


def take_clicks(view: View, key: str = KEY) -> bool:
    """Store a selection from a picture in the state; return whether there was one."""
    choice = Opened(view)
    chosen = sent_selection(key, shape_of(choice), len(choice.aggregates))
    if chosen is None:
        return False
    session.change(**choice.chosen(by_token(choice, chosen)))
    return True


def go_down(view: View, key: str = KEY, left: View | None = None) -> None:
    """Go to the Cell page if a cell's link was just clicked in a picture.

    `left` is the view to the left of this one: the two sentences then swap places, since all other
    pages show the first one.
    """
    place = sent_cell(key, shape_of(Opened(view)))
    if place is None:
        return
    if left is not None:
        sentences = left.text, *view.others[1:]
        session.change(text=view.text, target=None, beside="\n".join(sentences))
    layer, head, row, column = place
    row, column = tokens_at(Opened(view), row, column)
    session.change(layer=layer, head=head, row=row, key=column, goal=None)
    session.visit("cell")


def tokens_at(choice: Opened, row: int, column: int) -> tuple[int, int]:
    """The query and key tokens of a cell; in a picture by word, the first token of each word."""
    if choice.words is None:
        return row, column
    return choice.words[0].starts[row], choice.words[1].starts[column]


def shape_of(choice: Opened) -> tuple[int, int, int, int]:
    """[layer, head, query, key] of all heads of the view's kind."""
    n_query, n_key = choice.view.trace.mask(choice.view.site.name).shape[-2:]
    if choice.words is not None:
        n_query, n_key = (len(words.starts) for words in choice.words)
    return len(choice.sites), choice.view.site.n_heads, n_query, n_key


def by_token(choice: Opened, chosen: HeadsSelection) -> HeadsSelection:
    """A selection converted from words to tokens: the first token of each word."""
    if choice.words is None:
        return chosen
    queries, keys = choice.words
    return replace(
        chosen,
        query=None if chosen.query is None else queries.starts[chosen.query],
        key=None if chosen.key is None else keys.starts[chosen.key],
    )


def linked_heads(choice: Opened, other: Opened | None) -> None:
    """The heads for this sentence and for the second sentence, if any."""
    if other is None:
        draw_heads(choice, KEY)
        return
    for column, each, key in zip(
        st.columns(2, gap="large"), (choice, other), (KEY, BESIDE), strict=True
    ):
        with column:
            controls.sentence_line(each.view, f"sentence-{key}")
            draw_heads(each, key)


def draw_heads(choice: Opened, key: str) -> None:
    """All heads; the shown ones large, as heatmap and text."""
    small = _small(choice, key)
    if small is not None:
        given = options(choice, _measure(choice, key))
        heads_view(small, key=key, file=file_name(choice.view, "heads"), **given)


def _small(choice: Opened, key: str) -> HeadGrid | None:
    """Thumbnails of all heads; None while computing (long texts) or after a stop."""
    view, by_words = choice.view, choice.words is not None
    if view.trace.patterns_kept:
        return grid_of(view.run, choice.kind, by_words)
    make = partial(grid_of, view.run, choice.kind, by_words)
    return _by_layers(choice, f"{key}.grid", by_words, make)


def _measures(choice: Opened, key: str) -> dict[HeadMeasure, NDArray[np.float64]] | None:
    """Maps [layer, head] by measure; None as in `_small`."""
    view = choice.view
    if view.trace.patterns_kept:
        return cache.measures(view.run, choice.kind)
    make = partial(cache.measures, view.run, choice.kind)
    return _by_layers(choice, f"{key}.measures", False, make)


def _by_layers(
    choice: Opened, name: str, by_words: bool, make: Callable[..., Result]
) -> Result | None:
    """Run a computation over all layers, with a progress bar and a stop button."""
    view = choice.view
    return running.awaited(
        name,
        (view.run, choice.kind, by_words),
        lambda tell: make(progress=jobs.whole(tell)),
        view.t("heads.working"),
        view.lang,
    )


def _measure(choice: Opened, key: str) -> Measure | None:
    view, name = choice.view, choice.measure
    if name is None:
        return None
    values: NDArray[np.float64] | None = None
    if name == "needed":
        ablation = begun(view) if written_tokens(view.trace) else None
        values = None if ablation is None else need_map(ablation, choice.kind)
    elif name == "differs":
        values = choice.differs
    else:
        values = (_measures(choice, key) or {}).get(cast(HeadMeasure, name))
    return measure_of(view, name, values)
