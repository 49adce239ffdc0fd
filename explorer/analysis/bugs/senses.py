"""Masks inverted, applied in the wrong place or encoded wrongly: from scores to pattern.

Every function takes scores and `keep`, both [batch, head, query, key], and returns the pattern.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from explorer.analysis.bugs import card
from explorer.analysis.bugs.planting import plant_pattern
from explorer.numerics import masked_softmax
from explorer.runs.trace import Trace
from models.hooks import AttentionSite


def causal_turned_round(scores: Tensor, keep: Tensor) -> Tensor:
    """An additive mask (0 = visible, -inf = hidden) read as if 0 meant hidden."""
    additive = torch.zeros_like(scores).masked_fill(~keep, float("-inf"))
    return scores.masked_fill(additive == 0, -1e9).softmax(-1)


def padding_turned_round(scores: Tensor, keep: Tensor) -> Tensor:
    """A mask that is True at padding, passed to code that hides keys where the mask is 0."""
    is_pad = ~keep
    return scores.masked_fill(is_pad == 0, -1e9).softmax(-1)


def mask_after_softmax(scores: Tensor, keep: Tensor) -> Tensor:
    """Softmax over all keys, then the hidden weights are set to 0."""
    return scores.softmax(-1) * keep


def multiplied_by_zero(scores: Tensor, keep: Tensor) -> Tensor:
    """Hidden scores become 0, which is an ordinary score: e to the 0 is 1."""
    return (scores * keep).softmax(-1)


def zeros_and_ones_added(scores: Tensor, keep: Tensor) -> Tensor:
    """A keep-mask of 0.0 and 1.0 used as an additive mask."""
    return (scores + keep.to(scores.dtype)).softmax(-1)


def diagonal_open_too_far(scores: Tensor, keep: Tensor) -> Tensor:
    """triu(diagonal=2) hides from the second future token on: the next one is visible."""
    n_query, n_key = scores.shape[-2:]
    hidden = torch.ones(n_query, n_key).triu(diagonal=n_key - n_query + 2).bool()
    return masked_softmax(scores, ~hidden & keep.any(-2, keepdim=True))


def diagonal_closed(scores: Tensor, keep: Tensor) -> Tensor:
    """triu(diagonal=0) hides the token itself: the first row is fully masked."""
    n_query, n_key = scores.shape[-2:]
    hidden = torch.ones(n_query, n_key).triu(diagonal=n_key - n_query).bool()
    return masked_softmax(scores, keep & ~hidden)


def no_mask(scores: Tensor, keep: Tensor) -> Tensor:
    """No mask at inference: `decoder(y, memory)` without its masks."""
    return scores.softmax(-1)


def _unmasked(traced: Trace | None = None) -> card.Demonstration:
    """Includes the first row, which could only attend to itself in training."""
    shown = card.demonstration(no_mask, masked_softmax, card.decoder_self, card.causal_keep)(traced)
    assert shown.wrong is not None
    assert shown.right is not None
    first = card.Figure("first_row_self", float(shown.wrong[0, 0, 0]), float(shown.right[0, 0, 0]))
    return replace(shown, figures=(*shown.figures, first))


def pattern_fault(
    id: str,
    wrong: card.Pattern,
    demonstrate: Callable[[Trace | None], card.Demonstration] | None = None,
    where: Callable[[AttentionSite], bool] = card.everywhere,
    group: card.Group = "masks",
    batched: bool = False,
    needs: card.Needs = "",
) -> card.Pitfall:
    """A bug between scores and pattern, where `masked_softmax` is correct.

    `demonstrate` None compares the two under a causal mask; `where` selects the sites at which the
    bug is injected.
    """
    return card.Pitfall(
        id=id,
        group=group,
        wrong=wrong,
        right=masked_softmax,
        demonstrate=demonstrate
        or card.demonstration(wrong, masked_softmax, card.decoder_self, card.causal_keep),
        plant=plant_pattern(wrong, where),
        batched=batched,
        needs=needs,
    )


SENSES = (
    pattern_fault("inverted_causal", causal_turned_round, where=card.decoder_self, needs="causal"),
    pattern_fault(
        "inverted_padding",
        padding_turned_round,
        card.demonstration(
            padding_turned_round, masked_softmax, card.padding_only, card.padded_keep
        ),
        where=card.padding_only,
        needs="both_ways",
    ),
    pattern_fault("after_softmax", mask_after_softmax),
    pattern_fault("times_zero", multiplied_by_zero),
    pattern_fault("added_ones", zeros_and_ones_added),
    pattern_fault("diagonal_open", diagonal_open_too_far, where=card.decoder_self, needs="causal"),
    pattern_fault("diagonal_closed", diagonal_closed, where=card.decoder_self, needs="causal"),
    pattern_fault("no_mask", no_mask, _unmasked, where=card.decoder_self, needs="causal"),
)
