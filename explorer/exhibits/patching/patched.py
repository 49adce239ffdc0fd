"""The run under the open patch."""

import math
from dataclasses import dataclass

from explorer.analysis.patching.maps import Cell, What
from explorer.analysis.patching.pair import Pair
from explorer.analysis.patching.patched import PatchedRun, patched_run, run_cell, written
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.patching.map import cell_of, map_of
from explorer.exhibits.patching.names import cell_words, run_tables, said, third_words
from explorer.exhibits.patching.second import Asked, asked_of, two, what_of
from explorer.exhibits.saying import in_a_row
from explorer.library import LoadedModel

PATCH = {"asked": asked_of, "what": what_of, "cell": cell_of}
"""The inputs of exhibits of one patch."""


@dataclass(frozen=True, eq=False)
class Patched:
    """Two runs, the name of a patch, and the run under it; None for a cell without a patch."""

    both: Pair
    what: What
    cell: Cell
    found: PatchedRun | None


def compute(loaded: LoadedModel, asked: Asked, what: What, cell: Cell | None) -> Patched | None:
    """None without a map."""
    both = two(asked).differ
    if both is None or cell is None:
        return None
    if math.isnan(map_of(asked, what).effect(cell)):
        return Patched(both, what, cell, None)
    return Patched(both, what, cell, run_cell(loaded, both, what, cell))


def show(patched: Patched | None, view: View) -> b.Blocks:
    """Its probabilities and its output."""
    if patched is None:
        return
    yield b.Title(view.t("patching.run_title"), large=True)
    found = patched.found
    if found is None:
        yield b.Note(view.t("patching.no_patch"))
        return
    place = cell_words(view, patched.both, patched.what, patched.cell)
    words = view.t("patching.run_reading", place=place, effect=said(found.effect))
    yield b.Prose(in_a_row([words, third_words(view, found)]))
    yield run_tables(view, found)
    yield b.Code((patched_run, written))


EXHIBIT = Exhibit(compute, show, inputs=PATCH, wait=Wait(after="patching.map"))
