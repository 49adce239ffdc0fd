"""The head whose input is patched, and which of its inputs."""

import numpy as np

from explorer.analysis.patching.maps import Cell, Map
from explorer.analysis.patching.paths import Into, receivers
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.patching.choices import PatchingChoices
from explorer.exhibits.patching.map import Mapped, compute, is_wanted, request
from explorer.exhibits.patching.names import head_words, said
from explorer.exhibits.picking import pick_one
from explorer.library import LoadedModel

INPUTS: tuple[Into, ...] = ("v", "k", "q")


def show(answer: Mapped | None, view: View) -> b.Blocks:
    """The controls for both."""
    if answer is None:
        return
    if answer.found is None:
        yield from request(view, answer)
        return
    heads, chosen = answer.found, view.choices(PatchingChoices)
    more = b.More(said="patching.whats.", help=view.t("patching.into_head_help"))
    into = pick_one(view, "patching.into_head", INPUTS, chosen.into_head, **more)
    cells = receivers_in(view.loaded, heads, chosen.into_head)
    if not cells:
        yield b.Row((into,))
        yield b.Hint(view.t("patching.no_receiver"))
        return

    def words(cell: Cell) -> str:
        return f"{head_words(view, cell)} · {said(np.nan_to_num(heads.cells[cell]))}"

    more = b.More(said=words, form="menu", width=420, help=view.t("patching.receiver_help"))
    more["change"] = lambda cell: b.choose(receiver=cell, sender=None)
    now = chosen.receiver if chosen.receiver in cells else cells[0]
    yield b.Row((into, pick_one(view, "patching.receiver", cells, now, **more)))


def receivers_in(loaded: LoadedModel, heads: Map, into: Into) -> list[Cell]:
    """The possible receivers, sorted by the share that each head's output recovers."""
    reached = {(site.role, site.layer) for site in receivers(loaded, into)}
    cells = [cell for cell in heads.cells if cell[:2] in reached]
    return sorted(cells, key=lambda cell: -np.nan_to_num(heads.cells[cell]))


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"what": lambda _: "z", "is_wanted": lambda view: is_wanted(view, "z")},
    wait=Wait("patching.working", after="patching.second"),
)
