"""Masks of the wrong shape: broadcasting and indexing accept nearly all of them."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from explorer.analysis.bugs import card
from explorer.analysis.bugs.senses import pattern_fault
from explorer.analysis.mask_tests.probe import Subject
from explorer.numerics import masked_softmax
from explorer.runs.trace import Trace
from models.hooks import Edits
from models.masks import causal_mask
from models.rows import Rows


def mask_with_an_extra_axis(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    """`keep` is already [1, 1, query, key], and is unsqueezed once more."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~keep.unsqueeze(1), -1e9)  # [1, batch, head, query, key]
    z = scores.softmax(-1) @ v
    batch, _, n_query, _ = q.shape
    return z.transpose(1, 2).reshape(batch, n_query, -1)  # swaps batch and head, and fits


def mask_with_its_axes(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    """The same lines with `keep` unchanged, and an assertion on the shape."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~keep, -1e9)  # [batch, head, query, key]
    assert scores.ndim == 4, f"scores became {tuple(scores.shape)}"
    z = scores.softmax(-1) @ v
    batch, _, n_query, _ = q.shape
    return z.transpose(1, 2).reshape(batch, n_query, -1)


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


def one_row_per_head(scores: Tensor, keep: Tensor) -> Tensor:
    """keep [query, key] becomes [query, 1, key], so its queries broadcast over the heads."""
    return scores.masked_fill(~keep.unsqueeze(1), -1e9).softmax(-1)


def every_row_for_every_head(scores: Tensor, keep: Tensor) -> Tensor:
    """keep [query, key] becomes [1, 1, query, key]."""
    return scores.masked_fill(~keep[None, None], -1e9).softmax(-1)


def _reach(attend: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    """Bool [query, token]: whether changing that token changes the output of the query."""
    plain = attend(q, k, v, keep)[0]
    columns = []
    for token in range(k.shape[2]):
        changed = [tensor.clone() for tensor in (q, k, v)]
        for tensor in changed:
            tensor[:, :, token] += 1.0
        columns.append((attend(*changed, keep)[0] - plain).abs().amax(-1) > 1e-5)
    return torch.stack(columns, dim=-1)


def _extra_axis(traced: Trace | None = None) -> card.Demonstration:
    """Which tokens affect the output of which query, in the user's decoder or a fixed case."""
    q, k, v = (
        card.fixed_scores(2, 4, 5, 4, seed) for seed in range(3)
    )  # [batch, head, pos, d_head]
    site = next((s for s in traced.sites if card.decoder_self(s)), None) if traced else None
    if traced is not None and site is not None:
        q, k, v = (torch.tensor(traced.activations[site.hook(w)])[None] for w in ("q", "k", "v"))
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    keep = causal_mask(q.shape[2])[None, None]
    bad, good = mask_with_an_extra_axis(q, k, v, keep), mask_with_its_axes(q, k, v, keep)
    bad_reach, good_reach = (
        _reach(attend, q, k, v, keep) for attend in (mask_with_an_extra_axis, mask_with_its_axes)
    )
    return card.Demonstration(
        figures=(
            card.Figure("largest_change", float((bad - good).abs().max()), 0.0),
            card.Figure(
                "future_cells", float(bad_reach.triu(1).sum()), float(good_reach.triu(1).sum())
            ),
        ),
        wrong=bad_reach.numpy(),
        right=good_reach.numpy(),
        own=site is not None,
        site=card.own_site(traced, card.decoder_self),
    )


def _plant_extra_axis(model: Subject, rows: Rows) -> Edits:
    """Swap heads and positions, as the mask with the extra axis does."""

    def mixed(z: Tensor) -> Tensor:
        batch, n_heads, n_query, d_head = z.shape
        merged = z[None].transpose(1, 2).reshape(batch, n_query, n_heads, d_head)
        return merged.transpose(1, 2)

    return Edits({s.hook("z"): mixed for s in model.attention_sites() if card.decoder_self(s)})


def _two_items(traced: Trace | None = None) -> card.Demonstration:
    """The user's sentence twice in a batch: alone, it would be item 0, and correct."""
    own = card.own_case(traced, card.decoder_self)
    scores = card.fixed_scores()
    scores, keep = own or (scores, card.causal_keep(scores))
    scores, keep = scores[:1].repeat(2, 1, 1, 1), keep[:1].repeat(2, 1, 1, 1)
    bad, good = first_item_only(scores, keep), masked_softmax(scores, keep)
    masses = [
        card.hidden_mass(pattern[item], keep[item]) for item in (0, 1) for pattern in (bad, good)
    ]
    return card.Demonstration(
        figures=(
            card.Figure("mass_item", masses[0], masses[1], of="1"),
            card.Figure("mass_item", masses[2], masses[3], of="2"),
        ),
        wrong=bad[1].numpy(),
        right=good[1].numpy(),
        own=own is not None,
        site=card.own_site(traced, card.decoder_self),
    )


def _per_head(traced: Trace | None = None) -> card.Demonstration:
    """Three sentences and three heads: the second sentence ends in two PADs."""
    scores = card.fixed_scores(3, 3)
    valid = torch.ones(3, 5, dtype=torch.bool)
    valid[1, 3:] = False
    bad, good = padding_read_per_head(scores, valid), padding_read_per_item(scores, valid)
    hidden = ~valid[:, None, None, :]
    return card.Demonstration(
        figures=tuple(
            card.Figure(
                "pad_mass_head",
                float((bad * hidden)[1, head].sum()),
                float((good * hidden)[1, head].sum()),
                of=str(head + 1),
            )
            for head in range(3)
        ),
        wrong=bad[1].numpy(),
        right=good[1].numpy(),
    )


def _row_per_head(traced: Trace | None = None) -> card.Demonstration:
    """Four heads and four tokens."""
    scores = card.fixed_scores(1, 4, 4, 4)
    keep = causal_mask(4)
    bad, good = one_row_per_head(scores, keep), every_row_for_every_head(scores, keep)
    return card.Demonstration(
        figures=(
            card.Figure("hidden_mass", card.hidden_mass(bad, keep), card.hidden_mass(good, keep)),
            *(
                card.Figure(
                    "open_keys",
                    float((bad[0, head] > 0).any(0).sum()),
                    float((good[0, head] > 0).any(0).sum()),
                    of=str(head + 1),
                )
                for head in range(4)
            ),
        ),
        wrong=bad[0].numpy(),
        right=good[0].numpy(),
    )


SHAPES = (
    card.Pitfall(
        id="extra_axis",
        group="shapes",
        wrong=mask_with_an_extra_axis,
        right=mask_with_its_axes,
        demonstrate=_extra_axis,
        plant=_plant_extra_axis,
        needs="causal",
    ),
    pattern_fault("first_item", first_item_only, _two_items, group="shapes", batched=True),
    pattern_fault("first_head", first_head_only, group="shapes"),
    card.Pitfall(
        id="padding_per_head",
        group="shapes",
        wrong=padding_read_per_head,
        right=padding_read_per_item,
        demonstrate=_per_head,
    ),
    card.Pitfall(
        id="row_per_head",
        group="shapes",
        wrong=one_row_per_head,
        right=every_row_for_every_head,
        demonstrate=_row_per_head,
    ),
)
