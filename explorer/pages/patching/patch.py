"""Single patches: a map of what each brings back, and the run of the one that is looked at."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st

from explorer.analysis.patching.maps import (
    BY_HEAD,
    BY_PLACE,
    DRAWS,
    Cell,
    Map,
    Part,
    What,
    by_head,
    by_place,
    n_cells,
    patch_map,
)
from explorer.analysis.patching.pair import Pair, pair
from explorer.analysis.patching.patched import patched_run, written
from explorer.analysis.patching.patches import patching, read_patched
from explorer.figures.patching.effect_map import Block, effect_map
from explorer.numbers import fixed, percent, signed, whole_percent
from explorer.pages.patching import cached
from explorer.pages.patching.cached import Asked
from explorer.pages.patching.choices import PatchingChoices
from explorer.pages.patching.second import two_runs
from explorer.ui import controls, session
from explorer.ui.escape import escape
from explorer.ui.parts import pick_one
from explorer.ui.stage import hero
from explorer.ui.tables import table
from explorer.ui.view import View
from explorer.ui.work import running
from models.rows import Stream

JOB = "patching.map"
AT_ONCE = 1e11
"""Tokens read times parameters up to which the wait (10 s on a slow core) is too short to ask."""
HALF = 0.5
"""The share of an answer from which a position is said to carry it."""
LITTLE = 0.1
"""The share of an answer up to which a patch is said to bring back little."""


def single_patches(view: View) -> None:
    """The part: two sentences, the map, its sentence, the patched run."""
    found = two_runs(view)
    if found is None:
        return
    asked, both = found
    what = _pick_what(view, both)
    if both.alike:
        st.info(
            view.t("patching.alike", answer=controls.quoted(view, both.str_answers[0])),
            icon=":material/lightbulb:",
        )
        return
    if not _wanted(view, asked, both, what):
        return
    mapped = running.awaited(
        JOB,
        (asked, what),
        lambda tell: cached.map_of(asked, what, progress=running.whole(tell)),
        view.t("patching.working"),
        view.lang,
    )
    if mapped is None:
        return
    cell = view.choices(PatchingChoices).cell
    shown = cell if mapped.has(cell) and cell is not None else telling(mapped)
    with controls.reading_first():
        controls.reading("patching", _reading(view, both, mapped))
        with hero():
            _map(view, both, mapped, shown)
    _chance(view, mapped)
    _run(view, asked, both, mapped, shown)
    controls.small_print(
        view,
        "patching",
        formula=(
            r"\text{recovered} = \frac{\Delta_\text{patched} - \Delta_2}{\Delta_1 - \Delta_2}, "
            r"\qquad \Delta = \mathrm{logit}(a_1) - \mathrm{logit}(a_2)",
        ),
        code=(patch_map, pair, read_patched, patching, patched_run, written),
        numbers=lambda: _numbers(view, both, mapped),
    )


def telling(mapped: Map) -> Cell:
    """The cell that is looked at first: of about the best ones the nearest to the answer, without
    those that are so by construction: an exchanged word's embedding, the last vector of all."""
    known = [
        (round(float(value), 1), row, float(value), column, part.name)
        for part in mapped.parts
        for (row, column), value in np.ndenumerate(part.effects)
        if not math.isnan(value) and not _given(mapped.what, part, row)
    ]
    if not known:
        return mapped.best()
    _, row, _, column, name = max(known)
    return name, row, column


def _pick_what(view: View, both: Pair) -> What:
    offered: tuple[What, ...] = (*by_place(view.trace.stacks), *by_head(both))
    if view.choices(PatchingChoices).what == "pattern" and "pattern" not in offered:
        st.caption(view.t("patching.no_pattern"))
    return pick_one(
        view,
        "what",
        view.t("patching.what"),
        offered,
        "patching.what",
        lambda what: view.t(f"patching.whats.{what}"),
        help=view.t("patching.what_help"),
    )


def _given(what: What, part: Part, row: int) -> bool:
    """Whether a row of a map is as it is by construction."""
    return what == "resid" and (row == 0 or (part.name == "tgt" and row + 1 == len(part.effects)))


