"""What the Blocks page computes, cached by `engine.caching`."""

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
    """Three untrained models of one placement on `tokens`, with or without the residual sum.

    Raises ValueError for a single token.
    """
    return residual.fresh_flow(tokens, placement, depth, final, residual=summed)


@cached
def trained_flow(run: Run) -> residual.Flow:
    """The flow of a trained model on a text. Raises InputProblem; ValueError if there is no
    output."""
    return residual.trained_flow(cache.open_model(run.model), cache.trace(run))
