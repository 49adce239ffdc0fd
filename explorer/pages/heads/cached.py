"""What the Heads page computes, cached by `engine.caching`."""

from explorer.analysis.heads import attribution
from explorer.analysis.heads import versus as comparing
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.exhibits.heads.grids import ablation
from models.hooks import Role


@cached
def attribute(run: Run, position: int) -> attribution.Attribution:
    """Four measures for the token after a position, using the run's ablation. Raises
    InputProblem."""
    loaded = cache.open_model(run.model)
    return attribution.attribute(loaded, cache.trace(run), position, ablation=ablation(run))


@cached
def versus(run: Run, other: Run, kind: Role) -> comparing.Versus | None:
    """One kind of attention compared between a run and another model's run. Raises InputProblem."""
    return comparing.versus(cache.trace(run), cache.trace(other), kind)


@cached
def closest(
    run: Run, other: Run, kind: Role, layer: int, head: int
) -> tuple[tuple[int, int], float] | None:
    """The head of the other run with the pattern most similar to this one's. Raises
    InputProblem."""
    compared = versus(run, other, kind)
    if compared is None:
        return None
    return comparing.closest(cache.trace(run), cache.trace(other), compared, layer, head)
