"""The head whose input is patched, and which of its inputs."""

import numpy as np

from explorer.analysis.patching.maps import Cell, Map
from explorer.analysis.patching.paths import Into, receivers
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.patching.choices import PatchingChoices
from explorer.exhibits.patching.map import Mapped, compute, is_wanted, request
from explorer.exhibits.patching.names import head_words, said
from explorer.exhibits.patching.second import asked_of
from explorer.exhibits.picking import pick_one

INPUTS: tuple[Into, ...] = ("v", "k", "q")


def show(answer: Mapped | None, view: View) -> b.Blocks:
    """The controls for both."""
    if answer is None:
        return
    if answer.found is None:
        yield from request(view, answer)
        return
    heads = answer.found
    more = b.More(said="patching.whats.", help=view.t("patching.into_head_help"))
    into = pick_one(view, "patching.into_head", INPUTS, into_of(view), **more)
    cells = _cells(view, heads)
    yield b.Row((into, _pick(view, heads, cells)) if cells else (into,))
    if not cells:
        yield b.Hint(view.t("patching.no_receiver"))


def _pick(view: View, heads: Map, cells: list[Cell]) -> b.Pick:
    def words(cell: Cell) -> str:
        return f"{head_words(view, cell)} · {said(np.nan_to_num(heads.effect(cell)))}"

    more = b.More(menu=True, width=420, help=view.t("patching.receiver_help"))
    more["change"] = lambda cell: b.choose(receiver=cell, sender=None)
    return pick_one(view, "patching.receiver", cells, receiver_of(view), said=words, **more)


def _cells(view: View, heads: Map) -> list[Cell]:
    """The possible receivers, sorted by the share that each head's output recovers."""
    reached = {(site.role, site.layer) for site in receivers(view.loaded, into_of(view))}
    cells = [
        (part.name, row, column)
        for part in heads.parts
        for row, column in np.ndindex(part.effects.shape)
        if (part.name, row) in reached
    ]
    return sorted(cells, key=lambda cell: -np.nan_to_num(heads.effect(cell)))


def into_of(view: View) -> Into:
    """The chosen input."""
    chosen = view.choices(PatchingChoices).into_head
    return next(into for into in INPUTS if into == chosen)


def receiver_of(view: View) -> Cell | None:
    """The chosen receiver, else the one whose output recovers most; None if there is none."""
    answer = EXHIBIT.answer(view)
    cells = [] if answer is None or answer.found is None else _cells(view, answer.found)
    chosen = view.choices(PatchingChoices).receiver
    return chosen if chosen in cells else next(iter(cells), None)


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"asked": asked_of, "what": lambda _: "z", "is_wanted": lambda v: is_wanted(v, "z")},
    wait=Wait("patching.working", after="patching.second"),
)