def _wanted(view: View, asked: Asked, both: Pair, what: What) -> bool:
    """Whether to compute the map: it is known, or quick, or somebody asked for it."""
    loaded = view.loaded
    n_tokens = sum(len(each[1]) for each in both.str_tokens.values())
    n_patches = n_cells(loaded, both, what)
    size = sum(each.numel() for each in loaded.model.parameters())
    if (1 + DRAWS) * n_patches * n_tokens * size <= AT_ONCE or cached.map_of.is_kept(asked, what):
        return True
    job = st.session_state.get(JOB)
    if job is not None and job.key == (asked, what):
        return True
    st.markdown(view.t("patching.ask", count=n_patches))
    return st.button(view.t("patching.run"), key="patching.run")


def _part_name(view: View, name: str) -> str:
    return view.stream(name) if name in ("src", "tgt") else view.t(f"kinds.{name}")


def _row_name(view: View, what: What, row: int) -> str:
    """A row of a map in words: the stream behind a layer, or a layer."""
    if what != "resid":
        return view.t("patching.in_layer", layer=row + 1)
    return view.t("patching.embedding" if row == 0 else "patching.after_layer", layer=row)


def _columns(both: Pair, stream: Stream) -> list[str]:
    """The tokens of the patched text; where another one stands in the other, that one before."""
    theirs, own = both.str_tokens[stream]
    source = {b: theirs[a] for a, b in both.places[stream]}
    return [
        token if source.get(at, token) == token else f"{source[at]}→{token}"
        for at, token in enumerate(own)
    ]


def _blocks(view: View, both: Pair, mapped: Map) -> list[Block]:
    found = []
    for part in mapped.parts:
        stream = None if mapped.what in BY_HEAD else _stream(part)
        begins = 0 if mapped.what == "resid" else 1
        rows = [str(begins + row) for row in range(len(part.effects))]
        columns = None if stream is None else _columns(both, stream)
        found.append(Block(_part_name(view, part.name), part.effects, rows, columns, stream))
    return found


def _map(view: View, both: Pair, mapped: Map, shown: Cell) -> None:
    names = [part.name for part in mapped.parts]
    cells = [
        (part.name, row, column)
        for part in mapped.parts
        for row, column in np.ndindex(part.effects.shape)
    ]
    figure = effect_map(
        _blocks(view, both, mapped),
        selected=(names.index(shown[0]), shown[1], shown[2]),
        title=view.t("place.head"),
        rows_title=view.t("patching.rows" if mapped.what == "resid" else "place.layer"),
        dark=view.dark,
        words=view.words("figures.effect_map"),
    )
    # A new key for each click: the chart forgets it, so that the same cell can be clicked again.
    turn = st.session_state.setdefault("patching.map.turn", 0)
    key = f"patching.map.{turn}"
    controls.chart(
        figure,
        key,
        alt=view.t("patching.map"),
        on_select=partial(_look, key, cells),
        selection_mode="points",
    )


def _look(key: str, cells: Sequence[Cell]) -> None:
    point = controls.clicked_point(key, len(cells))
    if point is not None:
        st.session_state["patching.map.turn"] += 1
        session.change(cell=cells[point])


def _reading(view: View, both: Pair, mapped: Map) -> str:
    """What the map says, in one or two sentences."""
    if mapped.what == "resid":
        return " ".join([_carried(view, both, mapped), _arrived(view, both, mapped)]).strip()
    cell = telling(mapped)
    effect = mapped.effect(cell)
    values = np.concatenate([part.effects.ravel() for part in mapped.parts])
    return view.t(
        "patching.read_best" if effect >= LITTLE else "patching.read_little",
        place=_cell_words(view, both, mapped.what, cell),
        effect=whole_percent(effect),
        some=int((values >= LITTLE).sum()),
        count=int((~np.isnan(values)).sum()),
        limit=whole_percent(LITTLE),
    )


def _carried(view: View, both: Pair, mapped: Map) -> str:
    """How long one word of what was given carries the answer."""
    part = mapped.parts[0]
    known = np.nan_to_num(part.effects, nan=-np.inf)
    column = int(known[min(1, len(known) - 1)].argmax())
    rows = np.flatnonzero(known[:, column] >= HALF)
    if not rows.size:
        return view.t("patching.read_spread", effect=whole_percent(float(known.max())))
    row = int(rows[-1])
    return view.t(
        "patching.read_carried",
        word=controls.quoted_at(view, both.str_tokens[_stream(part)][1], column),
        stream=_part_name(view, part.name),
        place=_row_name(view, "resid", row),
        effect=whole_percent(float(known[row, column])),
    )


