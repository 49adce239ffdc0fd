"""Inject a bug into a model's run: edits replace our lines by the wrong ones."""

from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor

from explorer.analysis.cases.case import Plant
from explorer.analysis.mask_tests.probe import Subject
from explorer.analysis.score.steps import Scaling, divisor_of
from models.hooks import NO_EDITS, AttentionSite, Edits
from models.positions import Positions
from models.rows import Rows
from models.transformer import Model

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
                table = positions.added(wrong(valid)[:, first:done])
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
