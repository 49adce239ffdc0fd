"""Padding: which tokens are padding, where they are, and how masks work with a cache."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from explorer.analysis.bugs import card
from explorer.analysis.bugs.planting import plant_mask, plant_pattern, plant_positions
from explorer.analysis.mask_tests.probe import Subject
from explorer.numerics import masked_softmax
from explorer.runs.trace import Trace
from models.attention import attend
from models.hooks import NO_EDITS, AttentionSite, Edits
from models.marks import Marks
from models.masks import causal_mask, padding_mask
from models.rows import Rows


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


def _is_causal(traced: Trace | None = None) -> card.Demonstration:
    """One query over the keys of the user's sequence, or over five."""
    q, k, v = (card.fixed_scores(1, 2, n, 4, seed) for seed, n in enumerate((1, 5, 5)))
    site = next((s for s in traced.sites if card.decoder_self(s)), None) if traced else None
    if traced is not None and site is not None:
        q, k, v = (torch.tensor(traced.activations[site.hook(w)])[None] for w in ("q", "k", "v"))
        q = q[:, :, -1:]  # the newest token only, as with a cache
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    keys = torch.eye(k.shape[2]).expand(*k.shape[:2], -1, -1)  # as values, they return the weights
    bad, good = cached_step_is_causal(q, k, keys), cached_step_with_offset(q, k, keys)
    change = cached_step_is_causal(q, k, v) - cached_step_with_offset(q, k, v)
    return card.Demonstration(
        figures=(
            card.Figure(
                "keys_seen", float((bad[0] > 0).any(0).sum()), float((good[0] > 0).any(0).sum())
            ),
            card.Figure("first_key_weight", float(bad[..., 0].min()), float(good[..., 0].min())),
            card.Figure("largest_change", float(change.abs().max()), 0.0),
        ),
        wrong=bad[0].numpy(),
        right=good[0].numpy(),
        own=site is not None,
        site=card.own_site(traced, card.decoder_self),
    )


def _confused(traced: Trace | None = None) -> card.Demonstration:
    """The user's source with two PADs, or a fixed row, where the end token and PAD share an id."""
    pad_id, eos_id = 0, 2
    row: tuple[int, ...] = (7, 5, 9, 2, 0, 0)
    columns: tuple[str, ...] = ("a", "b", "c", card.END, card.PAD, card.PAD)
    own = traced is not None and bool(traced.src_tokens)
    if traced is not None and own and None not in (traced.marks.pad, traced.marks.end):
        pad_id, eos_id = int(traced.marks.pad or 0), int(traced.marks.end or 0)
        n_real = int(traced.src_valid.sum())
        row = (*traced.src_tokens[:n_real], pad_id, pad_id)
        columns = (*traced.src_str_tokens[:n_real], card.PAD, card.PAD)
    tokens = torch.tensor([row])
    bad = end_mark_taken_for_padding(tokens, pad_id, eos_id)
    good = padding_by_its_own_id(tokens, pad_id, eos_id)
    pads, ends = tokens == pad_id, tokens == eos_id
    return card.Demonstration(
        figures=(
            card.Figure("pads_seen", float((bad & pads).sum()), float((good & pads).sum())),
            card.Figure("ends_hidden", float((~bad & ends).sum()), float((~good & ends).sum())),
        ),
        wrong=bad.numpy(),
        right=good.numpy(),
        own=own,
        columns=columns,
    )


