"""What changed masks do under teacher forcing: the same written words, read again."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from explorer.library import LoadedModel
from explorer.runs.edits import Edit
from explorer.runs.interventions import edit_functions
from explorer.runs.rerun import (
    require_same_model,
    rows_of,
    token_logprobs,
    written_tokens,
)
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.hooks import LOGITS

N_NEXT = 6


@dataclass(frozen=True)
class Next:
    """One token that might come next, with its probability before and after."""

    token: str
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class Forced:
    """The tokens that were written without edits, and how probable each is with them.

    `losses_…` are -ln p of each token, [written]. `after[i]` are the likeliest tokens behind the
    first i of them: the best before and after the edits, the most probable after them first.
    """

    tokens: tuple[str, ...]
    losses_before: Float[np.ndarray, " written"]
    losses_after: Float[np.ndarray, " written"]
    after: tuple[tuple[Next, ...], ...]

    @property
    def loss_before(self) -> float:
        """Mean loss of a token; NaN where nothing was written."""
        return float(self.losses_before.mean()) if len(self.tokens) else float("nan")

    @property
    def loss_after(self) -> float:
        return float(self.losses_after.mean()) if len(self.tokens) else float("nan")


def forced(loaded: LoadedModel, traced: Trace, edits: Sequence[Edit]) -> Forced:
    """Read the words of a Trace (made without edits) once more under `edits`.

    Raises ValueError for a Trace of another model.
    """
    require_same_model(loaded, traced)
    written = written_tokens(traced)
    changed = _logits(loaded, traced, edits)
    n = len(written)
    return Forced(
        tokens=tuple(loaded.str_tokens(written)),
        losses_before=-token_logprobs(traced.logits, written),
        losses_after=-token_logprobs(changed, written),
        after=tuple(
            _next(loaded, old, new) for old, new in zip(traced.logits[:n], changed[:n], strict=True)
        ),
    )


def _logits(loaded: LoadedModel, traced: Trace, edits: Sequence[Edit]) -> np.ndarray:
    rows = rows_of(traced)
    changes = edit_functions(loaded.sites, edits, rows.src_valid, rows.tgt_valid)
    return run(loaded.model, rows, {LOGITS}, changes)[LOGITS][0].numpy()


def _next(loaded: LoadedModel, old: np.ndarray, new: np.ndarray) -> tuple[Next, ...]:
    before, after = _softmax(old), _softmax(new)
    best = dict.fromkeys([*(-after).argsort()[:N_NEXT], *(-before).argsort()[:2]])
    ids = [int(token) for token in best]
    return tuple(
        Next(shown, float(before[token]), float(after[token]))
        for token, shown in zip(ids, loaded.str_tokens(ids), strict=True)
    )


def _softmax(logits: np.ndarray) -> np.ndarray:
    wide = np.exp(logits.astype(np.float64) - logits.max())
    return wide / wide.sum()
