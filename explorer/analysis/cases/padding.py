"""Padding: which tokens are padding, where they are, and how masks work with a cache."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from explorer.analysis.cases.case import Case, Measured
from explorer.analysis.cases.planting import (
    END,
    PAD,
    decoder_self,
    fixed_scores,
    own_heads,
    own_site,
    plant_mask,
    plant_pattern,
    plant_positions,
    words_of,
)
from explorer.analysis.mask_tests.probe import Subject
from explorer.numerics import masked_softmax
from explorer.runs.trace import Trace
from models.attention import attend
from models.hooks import NO_EDITS, AttentionSite, Edits
from models.marks import Marks
from models.masks import causal_mask, padding_mask
from models.rows import Rows

Way = Callable[..., Tensor]


def cached_step_is_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """`is_causal` aligns the first query with the first key instead of the last with the last."""
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def cached_step_with_offset(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The new queries are aligned with the end of the keys."""
    n_query, n_key = q.shape[2], k.shape[2]
    return attend(q, k, v, causal_mask(n_query, n_key, offset=n_key - n_query))[0]


def _top_left(scores: Tensor, keep: Tensor) -> Tensor:
    """The pattern under `is_causal`: the triangle starts at the top left."""
    n_query, n_key = scores.shape[-2:]
    return masked_softmax(scores, keep.any(-2, keepdim=True) & causal_mask(n_query, n_key))


def end_mark_taken_for_padding(tokens: Tensor, pad_id: int, eos_id: int) -> Tensor:
    """`pad_token = eos_token`, and then the mask is made from that id."""
    return tokens != eos_id


def padding_by_its_own_id(tokens: Tensor, pad_id: int, eos_id: int) -> Tensor:
    """True at real tokens; the padding id is used for nothing else."""
    return tokens != pad_id


def causal_mask_in_its_place(tokens: Tensor, pad_id: int) -> Tensor:
    """The second line should combine the two masks, but replaces the first."""
    keep = padding_mask(tokens != pad_id)
    keep = causal_mask(tokens.shape[1])
    return keep.expand(len(tokens), 1, -1, -1)


def causal_mask_joined(tokens: Tensor, pad_id: int) -> Tensor:
    """Both masks combined: a key is visible if both allow it."""
    keep = padding_mask(tokens != pad_id)
    keep = keep & causal_mask(tokens.shape[1])
    return keep.expand(len(tokens), 1, -1, -1)


def positions_counted_over_padding(tokens: Tensor, valid: Tensor) -> Tensor:
    """0, 1, 2, … from the left edge, including padding."""
    return torch.arange(tokens.shape[1]).expand(tokens.shape)


def positions_of_real_tokens(tokens: Tensor, valid: Tensor) -> Tensor:
    """Counted over real tokens: the first word is at 0 wherever it is in the row."""
    return (valid.long().cumsum(1) - 1).clamp(min=0)


def _is_causal(way: Way, traced: Trace | None = None) -> Measured:
    """One query over the keys of the user's sequence, or over five."""
    q, k, v = (fixed_scores(1, 2, n, 4, seed) for seed, n in enumerate((1, 5, 5)))
    site = own_site(traced)
    if traced is not None and site:
        q, k, v = own_heads(traced, site)
        q = q[:, :, -1:]  # the newest token only, as with a cache
    keys = torch.eye(k.shape[2]).expand(*k.shape[:2], -1, -1)  # as values, they return the weights
    weights = way(q, k, keys)
    numbers = {
        "keys_seen": (weights[0] > 0).any(0).sum(),
        "first_key_weight": weights[..., 0].min(),
        "largest_change": way(q, k, v),
    }
    return Measured(numbers, weights[0], bool(site), site)


