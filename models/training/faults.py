"""Wrong masks for training and evaluation, to show what each mask is for.

The models themselves implement only the correct masks. A fault is a visitor that replaces the masks
of all passes within its context.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor

from models.hooks import AttentionSite, Edits, visiting
from models.masks import causal_mask, padding_mask
from models.transformer import Model

Masks = Literal["right", "no_causal", "pad_visible", "inverted"]
"""`no_causal`: the decoder may attend to the tokens that it must predict. `pad_visible`: padding
can be attended to like words. `inverted`: every mask is negated."""


def masked_as(
    masks: Masks, model: Model, tgt_valid: Tensor | None = None
) -> AbstractContextManager[Any]:
    """Context manager: passes of `model` inside use these masks; "right" changes nothing.

    `tgt_valid` is Bool [batch, tgt], True at real tokens; None means that all are real.
    """
    return nullcontext() if masks == "right" else visiting(edits_of(masks, model, tgt_valid))


def edits_of(masks: Masks, model: Model, tgt_valid: Tensor | None = None) -> Edits:
    """The edits that replace a model's masks by these; no edits for "right"."""
    functions: dict[str, Callable[[Tensor], Tensor]] = {}
    for site in model.attention_sites() if masks != "right" else ():
        function = _fault(masks, site, tgt_valid)
        if function is not None:
            functions[site.hook("mask")] = function
    return Edits(functions)


def _fault(
    masks: Masks, site: AttentionSite, tgt_valid: Tensor | None
) -> Callable[[Tensor], Tensor] | None:
    """A function from the right mask [batch, head, query, key] of a site to the wrong one."""
    causal = site.kind == "self" and site.stack == "decoder"
    if masks == "inverted":
        return torch.logical_not
    if masks == "no_causal":
        return _without_causal(tgt_valid) if causal else None
    return _causal_only if causal else torch.ones_like


def _without_causal(tgt_valid: Tensor | None) -> Callable[[Tensor], Tensor]:
    def function(mask: Tensor) -> Tensor:
        if tgt_valid is None:
            return torch.ones_like(mask)
        return padding_mask(tgt_valid).expand(mask.shape)

    return function


def _causal_only(mask: Tensor) -> Tensor:
    n_query, n_key = mask.shape[-2:]
    return causal_mask(n_query, n_key, offset=n_key - n_query, device=mask.device).expand(
        mask.shape
    )
