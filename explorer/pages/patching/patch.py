"""Single patches: a map of the share that each recovers, and the run of the selected one."""

import math

import numpy as np
import streamlit as st

from explorer.analysis.patching.maps import (
    ALARM_MAPS,
    ALARMS,
    BY_PLACE,
    DRAWS,
    Cell,
    Map,
    Part,
    What,
    by_head,
    by_place,
    n_patches,
    patch_map,
)
from explorer.analysis.patching.pair import Pair, pair
from explorer.analysis.patching.patched import patched_run, written
from explorer.analysis.patching.patches import patching, read_patched
from explorer.engine import jobs
from explorer.exhibits.saying import in_a_row
from explorer.exhibits.view import View
from explorer.figures.patching.effect_map import Block, effect_map
from explorer.numbers import fixed, percent, signed
from explorer.pages.patching import cached
from explorer.pages.patching.cached import Asked
from explorer.pages.patching.choices import PatchingChoices
from explorer.pages.patching.second import two_runs
from explorer.pages.patching.shown import (
    cell_words,
    column_labels,
    draw_map,
    part_name,
    run_tables,
    said,
    stream_of,
)
from explorer.ui import controls, running, session
from explorer.ui.stage import hero

JOB = "patching.map"
AT_ONCE = 1e11
"""Most tokens times parameters computed without a click (10 s on a slow core)."""
HALF = 0.5
"""Smallest share of the answer at which a position is said to hold it."""
LITTLE = 0.1
"""Largest share of the answer that counts as recovering little."""


def single_patches(view: View) -> None:
    """Draw this part: two sentences, the map, its reading, the patched run."""
    found = two_runs(view)
    if found is None:
        return
    asked, both, row = found
    with row:
        what = _pick_what(view, both)
    if both.alike:
        nothing_to_bring_back(view, both)
        return
    mapped = computed_map(view, asked, both, what)
    if mapped is None:
        return
    cell = view.choices(PatchingChoices).cell
    shown = cell if mapped.has(cell) and cell is not None else telling(mapped)
    with controls.reading_first():
        controls.reading("patching", _reading(view, both, mapped))
        with hero():
            draw_map(
                view, both, mapped, shown, "patching.map", lambda cell: session.change(cell=cell)
            )
    chance(view, mapped)
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


def nothing_to_bring_back(view: View, both: Pair) -> None:
    """Explain that both runs give the same answer."""
    answer = controls.quoted(view, both.str_answers[0])
    st.info(view.t("patching.alike", answer=answer), icon=":material/lightbulb:")


def computed_map(view: View, asked: Asked, both: Pair, what: What) -> Map | None:
    """The map; None until requested, while computing, or after a stop."""
    if not _wanted(view, asked, both, what):
        return None
    return running.awaited(
        JOB,
        (asked, what),
        lambda tell: cached.map_of(asked, what, progress=jobs.whole(tell)),
        view.t("patching.working"),
        view.lang,
    )


def telling(mapped: Map) -> Cell:
    """The cell selected by default: the best. In the stream, of the nearly best ones, the nearest
    to the answer, except those that recover it by construction (a replaced word's embedding, the
    last vector)."""
    if mapped.what != "resid":
        return mapped.best()
    known = [
        (round(float(value), 1), row, float(value), column, part.name)
        for part in mapped.parts
        for (row, column), value in np.ndenumerate(part.effects)
        if not math.isnan(value) and row > 0 and not _last(part, row)
    ]
    if not known:
        return mapped.best()
    _, row, _, column, name = max(known)
    return name, row, column


def _pick_what(view: View, both: Pair) -> What:
    offered: tuple[What, ...] = (*by_place(view.trace.stacks), *by_head(both))
    if view.choices(PatchingChoices).what == "pattern" and "pattern" not in offered:
        st.caption(view.t("patching.no_pattern"))
    kept = view.choices(PatchingChoices).what
    now: What = next((what for what in offered if what == kept), "resid")
    with st.container(width=260):
        controls.pick(
            view.t("patching.what"),
            offered,
            now,
            "patching.what",
            lambda what: session.change(what=what),
            format_func=lambda what: view.t(f"patching.whats.{what}"),
            help=view.t("patching.what_help"),
        )
    return now


def _last(part: Part, row: int) -> bool:
    """Whether a row of the stream is the vector from which the answer is read."""
    return part.name == "tgt" and row + 1 == len(part.effects)


def _wanted(view: View, asked: Asked, both: Pair, what: What) -> bool:
    """Whether to compute the map: it is cached, quick, or requested."""
    loaded = view.loaded
    n_tokens = sum(len(each[1]) for each in both.str_tokens.values())
    count, n_runs = n_patches(loaded, both, what)
    size = loaded.n_parameters
    if n_runs * n_tokens * size <= AT_ONCE or cached.map_of.is_kept(asked, what):
        return True
    job = st.session_state.get(JOB)
    if job is not None and job.key == (asked, what):
        return True
    st.markdown(view.t("patching.ask", count=count, controls=f"{n_runs - count:,}"))
    return st.button(view.t("patching.run"), key="patching.run")


