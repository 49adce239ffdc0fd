"""The linked view of all heads: what it shows of a run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.heads.measures import HeadMeasure
from explorer.analysis.heads.ranks import need_map
from explorer.components import HeadsSelection, Measure
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.exhibits import View
from explorer.exhibits.heads.grids import ablation
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.pictured import picture_axis
from explorer.exhibits.reasons import blocked_by
from explorer.exhibits.saying import blocker_words, site_titles
from explorer.runs.rerun import written_tokens
from models.hooks import Role

SHARES = ("previous", "diagonal", "first", "end_mark", "alignment")


def options(choice: Opened, measure: Measure | None) -> dict[str, Any]:
    """The arguments of `heads_view` besides the thumbnails, its key and the name of its file."""
    view, trace = choice.view, choice.view.trace
    query_tokens = trace.query_tokens(view.site.name)
    key_tokens = trace.key_tokens(view.site.name)
    about_to_write = predictions(view)
    starts: tuple[Any, ...] = (slice(None), slice(None))
    if choice.words is not None:
        queries, keys = choice.words
        query_tokens, key_tokens = queries.labels, keys.labels
        starts = np.ix_(queries.starts, keys.starts)
        if about_to_write is not None:  # a word's prediction is at its last token
            ends = (*queries.starts[1:], len(about_to_write))
            about_to_write = [about_to_write[end - 1] for end in ends]

    def why(layer: int, head: int) -> list[list[str]]:
        names = blocked_by(trace, choice.sites[layer].name)[head]
        return blocker_words(view, names[starts])

    return {
        "cells_of": lambda address: choice.cells(choice.at(address)),
        "query_tokens": query_tokens,
        "key_tokens": key_tokens,
        "about_to_write": about_to_write,
        "blocked_by": why,
        "aggregates": {choice.aggregate_name(each): each.pattern for each in choice.aggregates},
        "measure": measure,
        "picture": None if choice.words is not None else picture_axis(trace, view.site),
        "selection": _by_word(choice),
        "words": view.words("components.heads_view"),
        **site_titles(view),
    }


def values_of(
    run: Run, kind: Role, name: str, progress: Callable[[int, int], None] | None = None
) -> NDArray[np.float64] | None:
    """A measure of each head of a run, [layer, head]; None if it cannot be computed for one run.
    Raises InputProblem."""
    if name == "needed":
        written = written_tokens(cache.trace(run))
        return need_map(ablation(run, progress=progress), kind) if written else None
    return cache.measures(run, kind, progress=progress).get(cast(HeadMeasure, name))


def measure_of(view: View, name: str, values: NDArray[np.float64] | None) -> Measure | None:
    """A measure of all heads with its title; None without values."""
    title = view.t(f"heads.measures.{name}")
    return None if values is None else Measure(title, values, percent=name in SHARES)


def _by_word(choice: Opened) -> HeadsSelection:
    """The selection in the picture's units: by word if the picture is by word."""
    chosen = choice.selection
    if choice.words is None:
        return chosen
    queries, keys = choice.words
    return replace(
        chosen,
        query=None if chosen.query is None else queries.of(chosen.query),
        key=None if chosen.key is None else keys.of(chosen.key),
    )


def predictions(view: View) -> list[str] | None:
    """The prediction at each query of the open kind of attention; "" for padding.

    None if there are no predictions: in the encoder of an encoder-decoder, or without an LM head.
    """
    if view.site.query_stream != "tgt" or not view.trace.config.lm_head:
        return None
    tokens = view.trace.predicted_str_tokens
    return [token if real else "" for token, real in zip(tokens, view.trace.tgt_valid, strict=True)]
