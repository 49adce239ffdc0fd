"""Maps: how much of the first run's answer each single activation recovers in the second run.

By position, an activation is a vector of the stream, or a sublayer's addition to it; by head, it is
the output of one head at every position at once. The control patches misplaced activations: in the
stream from another position, of a head with its positions permuted. What the control recovers is
due to chance, or to a vector that would have the same effect anywhere.

The best of many cells is compared with the best of as many misplaced ones: DRAWS maps are drawn, in
each of which every activation comes from a random wrong place. If the place made no difference, the
true map would be one more such draw, and would hold the best cell in 1 of DRAWS + 1 cases.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.patching.pair import Pair
from explorer.analysis.patching.patches import Patch, activations, gaps
from explorer.library import LoadedModel
from explorer.numerics import beats
from explorer.once import once
from explorer.runs.passes import Steps
from models.hooks import ROLES, AttentionSite, StackSite
from models.rows import Stream

ByPlace = Literal["resid", "attn_out", "cross_attn_out", "ffn_out"]
ByHead = Literal["z", "pattern", "q", "k", "v"]
What = ByPlace | ByHead
BY_PLACE: tuple[ByPlace, ...] = get_args(ByPlace)
BY_HEAD: tuple[ByHead, ...] = get_args(ByHead)
DRAWS = 19
"""Maps of misplaced activations. A short text has few wrong places: equal patches run once."""

Cell = tuple[str, int, int]
"""A part of a map, row and column: ("src", stream before this block, position), or ("cross", layer,
head)."""


@dataclass(frozen=True, eq=False)
class MapPart:
    """One rectangle of a map: the stream of one stack, or the heads of one role.

    `effects` [row, column] are the recovered shares of the first run's answer, NaN if nothing
    can be patched; `control` [draw, row, column] the shares recovered by misplaced activations.
    """

    name: str
    effects: Float[np.ndarray, "row column"]
    control: Float[np.ndarray, "draw row column"]


@dataclass(frozen=True, eq=False)
class Map:
    """All single patches of one kind of activation; `together` is the share recovered by all of
    them at once, NaN if there is none."""

    what: What
    parts: tuple[MapPart, ...]
    together: float

    @once
    def cells(self) -> dict[Cell, float]:
        """The share recovered by every patch, in reading order; NaN if a cell has none."""
        return {
            (part.name, row, column): float(value)
            for part in self.parts
            for (row, column), value in np.ndenumerate(part.effects)
        }

    @once
    def patched(self) -> dict[Cell, float]:
        """The share recovered by every patch that there is."""
        return {cell: share for cell, share in self.cells.items() if not math.isnan(share)}

    def best(self) -> Cell:
        """The cell that recovers most; of equal ones the last row, then the first column, so that
        a stream is picked nearest to the answer."""
        nearest = {
            cell: (round(share, 6), cell[1], -cell[2]) for cell, share in self.patched.items()
        }
        return max(nearest, key=nearest.__getitem__, default=(self.parts[0].name, 0, 0))

    @property
    def misplaced(self) -> Float[np.ndarray, "draw cell"]:
        """The shares recovered by misplaced activations; no cells if there are no wrong places."""
        shares = np.concatenate([part.control.reshape(DRAWS, -1) for part in self.parts], 1)
        return shares[:, ~np.isnan(shares).any(0)]

    def beats_chance(self, share: float) -> bool:
        """Whether a share is clearly above the best cell of every map of misplaced activations."""
        return beats(share, self.misplaced.max(1))

    @property
    def chance(self) -> tuple[float, float, float]:
        """Mean, standard deviation and maximum of the shares recovered by misplaced activations;
        NaN if there is no other position to take them from."""
        known = self.misplaced
        if not known.size:
            return float("nan"), float("nan"), float("nan")
        return float(known.mean()), float(known.std()), float(known.max())


def by_place(stacks: Sequence[StackSite]) -> tuple[ByPlace, ...]:
    """The activations of the stream that these stacks have."""
    crossing = any(stack.reads_too for stack in stacks)
    return tuple(what for what in BY_PLACE if crossing or what != "cross_attn_out")


def by_head(pair: Pair) -> tuple[ByHead, ...]:
    """The activations of a head that can be patched: a pattern only between texts of one length,
    since it has one row and one column per token."""
    return tuple(what for what in BY_HEAD if what != "pattern" or pair.same_length)


def hooks_of(stack: StackSite, what: What) -> tuple[str, ...]:
    """The hook points of the rows of a map by position, from the embedding upwards."""
    if what != "resid":
        if what == "cross_attn_out" and not stack.reads_too:
            return ()
        return tuple(stack.block_hook(layer, what) for layer in range(stack.n_layers))
    before = (stack.block_hook(layer, "resid_pre") for layer in range(stack.n_layers))
    return (*before, stack.hook("resid_final"))


def patches_of(
    loaded: LoadedModel, pair: Pair, what: What, seeds: Sequence[int | None] = (None,)
) -> list[dict[Cell, Patch]]:
    """The patch of every cell of a map that has one, for each seed: the matching activation for
    None, else a misplaced one. Raises ValueError for a pattern of texts that differ in length."""
    if what == "pattern" and not pair.same_length:
        raise ValueError("a pattern cannot be patched into a text of a different length")
    cells = _places(loaded, pair, what) if what in BY_PLACE else _heads(loaded, pair, what)
    seen = activations(loaded, pair, {hook for hook, *_ in cells.values()})
    known: dict[object, Patch] = {}
    return [_values(pair, cells, seen, what, seed, known) for seed in seeds]


Target = tuple[str, Stream, int | None, int | None]
"""Hook, stream of its positions, the position in the second text or None for all, the head."""


def _places(loaded: LoadedModel, pair: Pair, what: What) -> dict[Cell, Target]:
    return {
        (stack.stream, row, column): (hook, stack.stream, column, None)
        for stack in loaded.stacks
        for row, hook in enumerate(hooks_of(stack, what))
        for _, column in pair.places[stack.stream]
    }


def _heads(loaded: LoadedModel, pair: Pair, what: What) -> dict[Cell, Target]:
    def stream(site: AttentionSite) -> Stream:
        return site.key_stream if what in ("k", "v") else site.query_stream

    group = loaded.config.n_heads // loaded.config.kv_heads if what in ("k", "v") else 1
    return {
        (site.role, site.layer, head): (site.hook(what), stream(site), None, head // group)
        for site in loaded.sites
        for head in range(site.n_heads)
    }


def _values(
    pair: Pair,
    cells: dict[Cell, Target],
    seen: dict[str, Tensor],
    what: What,
    seed: int | None,
    known: dict[object, Patch],
) -> dict[Cell, Patch]:
    """The patches for one seed; equal ones are one object, listed in `known`."""
    random = np.random.default_rng(seed)
    patches = {}
    for cell, (hook, stream, column, head) in cells.items():
        tensor = seen[hook]
        places = [(a, b) for a, b in pair.places[stream] if column in (None, b)]
        if what == "pattern":
            source = head if seed is None else _other(random, head, range(len(tensor)))
            if source is not None:
                queries, keys = map(slice, tensor.shape[1:])  # not generated tokens
                patch = Patch(hook, (head, queries, keys), tensor[source])
                patches[cell] = known.setdefault((cell, source), patch)
            continue
        taken = [a for a, _ in places]
        if seed is not None:
            everywhere = [a for a, _ in pair.places[stream]]
            taken = _misplaced(random, taken, everywhere)
        if not taken:
            continue
        to = [b for _, b in places]
        if head is None:
            patch = Patch(hook, (to,), tensor[taken])
        else:
            patch = Patch(hook, (head, to), tensor[head, taken])
        patches[cell] = known.setdefault((cell, *taken), patch)
    return patches


def _other(random: np.random.Generator, own: int | None, among: Sequence[int]) -> int | None:
    """A random one of the others; None if there is no other."""
    others = [place for place in among if place != own]
    return int(random.choice(others)) if others else None


def _misplaced(random: np.random.Generator, taken: list[int], among: list[int]) -> list[int]:
    """Other positions instead of those taken, none at its own; [] if there is no other."""
    if len(among) < 2:
        return []
    if len(taken) == 1:
        other = _other(random, taken[0], among)
        return [] if other is None else [other]
    shift = int(random.integers(1, len(taken)))
    return taken[shift:] + taken[:shift]


def n_patches(loaded: LoadedModel, pair: Pair, what: What) -> tuple[int, int]:
    """The number of single patches of a map, and at most how many run with the misplaced ones."""
    cells = _places(loaded, pair, what) if what in BY_PLACE else _heads(loaded, pair, what)
    widest = loaded.config.n_heads if what == "pattern" else max(map(len, pair.places.values()))
    return len(cells), len(cells) * (1 + min(DRAWS, widest - 1))


def patch_map(loaded: LoadedModel, pair: Pair, what: What) -> Steps[Map]:
    """Every single patch of one kind of activation, with the control of misplaced ones.

    Raises ValueError as `patches_of`.
    """
    seeds = (None, *range(DRAWS))
    asked = patches_of(loaded, pair, what, seeds)
    everything = list(asked[0].values())
    once = list(dict.fromkeys(patch for patches in asked for patch in patches.values()))
    rows = [everything, *([patch] for patch in once)]
    together, *shares = pair.recovered((yield from gaps(loaded, pair, rows))).tolist()
    share = dict(zip(once, shares, strict=True))
    parts = parts_of(loaded, pair, what, asked, share)
    return Map(what, parts, together if everything else float("nan"))


def parts_of(
    loaded: LoadedModel,
    pair: Pair,
    what: What,
    drawn: Sequence[dict[Cell, Patch]],
    share: dict[Patch, float],
) -> tuple[MapPart, ...]:
    """The rectangles of a map; the first of `drawn` are its patches, the others misplaced ones."""
    values = {
        name: np.full((len(drawn), *shape), np.nan)
        for name, shape in _shapes(loaded, pair, what).items()
    }
    for draw, patches in enumerate(drawn):
        for (name, row, column), patch in patches.items():
            values[name][draw, row, column] = share[patch]
    return tuple(MapPart(name, effects[0], effects[1:]) for name, effects in values.items())


def _shapes(loaded: LoadedModel, pair: Pair, what: What) -> dict[str, tuple[int, int]]:
    if what in BY_PLACE:
        rows = {s.stream: len(hooks_of(s, what)) for s in loaded.stacks}
        return {
            stream: (n_rows, len(pair.str_tokens[stream][1]))
            for stream, n_rows in rows.items()
            if n_rows
        }
    layers = {role: [s for s in loaded.sites if s.role == role] for role in ROLES}
    return {role: (len(sites), sites[0].n_heads) for role, sites in layers.items() if sites}
