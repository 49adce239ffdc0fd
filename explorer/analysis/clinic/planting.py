"""Planting a fault into a model's own run: a visitor puts wrong lines in place of ours."""

from collections.abc import Callable, Sequence

from torch import Tensor

from explorer.analysis.certificate.probe import Subject
from explorer.analysis.clinic.card import Pattern, Plant, everywhere
from models.hooks import NO_EDITS, AttentionSite, Edits
from models.positions import Positions
from models.rows import Rows
from models.transformer import Model


def plant_pattern(wrong: Pattern, where: Callable[[AttentionSite], bool] = everywhere) -> Plant:
    """Let `wrong` compute the pattern from the scores and mask that the model itself made."""

    def plant(model: Subject, rows: Rows) -> Edits:
        """Both at every site that is concerned."""
        functions: dict[str, Callable[[Tensor], Tensor]] = {}
        for site in filter(where, model.attention_sites()):
            functions |= _pattern_functions(site, wrong)
        return Edits(functions)

    return plant


def _pattern_functions(
    site: AttentionSite, wrong: Pattern
) -> dict[str, Callable[[Tensor], Tensor]]:
    seen: dict[str, Tensor] = {}  # of the pass under way: scores and mask come before the pattern

    def kept(name: str) -> Callable[[Tensor], Tensor]:
        def keep(tensor: Tensor) -> Tensor:
            seen[name] = tensor
            return tensor

        return keep

    def pattern(tensor: Tensor) -> Tensor:
        return wrong(seen["scores"], seen["mask"]).to(tensor.dtype)

    return {
        site.hook("scores"): kept("scores"),
        site.hook("mask"): kept("mask"),
        site.hook("pattern"): pattern,
    }


def plant_mask(keep: Callable[[AttentionSite, Rows, Sequence[int]], Tensor]) -> Plant:
    """Let `keep(site, rows, shape)` make every site's mask, broadcastable to `shape`."""

    def plant(model: Subject, rows: Rows) -> Edits:
        """The mask of every site, replaced."""

        def masked(site: AttentionSite) -> Callable[[Tensor], Tensor]:
            return lambda mask: keep(site, rows, mask.shape).expand(mask.shape)

        return Edits({site.hook("mask"): masked(site) for site in model.attention_sites()})

    return plant


def plant_positions(wrong: Callable[[Tensor], Tensor]) -> Plant:
    """Let `wrong` choose which positions are added to the embeddings.

    It gets the `valid` of a stream, Bool [batch, pos], and gives the positions [1 or batch, pos].
    Stacks that add nothing for their positions (rotary, none) are left alone.
    """

    def plant(model: Subject, rows: Rows) -> Edits:
        """What every stack adds for its positions, looked up at the wrong ones."""

        def chosen(positions: Positions, valid: Tensor) -> Callable[[Tensor], Tensor]:
            done = 0  # positions that earlier cached steps have read

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
