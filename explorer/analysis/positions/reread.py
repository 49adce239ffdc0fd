"""The same words read under changed positions: scores and weights of every head, and the loss."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float

from explorer.analysis.positions.changes import PositionChange, position_functions
from explorer.analysis.positions.order import written
from explorer.library import LoadedModel
from explorer.runs.edits import Edit
from explorer.runs.inputs import given_tokens
from explorer.runs.interventions import edit_functions
from explorer.runs.rerun import require_same_model, rerun, token_logprobs, written_tokens
from explorer.runs.trace import Trace
from models.hooks import LOGITS, Edits
from models.rows import Stream


@dataclass(frozen=True, eq=False)
class Reread:
    """A Trace's input read again: scores and patterns [head, query, key] by site, and the losses.

    `losses` [written] are -ln p of the tokens that were generated with the original positions.
    """

    scores: dict[str, np.ndarray] = field(repr=False)
    patterns: dict[str, np.ndarray] = field(repr=False)
    losses: Float[np.ndarray, " written"] = field(repr=False)

    @property
    def loss(self) -> float:
        """Mean loss per token; NaN if nothing was written."""
        return float(self.losses.mean()) if len(self.losses) else float("nan")


def reread(
    loaded: LoadedModel, traced: Trace, stream: Stream, change: PositionChange | None
) -> Reread:
    """Read a Trace's input under changed positions of one stream; None: unchanged.

    The Trace's own edits stay in force. Raises ValueError for another model's Trace.
    """
    require_same_model(loaded, traced)
    hooks = {site.hook(what) for site in traced.sites for what in ("scores", "pattern")}
    changed = {} if change is None else position_functions(loaded, stream, change)
    seen = rerun(loaded, traced, hooks | {LOGITS}, Edits(changed))
    found = {name: tensor[0].numpy() for name, tensor in seen.items()}
    return Reread(
        scores={site.name: found[site.hook("scores")] for site in traced.sites},
        patterns={site.name: found[site.hook("pattern")] for site in traced.sites},
        losses=-token_logprobs(found[LOGITS], written_tokens(traced)),
    )


def write_under(
    loaded: LoadedModel,
    text: str,
    stream: Stream,
    change: PositionChange,
    edits: Sequence[Edit] = (),
) -> str:
    """The model's output while the positions of `stream` are changed. Raises InputProblem."""
    functions = edit_functions(loaded.sites, edits)
    changed = functions.then(Edits(position_functions(loaded, stream, change)))
    return written(loaded, given_tokens(loaded, text), changed)


def weight_moved(
    before: Float[np.ndarray, "query key"],
    after: Float[np.ndarray, "query key"],
    valid: Bool[np.ndarray, " query"],
) -> float:
    """The share of a head's weight that has moved: half the sum of |change|, 0 to 1.

    Averaged over the real queries (total variation distance).
    """
    return float(np.abs(after - before)[valid].sum(1).mean() / 2) if valid.any() else 0.0


def by_offset(
    values: Float[np.ndarray, "pos pos"], mask: Bool[np.ndarray, "pos pos"]
) -> tuple[np.ndarray, Float[np.ndarray, " offset"]]:
    """The mean of a square matrix for each offset key - query, over the allowed cells.

    Returns (offsets, means); offsets at which nothing is allowed are left out.
    """
    n = len(values)
    offsets, means = [], []
    for offset in range(1 - n, n):
        allowed = np.diagonal(mask, offset)
        if allowed.any():
            offsets.append(offset)
            means.append(float(np.diagonal(values, offset)[allowed].mean()))
    return np.array(offsets, np.int64), np.array(means, np.float64)
