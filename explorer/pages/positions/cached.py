"""What the Positions page computes, cached by `engine.caching`."""

from collections.abc import Callable

import numpy as np

from explorer.analysis.positions import beyond as reading_on
from explorer.analysis.positions import learned as learning
from explorer.analysis.positions import length, order, reread
from explorer.analysis.positions.changes import Change
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.runs.edits import Edit
from models.rows import Stream


@cached
def four_texts(
    model: str,
    text: str,
    seed: int,
    edits: tuple[Edit, ...],
    *,
    progress: Callable[[int, int], object] | None = None,
) -> order.FourTexts:
    """The outputs for original and shuffled order, with and without positions; `progress` gets the
    number of generated tokens. Raises InputProblem."""
    tell = progress or (lambda done, total: None)
    return order.four_texts(cache.open_model(model), text, seed, edits, tell)


@cached
def moved(run: Run, stream: Stream, places: tuple[int, ...]) -> tuple[order.Moved, ...]:
    """The change of each vector of a run when its tokens are read in another order.

    Raises InputProblem; ValueError if `places` is not a permutation.
    """
    return order.moved(cache.open_model(run.model), cache.trace(run), stream, places)


@cached
def moved_text(
    model: str, text: str, edits: tuple[Edit, ...], stream: Stream, change: Change
) -> str:
    """The output with changed positions. Raises InputProblem."""
    return reread.write_under(cache.open_model(model), text, stream, change, edits)


@cached
def learned(model: str, stream: Stream) -> learning.Learned:
    """The learned position vectors of a model. Raises ValueError for one that has none."""
    return learning.learned(cache.open_model(model), stream)


@cached
def shift_losses(run: Run, stream: Stream, most: int) -> tuple[tuple[int, ...], np.ndarray]:
    """Shifts up to `most`, and the mean loss of a run's tokens for each. Raises InputProblem."""
    shifts = tuple(shift for shift in length.SHIFTS if shift <= most)
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    return shifts, length.shift_losses(loaded, traced, stream, shifts)


@cached
def beyond(model: str, text: str) -> reading_on.Beyond:
    """A text read beyond the training length.

    Raises InputProblem; ValueError for a model that cannot go beyond n_ctx.
    """
    return reading_on.beyond(cache.open_model(model), text)


@cached
def by_length(model: str, lengths: tuple[int, ...]) -> length.ByLength:
    """The accuracy of a toy model by sequence length. Raises ValueError for other models."""
    toy = length.toy_of(model)
    if toy is None:
        raise ValueError(f"{model} is no toy")
    return length.by_length(cache.open_model(model), toy, lengths)
