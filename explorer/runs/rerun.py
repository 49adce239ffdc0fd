"""A Trace's run once more, with something changed: what a change does to the written tokens.

The shared model is never touched: a change is a visitor of one pass, and what was switched off in
the Trace itself stays off.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.library import LoadedModel
from explorer.runs.edits import HeadOff
from explorer.runs.interventions import edit_functions
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, Edits

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def kind_of(site: AttentionSite) -> Kind:
    """Encoder self-attention, decoder self-attention or cross-attention."""
    return "cross" if site.kind == "cross" else site.stack


def sites_of(traced: Trace, kind: Kind) -> tuple[AttentionSite, ...]:
    """The sites of one kind, first layer first; none where the model has no such kind."""
    return tuple(site for site in traced.sites if kind_of(site) == kind)


def written_tokens(traced: Trace) -> tuple[int, ...]:
    """The token that was written after each of `tgt_tokens`, from the start mark on.

    After the last token of a translation that is the end mark. Nothing is known to follow the
    last one of a decoder-only model's text, or of a translation that was cut off, so there the
    row is one shorter. Padding follows nothing.
    """
    n_real = int(traced.tgt_valid.sum())
    follow = traced.tgt_tokens[1:n_real]
    ended = bool(traced.src_tokens) and traced.finished
    return (*follow, traced.config.eos_id) if ended else follow


def token_logprobs(
    logits: Float[np.ndarray, "tgt vocab"], tokens: Sequence[int]
) -> Float[np.ndarray, " written"]:
    """ln p(token) of `tokens` after the first positions of a run's logits, in float64."""
    wide = logits[: len(tokens)].astype(np.float64)
    highest = wide.max(1, initial=-np.inf)
    whole = highest + np.log(np.exp(wide - highest[:, None]).sum(1))
    return wide[np.arange(len(tokens)), list(tokens)] - whole


def heads_off(traced: Trace, site: str) -> list[int]:
    """The heads of a site that an edit of the Trace has switched off."""
    return sorted({e.head for e in traced.edits if isinstance(e, HeadOff) and e.site == site})


def rows_of(traced: Trace) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The Trace's rows as a batch of one: src, src_valid, tgt, tgt_valid, each [1, pos]."""
    return (
        torch.tensor([traced.src_tokens], dtype=torch.long),
        torch.tensor(traced.src_valid)[None],
        torch.tensor([traced.tgt_tokens], dtype=torch.long),
        torch.tensor(traced.tgt_valid)[None],
    )


def edits_of(traced: Trace) -> Edits:
    """The Trace's own edits as a visitor, to which more functions may be added."""
    _, src_valid, _, tgt_valid = rows_of(traced)
    return edit_functions(traced.sites, traced.edits, src_valid, tgt_valid)


def require_same_model(loaded: LoadedModel, traced: Trace) -> None:
    """Refuse to rerun one model's Trace on another. Raises ValueError."""
    if (loaded.name, loaded.config) != (traced.model, traced.config):
        raise ValueError(f"the trace is of {traced.model!r}, the model is {loaded.name!r}")