def _replaced(traced: Trace | None = None) -> card.Demonstration:
    """Two PADs before or after the user's sequence: on which side do words attend to them?"""
    n = int(traced.tgt_valid.sum()) if traced else 4
    words = traced.tgt_str_tokens[:n] if traced else ("a", "b", "c", "d")
    causal = traced is not None and any(map(card.decoder_self, traced.sites))
    left, right = torch.tensor([[0, 0, *[1] * n]]), torch.tensor([[*[1] * n, 0, 0]])
    figures = []
    for name, tokens in (("pads_seen_left", left), ("pads_seen_right", right)):
        cells = (tokens[0, :, None] == 1) & (tokens[0] == 0)  # a word's query, a PAD's key
        bad, good = (
            float((mask(tokens, 0)[0, 0] & cells).sum())
            for mask in (causal_mask_in_its_place, causal_mask_joined)
        )
        figures.append(card.Figure(name, bad, good))
    return card.Demonstration(
        tuple(figures),
        causal_mask_in_its_place(left, 0)[0, 0].numpy(),
        causal_mask_joined(left, 0)[0, 0].numpy(),
        own=causal,
        columns=(card.PAD, card.PAD, *words),
    )


def _plant_replaced(model: Subject, rows: Rows) -> Edits:
    """The causal mask alone at every site that has one."""

    def alone(mask: Tensor) -> Tensor:
        n_query, n_key = mask.shape[-2:]
        return causal_mask(n_query, n_key, offset=n_key - n_query).expand(mask.shape)

    return Edits({s.hook("mask"): alone for s in model.attention_sites() if card.decoder_self(s)})


def _left_padding(traced: Trace | None = None) -> card.Demonstration:
    """The positions of a row after two PADs, counted over all tokens and over real ones."""
    n = int(traced.tgt_valid.sum()) if traced else 4
    words = traced.tgt_str_tokens[:n] if traced else ("a", "b", "c", "d")
    valid = torch.tensor([[False, False, *[True] * n]])
    tokens = torch.zeros(1, n + 2, dtype=torch.long)
    bad = positions_counted_over_padding(tokens, valid)
    good = positions_of_real_tokens(tokens, valid)
    return card.Demonstration(
        (card.Figure("first_position", float(bad[0, 2]), float(good[0, 2])),),
        bad.double().numpy(),
        good.double().numpy(),
        own=traced is not None,
        columns=(card.PAD, card.PAD, *words),
    )


def _plant_confusion(model: Subject, rows: Rows) -> Edits:
    """Mask the end token like padding, at every site; no effect without an end token."""
    if model.marks.end is None:
        return NO_EDITS
    return plant_mask(partial(_confused_mask, marks=model.marks))(model, rows)


def _confused_mask(site: AttentionSite, rows: Rows, shape: Sequence[int], marks: Marks) -> Tensor:
    tokens = rows.tokens(site.key_stream)
    n_query, n_key = shape[2:]
    assert marks.end is not None
    valid = rows.valid(site.key_stream)[:, :n_key]
    if tokens.dim() == 2:  # patches have no end mark
        valid = end_mark_taken_for_padding(tokens[:, :n_key], marks.pad or 0, marks.end)
    keep = padding_mask(valid)
    if card.decoder_self(site):
        keep = keep & causal_mask(n_query, n_key, offset=n_key - n_query)
    return keep.repeat_interleave(shape[0] // len(keep), 0)


PADDING = (
    card.Pitfall(
        id="is_causal_cache",
        group="padding",
        wrong=cached_step_is_causal,
        right=cached_step_with_offset,
        demonstrate=_is_causal,
        plant=plant_pattern(_top_left, card.decoder_self),
        cached=True,
        needs="causal",
    ),
    card.Pitfall(
        id="pad_confused",
        group="padding",
        wrong=end_mark_taken_for_padding,
        right=padding_by_its_own_id,
        demonstrate=_confused,
        plant=_plant_confusion,
        needs="end",
    ),
    card.Pitfall(
        id="mask_replaced",
        group="padding",
        wrong=causal_mask_in_its_place,
        right=causal_mask_joined,
        demonstrate=_replaced,
        plant=_plant_replaced,
        left=8,
        needs="causal",
    ),
    card.Pitfall(
        id="left_positions",
        group="padding",
        wrong=positions_counted_over_padding,
        right=positions_of_real_tokens,
        demonstrate=_left_padding,
        plant=plant_positions(lambda valid: positions_counted_over_padding(valid, valid)[:1]),
        left=8,
        needs="added",
    ),
)
