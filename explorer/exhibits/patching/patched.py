"""The run under the open patch."""

from dataclasses import dataclass

from explorer.analysis.patching.maps import Cell, What
from explorer.analysis.patching.pair import Pair
from explorer.analysis.patching.patched import PatchedRun, patched_run, run_cell, written
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.patching.map import Mapped, cell_in
from explorer.exhibits.patching.names import run_shown, said
from explorer.library import LoadedModel


@dataclass(frozen=True, eq=False)
class Patched:
    """Two runs, the name of a patch, and the run under it; None for a cell without a patch."""

    both: Pair
    what: What
    cell: Cell
    found: PatchedRun | None


def compute(loaded: LoadedModel, map: Mapped | None, cell: Cell | None) -> Patched | None:
    """None without a map."""
    if map is None or map.found is None:
        return None
    shown, both, what = cell_in(map.found, cell), map.both, map.what
    is_cell = shown in map.found.patched
    return Patched(both, what, shown, run_cell(loaded, both, what, shown) if is_cell else None)


def show(patched: Patched | None, view: View) -> b.Blocks:
    """Its probabilities and its output."""
    if patched is None:
        return
    run = patched.found
    if run is None:
        yield b.Note(view.t("patching.no_patch"))
        return
    yield b.Title(view.t("patching.run_reading", effect=said(run.effect)), large=True)
    yield from run_shown(view, run)
    yield b.Code((patched_run, written))


EXHIBIT = Exhibit(compute, show, wait=Wait(after="patching.map"))
