"""What the Heads page computes, kept as `ui.caching` says."""

from collections.abc import Callable

from explorer.analysis.heads import ablation as ablating
from explorer.analysis.heads import aggregates, attribution
from explorer.ui import cache
from explorer.ui.cache import Run
from explorer.ui.caching import cached
from models.hooks import Role


@cached
def aggregates_of(run: Run, kind: Role) -> tuple[aggregates.Aggregate, ...]:
    """Means, rollout and flow of one kind of attention. Raises InputProblem."""
    return aggregates.aggregates_of(cache.trace(run), kind)


@cached
def ablation(run: Run, *, progress: Callable[[int, int], None] | None = None) -> ablating.Ablation:
    """Every head of a run switched off, one at a time; `progress(done, total)` while it runs.

    Raises InputProblem; ValueError where no token was written.
    """
    return ablating.ablate(cache.open_model(run.model), cache.trace(run), progress=progress)


@cached
def attribute(run: Run, position: int) -> attribution.Attribution:
    """Four measures of the token after a position, by the run's ablation. Raises InputProblem."""
    loaded = cache.open_model(run.model)
    return attribution.attribute(loaded, cache.trace(run), position, ablation=ablation(run))
