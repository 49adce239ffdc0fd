"""What the Patching page computes, cached by `engine.caching`."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from explorer.analysis.patching import exchange, maps, pair, patched, paths
from explorer.analysis.patching.deletion import Deletion, How, delete
from explorer.analysis.patching.maps import Cell, Map, What
from explorer.analysis.patching.network import Network, contribution_network
from explorer.analysis.patching.pair import Pair, Places
from explorer.analysis.patching.paths import Into, Paths
from explorer.analysis.patching.rankings import Rankings, rank
from explorer.analysis.patching.words import Explained, explained
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.text import exchanges

Progress = Callable[[int, int], None] | None


@dataclass(frozen=True)
class Asked:
    """Two runs and the position whose answer is compared; `backwards`: the first run is patched."""

    run: Run
    second: str
    place: int | None = None
    by_hand: Places | None = None
    backwards: bool = False


@cached
def offered(run: Run, *, progress: Progress = None) -> str | None:
    """A run's sentence with one word replaced, such that the answer changes. Raises
    InputProblem."""
    loaded = cache.open_model(run.model)
    return exchange.offered(loaded, cache.trace(run), exchanges(), run.target, progress)


@cached
def pair_of(asked: Asked) -> Pair:
    """The two runs side by side, the patched one second. Raises InputProblem."""
    run = asked.run
    found = pair.pair(
        cache.open_model(run.model),
        cache.trace(run),
        asked.second,
        target=run.target,
        place=asked.place,
        by_hand=asked.by_hand,
    )
    return found.swapped() if asked.backwards else found


@cached
def map_of(asked: Asked, what: What, *, progress: Progress = None) -> Map:
    """Every single patch of one kind of activation. Raises InputProblem."""
    return maps.patch_map(cache.open_model(asked.run.model), pair_of(asked), what, progress)


@cached
def run_of(asked: Asked, what: What, cell: Cell) -> patched.PatchedRun:
    """The run with the patch of one cell. Raises InputProblem; KeyError for a cell without one."""
    return patched.run_cell(cache.open_model(asked.run.model), pair_of(asked), what, cell)


@cached
def elsewhere(
    asked: Asked, what: What, cell: Cell, *, progress: Progress = None
) -> tuple[tuple[int, ...], np.ndarray]:
    """For a map by position: the activation of a cell at every other position. For a map by head:
    the head of a cell, one position at a time. Raises as `run_of`."""
    loaded, both = cache.open_model(asked.run.model), pair_of(asked)
    found = patched.misplaced if what in maps.BY_PLACE else patched.by_position
    return found(loaded, both, what, cell, progress)


@cached
def paths_of(asked: Asked, receiver: Cell, into: Into, *, progress: Progress = None) -> Paths:
    """Every path into one input of a head. Raises InputProblem; KeyError for no such head."""
    loaded = cache.open_model(asked.run.model)
    return paths.path_map(loaded, pair_of(asked), receiver, into, progress)


@cached
def path_run_of(asked: Asked, receiver: Cell, into: Into, sender: Cell) -> patched.PatchedRun:
    """The run in which one path is patched. Raises as `paths_of`."""
    loaded = cache.open_model(asked.run.model)
    return paths.run_path(loaded, pair_of(asked), receiver, into, sender)


@cached
def network_of(run: Run, *, progress: Progress = None) -> Network:
    """The network of contributions between the vectors of a run. Raises InputProblem."""
    return contribution_network(cache.open_model(run.model), cache.trace(run), progress)


@cached
def explained_of(run: Run, position: int) -> Explained:
    """The word generated at a position, and the words read for it. Raises InputProblem;
    IndexError."""
    return explained(cache.open_model(run.model), cache.trace(run), position)


@cached
def rankings_of(run: Run, position: int, *, progress: Progress = None) -> Rankings:
    """Five rankings of the words read for a generated word. Raises as `explained_of`."""
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    return rank(loaded, traced, position, network_of(run), progress)


@cached
def deletion_of(run: Run, position: int, how: How, *, progress: Progress = None) -> Deletion:
    """The deletion test of these rankings. Raises as `explained_of`; ValueError if no word was
    read."""
    ranked = rankings_of(run, position)
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    return delete(loaded, traced, ranked.asked, ranked.scores, how, progress)
