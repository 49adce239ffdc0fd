"""Path patching: the effect of one head on another through the latter's query, key or value."""

import math

import numpy as np

from explorer.analysis.patching.maps import Cell, Map
from explorer.analysis.patching.pair import Pair
from explorer.analysis.patching.paths import Into, Paths, arriving, path_map
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.patching.choices import PatchingChoices
from explorer.exhibits.patching.map import LITTLE, against_chance, chance
from explorer.exhibits.patching.names import cell_words, head_words, map_chart, said
from explorer.exhibits.patching.receiver import into_of, receiver_of
from explorer.exhibits.patching.second import Asked, asked_of, two
from explorer.exhibits.saying import in_a_row
from explorer.library import LoadedModel
from explorer.numbers import fixed
from explorer.runs.passes import Steps


def compute(
    loaded: LoadedModel, asked: Asked, receiver: Cell | None, into: Into
) -> Steps[Paths | None]:
    """Every path into one input of a head; None without a receiver."""
    both = two(asked).differ
    if both is None or receiver is None:
        return None
    return (yield from path_map(loaded, both, receiver, into))


def show(found: Paths | None, view: View) -> b.Blocks:
    """A map of the senders, its reading and its control."""
    if found is None:
        return
    both = two(asked_of(view)).pair
    assert both is not None
    sender = _open(view, found)
    chart = map_chart(view, both, found.heads, sender, "patching.senders", "sender")
    yield b.Hero((b.Sentence("patching-paths", _reading(view, found)), chart))
    yield chance(view, found.heads)
    yield b.Formula.of(
        view.t("patching.paths_formula"),
        r"z'_h = z^{(1)}_h, \quad z'_{h'} = z^{(2)}_{h'} \ (h' \ne h) \quad\Rightarrow\quad "
        + rf"{found.into}'_r \quad\Rightarrow\quad "
        + rf"\text{{recovered}}({found.into}_r := {found.into}'_r)",
    )
    yield b.Code((path_map, arriving))
    yield b.Numbers(lambda: _numbers(view, both, found))


def _open(view: View, found: Paths) -> Cell:
    """The chosen sender, if a path leads from it, else the best."""
    chosen = view.choices(PatchingChoices).sender
    return chosen if chosen is not None and _has(found.heads, chosen) else found.heads.best()


def sender_of(view: View) -> Cell | None:
    """The open sender; None if no path leads from any head."""
    found = EXHIBIT.answer(view)
    if found is None or not _has(found.heads, _open(view, found)):
        return None
    return _open(view, found)


def _has(heads: Map, cell: Cell) -> bool:
    return heads.has(cell) and not math.isnan(heads.effect(cell))


def input_words(view: View, into: Into) -> str:
    """The name of a head's input, for use in a sentence."""
    words = view.t(f"patching.whats.{into}")
    return words[0].lower() + words[1:]


def _reading(view: View, found: Paths) -> str:
    whole = view.t(
        "patching.paths_read",
        into=input_words(view, found.into),
        receiver=head_words(view, found.receiver),
        everything=said(found.everything),
        words=said(found.words),
    )
    whole, best = whole[0].upper() + whole[1:], found.heads.best()
    if not _has(found.heads, best):
        return whole
    effect = found.heads.effect(best)
    much = effect >= LITTLE * abs(found.everything)
    key = "patching.paths_best" if much else "patching.paths_none"
    words = view.t(key, sender=head_words(view, best), effect=said(effect))
    return in_a_row([whole, words, against_chance(view, found.heads, effect) if much else ""])


def _numbers(view: View, both: Pair, found: Paths) -> dict[str, list[object]]:
    cells = [
        ((part.name, row, column), float(value))
        for part in found.heads.parts
        for (row, column), value in np.ndenumerate(part.effects)
        if not math.isnan(value)
    ]
    names = [cell_words(view, both, "z", cell) for cell, _ in cells]
    values = [value for _, value in cells]
    return {
        view.t("patching.sender"): [
            *names,
            view.t("patching.words"),
            view.t("patching.everything"),
        ],
        view.t("patching.recovered"): [
            fixed(value, 4) for value in (*values, found.words, found.everything)
        ],
    }


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"asked": asked_of, "receiver": receiver_of, "into": into_of},
    wait=Wait("patching.working", after="patching.receiver"),
)
