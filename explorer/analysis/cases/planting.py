"""Inject a bug into a model's run: edits replace our lines by the wrong ones. And the fixed cases,
and the user's own, on which a case is measured."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from explorer.analysis.cases.case import Plant
from explorer.analysis.mask_tests.probe import Subject
from explorer.analysis.score.steps import Scaling, divisor_of
from explorer.labels import SpecialToken
from explorer.runs.trace import Trace
from models.attention import share_heads
from models.hooks import NO_EDITS, AttentionSite, Edits
from models.masks import causal_mask, padding_mask
from models.positions import Positions
from models.rows import Rows
from models.transformer import Model

START, END, PAD = (SpecialToken(name) for name in ("<s>", "</s>", "<pad>"))
"""Labels in made-up rows."""
Pattern = Callable[[Tensor, Tensor], Tensor]
"""(scores, keep), both [batch, head, query, key], keep Bool with True = may attend -> pattern."""
Where = Callable[[AttentionSite], bool]
"""The sites at which a bug is shown and injected."""


def decoder_self(site: AttentionSite) -> bool:
    """Causal self-attention."""
    return site.kind == "self" and site.stack == "decoder"


def padding_only(site: AttentionSite) -> bool:
    """Attention in which only padding is masked: the encoder and cross-attention."""
    return not decoder_self(site)


def everywhere(site: AttentionSite) -> bool:
    """Every attention site."""
    return True


def plant_pattern(wrong: Pattern, where: Where = everywhere) -> Plant:
    """Let `wrong` compute the pattern from the model's own scores and mask."""

    def plant(model: Subject, rows: Rows) -> Edits:
        """Edits at every affected site: record scores and mask, replace the pattern."""
        functions: dict[str, Callable[[Tensor], Tensor]] = {}
        for site in filter(where, model.attention_sites()):
            seen: dict[str, Tensor] = {}  # of the current pass: scores and mask precede the pattern
            functions |= {site.hook(name): partial(_kept, seen, name) for name in _SEEN}
            functions[site.hook("pattern")] = partial(_replaced, seen, wrong)
        return Edits(functions)

    return plant


_SEEN = ("scores", "mask")


def _kept(seen: dict[str, Tensor], name: str, tensor: Tensor) -> Tensor:
    seen[name] = tensor
    return tensor


def _replaced(seen: dict[str, Tensor], wrong: Pattern, pattern: Tensor) -> Tensor:
    return wrong(*(seen[name] for name in _SEEN)).to(pattern.dtype)


def plant_mask(
    keep: Callable[[AttentionSite, Rows, Sequence[int]], Tensor], where: Where = everywhere
) -> Plant:
    """Let `keep(site, rows, shape)` compute the mask of these sites, broadcastable to `shape`."""

    def plant(model: Subject, rows: Rows) -> Edits:
        """Edits that replace the masks."""

        def masked(site: AttentionSite) -> Callable[[Tensor], Tensor]:
            return lambda mask: keep(site, rows, mask.shape).expand(mask.shape)

        sites = filter(where, model.attention_sites())
        return Edits({site.hook("mask"): masked(site) for site in sites})

    return plant


def plant_scale(scaling: Scaling) -> Plant:
    """Divide the scores in another way, by scaling the queries: this scales the products, but not a
    positional bias."""

    def plant(model: Subject, rows: Rows) -> Edits:
        """Edits that scale the queries."""
        if not isinstance(model, Model):
            return NO_EDITS
        config = model.config
        factor = config.divisor / divisor_of(scaling, config.d_head, config.d_model)
        return Edits({s.hook("q"): lambda q: q * factor for s in model.attention_sites()})

    return plant


def plant_positions(wrong: Callable[[Tensor], Tensor]) -> Plant:
    """Let `wrong` choose which positions are added to the embeddings.

    It receives a sequence's `valid`, Bool [batch, pos], and returns positions [1 or batch, pos].
    Stacks that add no positions to the embeddings (rotary, none) are unchanged.
    """

    def plant(model: Subject, rows: Rows) -> Edits:
        """Edits that look up each stack's positions at the wrong indices."""

        def chosen(positions: Positions, valid: Tensor) -> Callable[[Tensor], Tensor]:
            done = 0  # positions read in earlier cached steps

            def looked_up(added: Tensor) -> Tensor:
                nonlocal done
                first, done = done, done + added.shape[1]
                # PADs on the right may lie beyond the last position.
                at = wrong(valid)[:, first:done].clamp(max=positions.config.n_ctx - 1)
                table = positions.added(at)
                assert table is not None
                return table.to(added.dtype).expand(added.shape)

            return looked_up

        if not isinstance(model, Model):
            return NO_EDITS
        changes = {}
        for stack in model.stacks():
            positions = model.get_submodule(stack.path("positions"))
            assert isinstance(positions, Positions)
            if positions.acts == "adds":
                changes[stack.hook("pos_embed")] = chosen(positions, rows.valid(stack.stream))
        return Edits(changes)

    return plant


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
