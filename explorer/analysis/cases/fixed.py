"""Fixed cases and the user's own, on which a case is measured, and what patterns put where."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from explorer.analysis.cases.planting import Where, decoder_self
from explorer.labels import SpecialToken
from explorer.runs.trace import Trace
from models.attention import share_heads
from models.masks import causal_mask, padding_mask

START, END, PAD = (SpecialToken(name) for name in ("<s>", "</s>", "<pad>"))
"""Labels in made-up rows."""


def fixed_scores(
    batch: int = 2, n_heads: int = 3, n_query: int = 5, n_key: int = 5, seed: int = 0
) -> Float[Tensor, "batch head query key"]:
    """Scores N(0, 1), the same in every run."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, n_heads, n_query, n_key, generator=generator)


def fixed_table(n_rows: int, n_columns: int, seed: int = 0) -> Float[Tensor, "row column"]:
    """The same numbers as one table."""
    return fixed_scores(1, 1, n_rows, n_columns, seed)[0, 0]


def causal_keep(scores: Tensor) -> Bool[Tensor, "batch head query key"]:
    """The causal mask, expanded to the shape of the scores."""
    return causal_mask(*scores.shape[-2:]).expand(scores.shape)


def padded_keep(scores: Tensor, n_pads: int = 2) -> Bool[Tensor, "batch head query key"]:
    """A mask that hides the last keys, as for padding on the right, in the shape of the scores."""
    valid = torch.ones(scores.shape[0], scores.shape[-1], dtype=torch.bool)
    valid[:, scores.shape[-1] - n_pads :] = False
    return padding_mask(valid).expand(scores.shape)


def own_site(traced: Trace | None, where: Where = decoder_self) -> str:
    """The name of a Trace's first matching site; "" if there is none."""
    return next((site.name for site in traced.sites if where(site)), "") if traced else ""


def own_case(traced: Trace | None, where: Where = decoder_self) -> tuple[Tensor, Tensor] | None:
    """Scores and mask [1, head, query, key] of this site; None without one."""
    name = own_site(traced, where)
    if traced is None or not name:
        return None
    scores = torch.tensor(traced.activations[traced.site(name).hook("scores")])[None]
    return scores, torch.tensor(traced.mask(name))[None]


def own_heads(traced: Trace, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v [1, head, pos, d_head] of a site; shared keys and values are repeated."""
    site = traced.site(name)
    q, k, v = (torch.tensor(traced.activations[site.hook(what)])[None] for what in ("q", "k", "v"))
    return q, share_heads(q, k), share_heads(q, v)


def hidden_mass(pattern: Tensor, keep: Tensor) -> float:
    """The largest weight that any row puts on hidden keys."""
    return float((pattern * ~keep).sum(-1).max())


def row_sum_error(pattern: Tensor, keep: Tensor) -> float:
    """The largest deviation of a row sum from 1, over rows with a visible key."""
    return float(((pattern.sum(-1) - 1).abs() * keep.any(-1)).max())


def words_of(traced: Trace | None) -> tuple[str, ...]:
    """The tokens of the user's sequence without padding, or four letters."""
    return traced.tgt_str_tokens[: int(traced.tgt_valid.sum())] if traced else ("a", "b", "c", "d")