def _reading(view: View, both: Pair, mapped: Map) -> str:
    """The reading of the map, in one or two sentences."""
    if mapped.what == "resid":
        return in_a_row([*_carried(view, both, mapped), _arrived(view, both, mapped)])
    cell = mapped.best()
    effect = mapped.effect(cell)
    values = np.concatenate([part.effects.ravel() for part in mapped.parts])
    words = view.t(
        "patching.read_best" if effect >= LITTLE else "patching.read_little",
        place=cell_words(view, both, mapped.what, cell),
        effect=said(effect),
        some=int((values >= LITTLE).sum()),
        count=int((~np.isnan(values)).sum()),
        limit=said(LITTLE),
        together=said(mapped.together),
    )
    return in_a_row([words, against_chance(view, mapped, effect)]) if effect >= LITTLE else words


def against_chance(view: View, mapped: Map, effect: float) -> str:
    """Whether a patch recovers clearly more than the best of every map of misplaced activations; ""
    if there are none."""
    most = mapped.chance[2]
    if math.isnan(most):
        return ""
    key = "patching.above_chance" if mapped.beats_chance(effect) else "patching.within_chance"
    rate = percent(1 / (DRAWS + 1))
    return view.t(key, most=said(most), draws=DRAWS, rate=rate, alarms=ALARMS, maps=ALARM_MAPS)


def _carried(view: View, both: Pair, mapped: Map) -> tuple[str, ...]:
    """Up to which layer the replaced word alone determines the answer. An embedding does so by
    construction; a later vector is compared with chance."""
    part = mapped.parts[0]
    known = np.nan_to_num(part.effects, nan=-np.inf)
    column = int(known[0].argmax())
    rows = np.flatnonzero(known[:, column] >= HALF)
    row = int(rows[-1]) if rows.size else 0
    key = "patching.read_left" if row == 0 else "patching.read_carried"
    effect = float(known[row, column])
    words = view.t(
        key if rows.size else "patching.read_spread",
        word=controls.quoted_at(view, both.str_tokens[stream_of(part.name)][1], column),
        stream=part_name(view, part.name),
        layer=row,
        effect=said(effect),
        next=said(float(known[min(row + 1, len(known) - 1), column])),
    )
    return (words, against_chance(view, mapped, effect)) if row else (words,)


def _arrived(view: View, both: Pair, mapped: Map) -> str:
    """The layer in which the answer reaches the predicting position."""
    effects = mapped.parts[-1].effects[:, both.question.places[1]]
    rows = np.flatnonzero(effects >= HALF)
    if not rows.size or rows[0] == 0:  # it was there from the first layer
        return ""
    row = int(rows[0])
    return view.t(
        "patching.read_arrived",
        layer=row,
        before=said(float(effects[row - 1])),
        after=said(float(effects[row])),
    )


def chance(view: View, mapped: Map) -> None:
    """The control: the shares recovered by misplaced activations."""
    mean, spread, most = mapped.chance
    if math.isnan(mean):
        st.caption(view.t("patching.no_chance"))
        return
    key = "patching.chance_place" if mapped.what in BY_PLACE else "patching.chance_head"
    if mapped.what == "pattern":
        key = "patching.chance_pattern"
    mean_said, most_said = (said(each) for each in (mean, most))
    spread_said = said(spread)
    st.caption(view.t(key, draws=DRAWS, mean=mean_said, spread=spread_said, most=most_said))


def _run(view: View, asked: Asked, both: Pair, mapped: Map, shown: Cell) -> None:
    """The patched run: its probabilities, its output, and its own control."""
    st.subheader(view.t("patching.run_title"), anchor=False)
    if math.isnan(mapped.effect(shown)):
        st.caption(view.t("patching.no_patch"))
        return
    found = cached.run_of(asked, mapped.what, shown)
    st.markdown(
        view.t(
            "patching.run_reading",
            place=cell_words(view, both, mapped.what, shown),
            effect=said(found.effect),
        )
    )
    run_tables(view, found)
    _elsewhere(view, asked, both, mapped.what, shown)


def _elsewhere(view: View, asked: Asked, both: Pair, what: What, shown: Cell) -> None:
    """A strip: the same activation at other positions, or the head one position at a time."""
    placed = what in BY_PLACE
    found = running.awaited(
        "patching.elsewhere",
        (asked, what, shown),
        lambda tell: cached.elsewhere(asked, what, shown, progress=jobs.whole(tell)),
        view.t("patching.working"),
        view.lang,
    )
    if found is None:
        return
    places, shares = found
    if len(places) < (1 if placed else 2):  # a single position equals the whole head
        return
    if placed:
        stream = stream_of(shown[0])
    else:
        site = next(s for s in view.trace.sites if (s.role, s.layer) == shown[:2])
        stream = site.key_stream if what in ("k", "v") else site.query_stream
    columns = column_labels(both, stream)
    values = np.full((1, len(columns)), np.nan)
    values[0, list(places)] = shares
    key = "patching.elsewhere" if placed else "patching.by_position"
    st.caption(
        view.t(
            key,
            mean=said(float(shares.mean())),
            least=said(float(shares.min())),
            most=said(float(shares.max())),
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
        view.t("patching.patch"): [cell_words(view, both, mapped.what, cell) for cell, _ in cells],
        view.t("patching.recovered"): [fixed(value, 3) for _, value in cells],
        view.t("patching.difference"): [
            signed(second + value * (first - second), 3) for _, value in cells
        ],
    }
