"""A Trace's run repeated with a change, to measure the effect on the written tokens.

The shared model is never modified: a change acts through hooks during one pass, in addition to the
Trace's own edits.
"""

from collections.abc import Callable, Container, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.library import LoadedModel
from explorer.runs.activations import Part, read_part
from explorer.runs.edits import HeadOff
from explorer.runs.interventions import edit_functions
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.hooks import NO_EDITS, Edits
from models.rows import Rows, as_tensor


def rerun(
    loaded: LoadedModel,
    traced: Trace,
    keep: Container[str] | Callable[[str], bool],
    edits: Edits = NO_EDITS,
) -> dict[str, Tensor]:
    """Read the rows of a Trace again under its own edits and, after them, `edits`.

    The result has the form of `run`'s, with a batch axis of 1. Raises ValueError if the Trace is
    of another model.
    """
    require_same_model(loaded, traced)
    return run(loaded.model, rows_of(traced), keep, edits_of(traced).then(edits))


def read_again(loaded: LoadedModel, traced: Trace, part: Part) -> dict[str, np.ndarray]:
    """A part of a Trace's run that the Trace does not store.

    Raises ValueError if the Trace is of another model, or stores everything.
    """
    require_same_model(loaded, traced)
    own = traced.activations
    if isinstance(own, dict):
        raise ValueError("this trace was read from a file, so it cannot be rerun")
    return read_part(loaded, rows_of(traced), traced.edits, own.kept, own.parts, part)


def rows_of(traced: Trace) -> Rows:
    """The Trace's rows as a batch of one."""
    tgt, tgt_valid = as_tensor([traced.tgt_tokens]), torch.tensor(traced.tgt_valid)[None]
    if not traced.src_tokens:
        return Rows(tgt, tgt_valid)
    src, src_valid = as_tensor([traced.src_tokens]), torch.tensor(traced.src_valid)[None]
    return Rows(tgt, tgt_valid, src, src_valid)


def edits_of(traced: Trace) -> Edits:
    """The Trace's own edits as a visitor."""
    rows = rows_of(traced)
    return edit_functions(traced.sites, traced.edits, rows.src_valid, rows.tgt_valid)


def require_same_model(loaded: LoadedModel, traced: Trace) -> None:
    """Refuse to rerun one model's Trace on another. Raises ValueError."""
    if (loaded.name, loaded.config) != (traced.model, traced.config):
        raise ValueError(f"the trace was made by {traced.model!r}, not by {loaded.name!r}")


def written_tokens(traced: Trace) -> tuple[int, ...]:
    """The token that the logits of each position of `tgt_tokens` are compared with, in order.

    For a model that predicts the next token: the token written after each of `tgt_tokens`. After
    the last token of a translation that is the end token. Nothing is known to follow the last token
    of a continued text, or of a translation that was cut off, so there the result is one shorter.
    Nothing follows padding.
    For a model that predicts the token at the same position: `tgt_tokens` themselves, with masks
    replaced by the model's prediction. Empty for a model without logits.
    """
    row = traced.tgt_tokens[: int(traced.tgt_valid.sum())]
    if not traced.config.lm_head:
        return ()
    if traced.config.fills:
        pairs = zip(row, traced.predicted_tokens, strict=False)
        return tuple(guess if token == traced.marks.mask else token for token, guess in pairs)
    end = traced.marks.end
    ended = bool(traced.src_tokens) and traced.finished
    return (*row[1:], end) if ended and end is not None else row[1:]


def token_logprobs(
    logits: Float[np.ndarray, "tgt vocab"], tokens: Sequence[int]
) -> Float[np.ndarray, " written"]:
    """ln p(token) of `tokens` at the first positions of a run's logits, in float64."""
    wide = logits[: len(tokens)].astype(np.float64)
    highest = wide.max(1, initial=-np.inf)
    whole = highest + np.log(np.exp(wide - highest[:, None]).sum(1))
    return wide[np.arange(len(tokens)), list(tokens)] - whole


def heads_off(traced: Trace, site: str) -> list[int]:
    """The heads of a site that an edit of the Trace has ablated."""
    return sorted({e.head for e in traced.edits if isinstance(e, HeadOff) and e.site == site})
