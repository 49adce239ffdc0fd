"""Masks inverted, applied in the wrong place or encoded wrongly, or of the wrong shape.

Functions of scores and `keep`, both [batch, head, query, key], return the pattern. Broadcasting and
indexing accept nearly all wrong shapes.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from explorer.analysis.cases.case import Case, Measured
from explorer.analysis.cases.planting import (
    Pattern,
    Where,
    causal_keep,
    decoder_self,
    everywhere,
    fixed_scores,
    hidden_mass,
    own_case,
    own_site,
    padded_keep,
    padding_only,
    plant_pattern,
    row_sum_error,
)
from explorer.numerics import masked_softmax
from explorer.runs.trace import Trace

Measure = Callable[[Any, Trace | None], Measured]


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


def of_patterns(
    where: Where = decoder_self, fixed: Callable[[Tensor], Tensor] = causal_keep
) -> Measure:
    """The pattern at the first `where` site, or on fixed scores with the mask of `fixed`."""

    def measure(way: Pattern, traced: Trace | None = None) -> Measured:
        """The pattern of one case, and the weight on hidden keys."""
        own = own_case(traced, where)
        scores = fixed_scores()
        scores, keep = own or (scores, fixed(scores))
        pattern = way(scores, keep)
        numbers: dict[Any, float | Tensor] = {
            "hidden_mass": hidden_mass(pattern, keep),
            "row_sum_error": row_sum_error(pattern, keep),
            "largest_change": pattern,
        }
        return Measured(numbers, pattern[0], own is not None, own_site(traced, where))

    return measure


IN_ALL = of_patterns()


def pattern_case(
    id: str,
    group: str,
    wrong: Pattern,
    measure: Measure = IN_ALL,
    where: Where = everywhere,
    **more: Any,
) -> Case:
    """A bug between scores and pattern, where `masked_softmax` is correct, injected at `where`."""
    plant = plant_pattern(wrong, where)
    return Case(id, group, measure, wrong, masked_softmax, plant, **more)


CAUSAL: dict[str, Any] = {"where": decoder_self, "needs": "causal"}
MASKS = (
    pattern_case("inverted_causal", "masks", causal_turned_round, **CAUSAL),
    pattern_case(
        "inverted_padding", "masks", padding_turned_round, of_patterns(padding_only, padded_keep),
        padding_only, needs="both_ways",
    ),
    pattern_case("after_softmax", "masks", mask_after_softmax),
    pattern_case("times_zero", "masks", multiplied_by_zero),
    pattern_case("added_ones", "masks", zeros_and_ones_added),
    pattern_case("diagonal_open", "masks", diagonal_open_too_far, **CAUSAL),
    pattern_case("diagonal_closed", "masks", diagonal_closed, **CAUSAL),
    pattern_case("no_mask", "masks", no_mask, **CAUSAL),
)  # fmt: skip


def first_item_only(scores: Tensor, keep: Tensor) -> Tensor:
    """A mask made for a batch of one, assigned by index: its batch index is always 0."""
    scores = scores.clone()
    scores[torch.where(~keep[:1])] = -1e9
    return scores.softmax(-1)


def first_head_only(scores: Tensor, keep: Tensor) -> Tensor:
    """A mask [batch, 1, query, key], assigned by index: its head index is always 0."""
    scores = scores.clone()
    scores[torch.where(~keep[:, :1])] = -1e9
    return scores.softmax(-1)


def padding_read_per_head(scores: Tensor, valid: Tensor) -> Tensor:
    """valid [batch, key] becomes [batch, 1, key], so its batch axis broadcasts over the heads."""
    return scores.masked_fill(~valid.unsqueeze(1), -1e9).softmax(-1)


def padding_read_per_item(scores: Tensor, valid: Tensor) -> Tensor:
    """valid [batch, key] becomes [batch, 1, 1, key]: one set of keys per sentence."""
    return scores.masked_fill(~valid[:, None, None, :], -1e9).softmax(-1)


def _two_items(way: Pattern, traced: Trace | None = None) -> Measured:
    """The user's sentence twice in a batch: alone, it would be item 0, and correct."""
    own = own_case(traced)
    scores = fixed_scores()
    scores, keep = own or (scores, causal_keep(scores))
    scores, keep = scores[:1].repeat(2, 1, 1, 1), keep[:1].repeat(2, 1, 1, 1)
    pattern = way(scores, keep)
    masses = {("mass_item", str(n + 1)): hidden_mass(pattern[n], keep[n]) for n in (0, 1)}
    return Measured(masses, pattern[1], own is not None, own_site(traced))


def _per_head(way: Pattern, traced: Trace | None = None) -> Measured:
    """Three sentences and three heads: the second sentence ends in two PADs."""
    valid = torch.ones(3, 5, dtype=torch.bool)
    valid[1, 3:] = False
    pattern = way(fixed_scores(3, 3), valid)
    hidden = (pattern * ~valid[:, None, None, :])[1].sum((1, 2))
    masses = {("pad_mass_head", str(head + 1)): hidden[head] for head in range(3)}
    return Measured(masses, pattern[1])


SHAPES = (
    pattern_case("first_item", "shapes", first_item_only, _two_items, batched=True),
    pattern_case("first_head", "shapes", first_head_only),
    Case("padding_per_head", "shapes", _per_head, padding_read_per_head, padding_read_per_item),
)  # fmt: skip