def _arrived(view: View, both: Pair, mapped: Map) -> str:
    """In which layer the answer reaches the position that says it."""
    effects = mapped.parts[-1].effects[:, both.question.places[1]]
    rows = np.flatnonzero(effects >= HALF)
    if not rows.size or rows[0] == 0:  # it was there from the beginning
        return ""
    row = int(rows[0])
    return view.t(
        "patching.read_arrived",
        layer=row,
        before=whole_percent(float(effects[row - 1])).replace("-", "−"),
        after=whole_percent(float(effects[row])),
    )


def _stream(part: Part) -> Stream:
    return "src" if part.name == "src" else "tgt"


def _cell_words(view: View, both: Pair, what: What, cell: Cell) -> str:
    """A cell of a map in words."""
    name, row, column = cell
    if what in BY_HEAD:
        return view.t(
            "patching.cell_head",
            what=view.t(f"patching.whats.{what}"),
            kind=view.t(f"kinds.{name}"),
            layer=row + 1,
            head=column + 1,
        )
    stream: Stream = "src" if name == "src" else "tgt"
    return view.t(
        "patching.cell_place",
        what=view.t(f"patching.whats.{what}"),
        stream=_part_name(view, name),
        row=_row_name(view, what, row),
        word=controls.quoted_at(view, both.str_tokens[stream][1], column),
    )


def _chance(view: View, mapped: Map) -> None:
    """What misplaced activations bring back."""
    mean, spread, most = mapped.chance
    if math.isnan(mean):
        st.caption(view.t("patching.no_chance"))
        return
    key = "patching.chance_place" if mapped.what in BY_PLACE else "patching.chance_head"
    if mapped.what == "pattern":
        key = "patching.chance_pattern"
    mean_said, most_said = (whole_percent(each).replace("-", "−") for each in (mean, most))
    spread_said = whole_percent(spread)
    st.caption(view.t(key, draws=DRAWS, mean=mean_said, spread=spread_said, most=most_said))


def _run(view: View, asked: Asked, both: Pair, mapped: Map, shown: Cell) -> None:
    """The patched run: what it finds probable, what it writes, and its own control."""
    st.subheader(view.t("patching.run_title"), anchor=False)
    if math.isnan(mapped.effect(shown)):
        st.caption(view.t("patching.no_patch"))
        return
    found = cached.run_of(asked, mapped.what, shown)
    st.markdown(
        view.t(
            "patching.run_reading",
            place=_cell_words(view, both, mapped.what, shown),
            effect=whole_percent(found.effect).replace("-", "−"),
        )
    )
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
    _elsewhere(view, asked, both, mapped.what, shown)


def _elsewhere(view: View, asked: Asked, both: Pair, what: What, shown: Cell) -> None:
    """One strip: the same activation at other positions, or the head one position at a time."""
    placed = what in BY_PLACE
    found = running.awaited(
        "patching.elsewhere",
        (asked, what, shown),
        lambda tell: cached.elsewhere(asked, what, shown, progress=running.whole(tell)),
        view.t("patching.working"),
        view.lang,
    )
    if found is None:
        return
    places, shares = found
    if not places:
        return
    if placed:
        stream: Stream = "src" if shown[0] == "src" else "tgt"
    else:
        site = next(s for s in view.trace.sites if (s.role, s.layer) == shown[:2])
        stream = site.key_stream if what in ("k", "v") else site.query_stream
    columns = _columns(both, stream)
    values = np.full((1, len(columns)), np.nan)
    values[0, list(places)] = shares
    key = "patching.elsewhere" if placed else "patching.by_position"
    st.caption(
        view.t(
            key,
            mean=whole_percent(float(shares.mean())).replace("-", "−"),
            least=whole_percent(float(shares.min())).replace("-", "−"),
            most=whole_percent(float(shares.max())).replace("-", "−"),
        )
    )
    figure = effect_map(
        [Block(view.stream(stream), values, [""], columns, stream)],
        dark=view.dark,
        words=view.words("figures.effect_map"),
    )
    controls.chart(figure, "patching.strip", alt=view.t(f"{key}_alt"))


def _numbers(view: View, both: Pair, mapped: Map) -> dict[str, list[object]]:
    cells = [
        ((part.name, row, column), float(value))
        for part in mapped.parts
        for (row, column), value in np.ndenumerate(part.effects)
        if not math.isnan(value)
    ]
    first, second = both.gaps
    return {
        view.t("patching.patch"): [_cell_words(view, both, mapped.what, cell) for cell, _ in cells],
        view.t("patching.recovered"): [fixed(value, 3) for _, value in cells],
        view.t("patching.difference"): [
            signed(second + value * (first - second), 3) for _, value in cells
        ],
    }
