"""What the Blocks page computes, kept as `engine.caching` says."""

from explorer.analysis.blocks import residual
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from models.config import NormPlacement


@cached
def fresh_flow(
    tokens: tuple[int, ...],
    placement: NormPlacement,
    depth: int,
    final: bool,
    summed: bool = True,
) -> residual.Flow:
    """Three fresh models of one placement reading `tokens`, with the residual sum or without.

    Raises ValueError for one token.
    """
    return residual.fresh_flow(tokens, placement, depth, final, residual=summed)


@cached
def trained_flow(run: Run) -> residual.Flow:
    """A trained model reading a text. Raises InputProblem; ValueError for no output."""
    return residual.trained_flow(cache.open_model(run.model), cache.trace(run))
