"""The loss of the same tokens at later positions, which may not occur in training."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from explorer.analysis.positions.changes import MOST_SHIFT, PositionChange, position_functions
from explorer.library import LoadedModel
from explorer.runs.rerun import rerun, token_logprobs, written_tokens
from explorer.runs.trace import Trace
from models.hooks import LOGITS, Edits
from models.rows import Stream

SHIFTS = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, MOST_SHIFT)


def shift_losses(
    loaded: LoadedModel, traced: Trace, stream: Stream, shifts: Sequence[int] = SHIFTS
) -> Float[np.ndarray, " shift"]:
    """The mean loss of the written tokens if the sequence began at each of these positions.

    Words, order and length are unchanged. NaN if nothing was written.
    """
    written, losses = written_tokens(traced), []
    for shift in shifts:
        moved = Edits(position_functions(loaded, stream, PositionChange("shift", shift)))
        logits = rerun(loaded, traced, {LOGITS}, moved)[LOGITS][0].numpy()
        losses.append(-token_logprobs(logits, written).mean() if len(written) else np.nan)
    return np.array(losses)


def most_shift(loaded: LoadedModel, n: int) -> int:
    """The largest shift of `n` tokens: learned positions end at n_ctx, others do not."""
    longest = loaded.config.longest
    return MOST_SHIFT if longest is None else max(0, longest - n)
