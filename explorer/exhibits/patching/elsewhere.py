"""The control of the open patch: at other positions, or a head one position at a time."""

from dataclasses import dataclass

import numpy as np

from explorer.analysis.patching.maps import BY_PLACE, Cell, What, patches_of
from explorer.analysis.patching.pair import Pair
from explorer.analysis.patching.patched import ByPosition, misplaced
from explorer.analysis.patching.patches import Patch, gaps
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.patching.map import Mapped, cell_in
from explorer.exhibits.patching.names import column_labels, said, stream_of
from explorer.figures.maps import EffectBlock, effects
from explorer.library import LoadedModel
from explorer.runs.passes import Steps
from models.rows import Stream


def by_position(loaded: LoadedModel, pair: Pair, what: What, cell: Cell) -> Steps[ByPosition]:
    """A cell of a map by head, one position at a time: the positions of the second text, and the
    share recovered at each. Raises KeyError for a cell without a patch."""
    patch = patches_of(loaded, pair, what)[0][cell]
    if what == "pattern":
        head, _, keys = patch.index
        places = tuple(range(patch.value.shape[0]))
        rows = [[Patch(patch.hook, (head, at, keys), patch.value[at])] for at in places]
    else:
        head, places = patch.index[0], tuple(patch.index[1])
        rows = [
            [Patch(patch.hook, (head, at), value)]
            for at, value in zip(places, patch.value, strict=True)
        ]
    return places, pair.recovered((yield from gaps(loaded, pair, rows)))


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """The patched text's tokens of `stream`, and the shares recovered at some positions: by the
    same activation at each if `placed`, else by the head at this position alone."""

    columns: list[str]
    stream: Stream
    placed: bool
    places: tuple[int, ...]
    shares: np.ndarray


def compute(loaded: LoadedModel, map: Mapped | None, cell: Cell | None) -> Steps[Elsewhere | None]:
    """None without a patch."""
    if map is None or map.found is None:
        return None
    shown, both, what = cell_in(map.found, cell), map.both, map.what
    if shown not in map.found.patched:
        return None
    placed = what in BY_PLACE
    measured = misplaced if placed else by_position
    places, shares = yield from measured(loaded, both, what, shown)
    stream = stream_of(shown[0]) if placed else _stream(loaded, what, shown)
    return Elsewhere(column_labels(both, stream), stream, placed, places, shares)


def _stream(loaded: LoadedModel, what: What, cell: Cell) -> Stream:
    """The sequence of a head's positions."""
    site = next(site for site in loaded.sites if (site.role, site.layer) == cell[:2])
    return site.key_stream if what in ("k", "v") else site.query_stream


def show(moved: Elsewhere | None, view: View) -> b.Blocks:
    """A strip of these shares; none for a head at a single position, which equals the whole."""
    if moved is None or len(moved.places) < (1 if moved.placed else 2):
        return
    shares, values = moved.shares, np.full((1, len(moved.columns)), np.nan)
    values[0, list(moved.places)] = shares
    key = "patching.elsewhere" if moved.placed else "patching.by_position"
    range_ = {"mean": shares.mean(), "least": shares.min(), "most": shares.max()}
    yield b.Note(view.t(key, **{name: said(float(share)) for name, share in range_.items()}))
    strip = EffectBlock(view.stream(moved.stream), values, [None], moved.columns, moved.stream)
    ((_, drawn),) = effects([strip], words=view.words("figures.maps"))
    yield b.Matrices("patching.strip", ((view.t(f"{key}_alt"), drawn),), captioned=False)


EXHIBIT = Exhibit(compute, show, wait=Wait("patching.working", after="patching.map"))
