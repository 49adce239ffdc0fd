"""Shared by the parts of the page: names of patches, and results of a patched run."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import streamlit as st

from explorer.analysis.patching.maps import BY_HEAD, Cell, Map, What
from explorer.analysis.patching.pair import Pair
from explorer.analysis.patching.patched import PatchedRun
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.figures.patching.effect_map import Block, effect_map
from explorer.numbers import percent, whole_percent
from explorer.ui import controls
from explorer.ui.tables import table
from models.rows import Stream


def said(share: float) -> str:
    """Format a recovered share, which may be negative: −12 %."""
    return whole_percent(round(share, 2) + 0.0).replace("-", "−")


def part_name(view: View, name: str) -> str:
    """The name of a part of a map."""
    return view.stream(name) if name in ("src", "tgt") else view.t(f"kinds.{name}")


def row_name(view: View, what: What, row: int) -> str:
    """The name of a row of a map: the residual stream after a layer, or a layer."""
    if what != "resid":
        return view.t("patching.in_layer", layer=row + 1)
    return view.t("patching.embedding" if row == 0 else "patching.after_layer", layer=row)


def column_labels(both: Pair, stream: Stream) -> list[str]:
    """The tokens of the patched text; where the other text differs, its token comes first."""
    theirs, own = both.str_tokens[stream]
    source = {b: theirs[a] for a, b in both.places[stream]}
    return [
        token if source.get(at, token) == token else f"{source[at]}→{token}"
        for at, token in enumerate(own)
    ]


def stream_of(name: str) -> Stream:
    """The stream of a part of a map by position."""
    return "src" if name == "src" else "tgt"


def head_words(view: View, cell: Cell) -> str:
    """The name of a head, for use in a sentence."""
    kind = view.t(f"kinds.{cell[0]}")
    kind = kind[0].lower() + kind[1:]
    return view.t("patching.head_words", kind=kind, layer=cell[1] + 1, head=cell[2] + 1)


def cell_words(view: View, both: Pair, what: What, cell: Cell) -> str:
    """The name of a cell of a map."""
    name, row, column = cell
    if what in BY_HEAD:
        return view.t(
            "patching.cell_head",
            what=view.t(f"patching.whats.{what}"),
            head=head_words(view, cell),
        )
    stream = stream_of(name)
    return view.t(
        "patching.cell_place",
        what=view.t(f"patching.whats.{what}"),
        stream=part_name(view, name),
        row=row_name(view, what, row),
        word=controls.quoted_at(view, both.str_tokens[stream][1], column),
    )


def run_tables(view: View, found: PatchedRun) -> None:
    """Probabilities and output of a patched run, compared with the two original runs."""
    names = [view.t(f"patching.run_{name}") for name in ("first", "second", "patched")]
    left, right = st.columns([2, 3], gap="large")
    with left:
        table(
            (view.t("patching.token"), *names),
            [
                (escape(each.str_token), *(percent(share) for share in each.probs))
                for each in found.answers
            ],
        )
    with right:
        table(
            ("", view.t("patching.writes")),
            [(name, escape(text) or "–") for name, text in zip(names, found.texts, strict=True)],
            "ll",
        )


def blocks(view: View, both: Pair, mapped: Map) -> list[Block]:
    """A map as the blocks of `figures.patching.effect_map`."""
    found = []
    for part in mapped.parts:
        stream = None if mapped.what in BY_HEAD else stream_of(part.name)
        begins = 0 if mapped.what == "resid" else 1
        rows = [str(begins + row) for row in range(len(part.effects))]
        columns = None if stream is None else column_labels(both, stream)
        found.append(Block(part_name(view, part.name), part.effects, rows, columns, stream))
    return found


def draw_map(
    view: View,
    both: Pair,
    mapped: Map,
    shown: Cell,
    name: str,
    choose: Callable[[Cell], None],
) -> None:
    """Draw a map with one cell outlined; a click passes a cell to `choose`."""
    names = [part.name for part in mapped.parts]
    cells = [
        (part.name, row, column)
        for part in mapped.parts
        for row, column in np.ndindex(part.effects.shape)
    ]
    figure = effect_map(
        blocks(view, both, mapped),
        selected=(names.index(shown[0]), shown[1], shown[2]),
        title=view.t("place.head"),
        rows_title=view.t("patching.rows" if mapped.what == "resid" else "place.layer"),
        dark=view.dark,
        words=view.words("figures.effect_map"),
    )
    # A new key per click resets the chart's click, so that the same cell can be clicked again.
    turn = st.session_state.setdefault(f"{name}.turn", 0)
    key = f"{name}.{turn}"
    controls.chart(
        figure,
        key,
        alt=view.t("patching.map"),
        on_select=partial(_look, name, key, cells, choose),
        selection_mode="points",
    )


def _look(name: str, key: str, cells: Sequence[Cell], choose: Callable[[Cell], None]) -> None:
    point = controls.clicked_point(key, len(cells))
    if point is not None:
        st.session_state[f"{name}.turn"] += 1
        choose(cells[point])