def _confused(way: Way, traced: Trace | None = None) -> Measured:
    """The user's source with two PADs, or a fixed row, where the end token and PAD share an id."""
    pad_id, eos_id = 0, 2
    row: tuple[int, ...] = (7, 5, 9, 2, 0, 0)
    labels: tuple[str, ...] = ("a", "b", "c", END, PAD, PAD)
    marks = traced.marks.of("src") if traced else Marks()
    own = traced is not None and marks.pad is not None and marks.end in traced.src_tokens
    if traced is not None and own:
        pad_id, eos_id = int(marks.pad or 0), int(marks.end or 0)
        n_real = int(traced.src_valid.sum())
        row = (*traced.src_tokens[:n_real], pad_id, pad_id)
        labels = (*traced.src_str_tokens[:n_real], PAD, PAD)
    tokens = torch.tensor([row])
    seen = way(tokens, pad_id, eos_id)
    numbers = {
        "pads_seen": (seen & (tokens == pad_id)).sum(),
        "ends_hidden": (~seen & (tokens == eos_id)).sum(),
    }
    return Measured(numbers, seen, own, labels=labels)


def _replaced(way: Way, traced: Trace | None = None) -> Measured:
    """Two PADs before or after the user's sequence, or a fixed one for a model without a causal
    mask: on which side do words attend to them?"""
    causal = bool(own_site(traced))
    words = words_of(traced if causal else None)
    left, right = (
        torch.tensor([[0, 0, *[1] * len(words)]]),
        torch.tensor([[*[1] * len(words), 0, 0]]),
    )
    numbers = {}
    for name, tokens in (("pads_seen_left", left), ("pads_seen_right", right)):
        cells = (tokens[0, :, None] == 1) & (tokens[0] == 0)  # a word's query, a PAD's key
        numbers[name] = (way(tokens, 0)[0, 0] & cells).sum()
    return Measured(numbers, way(left, 0)[0, 0], causal, labels=(PAD, PAD, *words))


def _plant_replaced(model: Subject, rows: Rows) -> Edits:
    """The causal mask alone at every site that has one."""

    def alone(mask: Tensor) -> Tensor:
        n_query, n_key = mask.shape[-2:]
        return causal_mask(n_query, n_key, offset=n_key - n_query).expand(mask.shape)

    return Edits({s.hook("mask"): alone for s in model.attention_sites() if decoder_self(s)})


def _left_padding(way: Way, traced: Trace | None = None) -> Measured:
    """The positions of a row after two PADs, counted over all tokens and over real ones."""
    words = words_of(traced)
    valid = torch.tensor([[False, False, *[True] * len(words)]])
    positions = way(torch.zeros_like(valid, dtype=torch.long), valid)
    numbers, labels = {"first_position": positions[0, 2]}, (PAD, PAD, *words)
    return Measured(numbers, positions.double(), traced is not None, labels=labels)


def _plant_confusion(model: Subject, rows: Rows) -> Edits:
    """Mask the end token like padding, at every site; no effect without an end token."""
    if model.marks.end is None:
        return NO_EDITS
    return plant_mask(partial(_confused_mask, marks=model.marks))(model, rows)


def _confused_mask(site: AttentionSite, rows: Rows, shape: Sequence[int], marks: Marks) -> Tensor:
    tokens = rows.tokens(site.key_stream)
    (n_query, n_key), marks = shape[2:], marks.of(site.key_stream)
    valid = rows.valid(site.key_stream)[:, :n_key]
    if tokens.dim() == 2 and marks.end is not None:  # patches have no end mark
        valid = end_mark_taken_for_padding(tokens[:, :n_key], marks.pad or 0, marks.end)
    keep = padding_mask(valid)
    if decoder_self(site):
        keep = keep & causal_mask(n_query, n_key, offset=n_key - n_query)
    return keep.repeat_interleave(shape[0] // len(keep), 0)


PADDING = (
    Case(
        "is_causal_cache", "padding", _is_causal, cached_step_is_causal, cached_step_with_offset,
        plant_pattern(_top_left, decoder_self), "causal", cached=True,
    ),
    Case(
        "pad_confused", "padding", _confused, end_mark_taken_for_padding, padding_by_its_own_id,
        _plant_confusion, "end",
    ),
    Case(
        "mask_replaced", "padding", _replaced, causal_mask_in_its_place, causal_mask_joined,
        _plant_replaced, "causal", left=8,
    ),
    Case(
        "left_positions", "padding", _left_padding, positions_counted_over_padding,
        positions_of_real_tokens,
        plant_positions(lambda valid: positions_counted_over_padding(valid, valid)[:1]),
        "added", left=8,
    ),
)  # fmt: skip
