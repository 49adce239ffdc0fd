"""Cached analyses of runs: two models compared, a second sentence."""

from explorer.analysis.heads import versus as comparing
from explorer.analysis.heads.versus import Versus
from explorer.analysis.patching.pair import other_text
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.runs.passes import Steps
from explorer.text import exchanges
from models.hooks import Role


@cached
def versus(run: Run, other: Run, kind: Role) -> Versus | None:
    """One kind of attention compared between a run and another model's run. Raises InputProblem."""
    return comparing.versus(cache.trace(run), cache.trace(other), kind)


@cached
def closest(
    run: Run, other: Run, kind: Role, layer: int, head: int
) -> tuple[tuple[int, int], float] | None:
    """The other run's head whose pattern is most similar to this one's. Raises InputProblem."""
    compared = versus(run, other, kind)
    if compared is None:
        return None
    return comparing.closest(cache.trace(run), cache.trace(other), compared, layer, head)


@cached
def offered(run: Run) -> Steps[str | None]:
    """A run's sentence with one word replaced, such that the answer changes, found in up to
    `MOST_TRIED` runs. Raises InputProblem."""
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    return (yield from other_text(loaded, traced, exchanges(), run.target))
