"""Single patches: a map of the share of the answer that each recovers."""

import math
from dataclasses import dataclass

import numpy as np

from explorer.analysis.patching import maps
from explorer.analysis.patching.pair import Pair, pair
from explorer.analysis.patching.patches import gaps, patching
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.patching.choices import PatchingChoices
from explorer.exhibits.patching.names import cell_words, map_picture, said
from explorer.exhibits.patching.second import EXHIBIT as SECOND, Two, what_of
from explorer.exhibits.saying import in_a_row
from explorer.library import LoadedModel
from explorer.numbers import fixed, signed
from explorer.runs.passes import Steps

AT_ONCE = 1e11
"""Most tokens times parameters computed without a click (10 s on a slow core)."""
HALF = 0.5
"""Smallest share of the answer at which a position is said to hold it."""


@dataclass(frozen=True, eq=False)
class Mapped:
    """Two runs that differ, and the map; None until the user asks for it."""

    both: Pair
    what: maps.What
    found: maps.Map | None


def compute(loaded: LoadedModel, second: Two, what: str, is_wanted: bool) -> Steps[Mapped | None]:
    """None if there is nothing to recover."""
    both = second.differ
    if both is None:
        return None
    kind = what_of(loaded, both, what)
    return Mapped(
        both, kind, (yield from maps.patch_map(loaded, both, kind)) if is_wanted else None
    )


def _is_wanted(view: View) -> bool:
    """Whether to compute a map: it is quick or requested."""
    both = SECOND.answer(view).differ
    if both is None:
        return False
    key = both, what_of(view.loaded, both, view.choices(PatchingChoices).what)
    if not view.asks or view.choices(PatchingChoices).wanted == key:
        return True
    n_tokens = sum(len(second) for _, second in both.str_tokens.values())
    n_runs = maps.n_patches(view.loaded, *key)[1]
    return n_runs * n_tokens * view.loaded.n_parameters <= AT_ONCE


def _request(view: View, answer: Mapped) -> b.Blocks:
    """Asks whether to compute a slow map."""
    count, n_runs = maps.n_patches(view.loaded, answer.both, answer.what)
    yield b.Prose(view.t("patching.ask", count=count, controls=f"{n_runs - count:,}"))
    run = b.choose(wanted=(answer.both, answer.what))
    yield b.Button("patching.run", view.t("patching.run"), run)


def show(answer: Mapped | None, view: View) -> b.Blocks:
    """The map with the open patch, its reading and its control."""
    if answer is None:
        return
    if answer.found is None:
        yield from _request(view, answer)
        return
    both, mapped = answer.both, answer.found
    cell = cell_in(mapped, view.choices(PatchingChoices).cell)
    chart = map_picture(view, both, mapped, cell)
    yield b.Hero((b.Sentence("patching", _reading(view, both, mapped)), chart))
    config = view.loaded.config
    if mapped.what in ("k", "v") and config.kv_heads < config.n_heads:
        yield b.Note(view.t("patching.shared"))
    yield b.Formula.of(
        f"{view.t('patching.formula')}\n\n{_control(view, mapped)}",
        r"\text{recovered} = \frac{\Delta_\text{patched} - \Delta_2}{\Delta_1 - \Delta_2}, "
        r"\qquad \Delta = \mathrm{logit}(a_1) - \mathrm{logit}(a_2)",
    )
    yield b.Code((maps.patch_map, pair, gaps, patching))
    yield b.Numbers(lambda: _numbers(view, both, mapped))


def cell_in(mapped: maps.Map, chosen: maps.Cell | None) -> maps.Cell:
    """The open cell of a map: the chosen one, if the map has it."""
    return chosen if chosen in mapped.cells else telling(mapped)


def telling(mapped: maps.Map) -> maps.Cell:
    """The cell selected by default: the best. In the stream, of the nearly best ones, the nearest
    to the answer, except those that recover it by construction (a replaced word's embedding, the
    last vector)."""
    if mapped.what != "resid":
        return mapped.best()
    last = len(mapped.parts[-1].effects) - 1  # the answer is read from this row of "tgt"
    near = {
        cell: (round(share, 1), cell[1], share, cell[2], cell[0])
        for cell, share in mapped.patched.items()
        if cell[1] > 0 and cell[:2] != ("tgt", last)
    }
    return max(near, key=near.__getitem__) if near else mapped.best()


def _reading(view: View, both: Pair, mapped: maps.Map) -> str:
    """The reading of the map, in one or two sentences."""
    if mapped.what == "resid":
        return in_a_row(_carried(view, both, mapped) or [_arrived(view, both, mapped)])
    cell = mapped.best()
    effect = mapped.cells[cell]
    words = view.t(
        "patching.read_best",
        place=cell_words(view, both, mapped.what, cell),
        effect=said(effect),
        together=said(mapped.together),
    )
    return in_a_row([words, _against_chance(view, mapped, effect)])


def _against_chance(view: View, mapped: maps.Map, effect: float) -> str:
    """Whether a patch recovers clearly more than the best of every map of misplaced activations; ""
    if there are none."""
    most = mapped.chance[2]
    if math.isnan(most):
        return ""
    key = "patching.above_chance" if mapped.beats_chance(effect) else "patching.within_chance"
    return view.t(key, most=said(most))


def _carried(view: View, both: Pair, mapped: maps.Map) -> tuple[str, ...]:
    """How much of the answer one vector carries: the last one at the best embedding's position that
    recovers half, else the best of all away from the output position, if any was patched there."""
    part, predicts = mapped.parts[0], (mapped.parts[-1].name, both.question.places[1])
    known = np.nan_to_num(part.effects, nan=-np.inf)
    column = int(known[0].argmax())
    if known[0, column] >= HALF:
        cell = part.name, int(np.flatnonzero(known[:, column] >= HALF)[-1]), column
    else:
        away = {cell: s for cell, s in mapped.patched.items() if (cell[0], cell[2]) != predicts}
        if not away:
            return ()
        cell = max(away, key=away.__getitem__)
    effect = mapped.cells[cell]
    values = {"effect": said(effect), "place": cell_words(view, both, mapped.what, cell)}
    if effect < HALF:
        return (view.t("patching.read_spread", **values),)
    return view.t("patching.read_carried", **values), _against_chance(view, mapped, effect)


def _arrived(view: View, both: Pair, mapped: maps.Map) -> str:
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


def _control(view: View, mapped: maps.Map) -> str:
    """The control: the shares recovered by misplaced activations."""
    mean, spread, most = mapped.chance
    if math.isnan(mean):
        return view.t("patching.no_chance")
    kind = "place" if mapped.what in maps.BY_PLACE else "head"
    what = view.t("patching.chance", "pattern" if mapped.what == "pattern" else kind)
    shares = {"mean": said(mean), "spread": said(spread), "most": said(most)}
    return view.t("patching.control", draws=maps.DRAWS, what=what, **shares)


def _numbers(view: View, both: Pair, mapped: maps.Map) -> dict[str, list[object]]:
    (first, second), shares = both.gaps, mapped.patched.values()
    return {
        view.t("patching.patch"): [
            cell_words(view, both, mapped.what, cell) for cell in mapped.patched
        ],
        view.t("patching.recovered"): [fixed(share, 3) for share in shares],
        view.t("patching.difference"): [
            signed(second + share * (first - second), 3) for share in shares
        ],
    }


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"is_wanted": _is_wanted},
    wait=Wait("patching.working", after="patching.second"),
)
