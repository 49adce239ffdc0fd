"""What the Cell page computes, cached by `engine.caching`."""

from collections.abc import Callable

from explorer.analysis.cell import backward as backwards
from explorer.analysis.cell import initial, steps
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached


@cached
def effect(
    run: Run, site: str, place: tuple[int, int, int], position: int, token: int | None
) -> steps.Effect:
    """The effect of one cell of a run on the logits after a position. Raises InputProblem.

    `place` is its head, query and key; `token` as in `analysis.cell.steps.effect`.
    """
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    cell = steps.cell_of(loaded, traced, traced.site(site), *place)
    return steps.effect(loaded, traced, cell, position, token)


@cached
def fresh_scores(
    run: Run, site: str, init: initial.Init, *, progress: Callable[[float], None] | None = None
) -> tuple[initial.Fresh, ...]:
    """The scores of a site in untrained models on a run's tokens; `progress` from 0 to 1.

    Raises InputProblem.
    """
    traced = cache.trace(run)
    tell = progress or (lambda done: None)
    return initial.fresh_scores(traced, traced.site(site), init, progress=tell)


@cached
def backward(
    run: Run, site: str, head: int, goal: tuple[int, int] | None
) -> backwards.HeadBackward:
    """The backward pass of one head of a run. Raises InputProblem.

    `goal` is a position and the token whose logit counts there, as in `head_backward`.
    """
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    return backwards.head_backward(loaded, traced, traced.site(site), head, goal)


@cached
def memory_kept(run: Run, site: str) -> tuple[backwards.Kept, backwards.Kept]:
    """The memory that a layer of a run stores for its backward pass. Raises InputProblem."""
    traced = cache.trace(run)
    return backwards.memory_kept(traced, traced.site(site))
