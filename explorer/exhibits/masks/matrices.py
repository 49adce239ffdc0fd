"""The masks of the selected layer as matrices in which cells can be selected and painted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from explorer.analysis.heads.compare import RunChange, compare
from explorer.components.matrices import Stroke
from explorer.components.mount import Index
from explorer.exhibits import Exhibit, View, block as b, picking, saying
from explorer.exhibits.links import State
from explorer.exhibits.masks import largest
from explorer.exhibits.masks.choices import SCOPES, TOOLS, MasksChoices
from explorer.exhibits.reasons import BLOCKERS, RULES, blocker_codes, empty_rows
from explorer.figures.matrix import Matrix
from explorer.runs.edits import CellEdit, MaskSize, MaskSwitch, paint
from explorer.runs.interventions import edit_functions, mask_of, rules_in_force, sizes_in_force
from explorer.runs.trace import Trace
from models.hooks import ROLES, AttentionSite
from models.masks import block_mask, causal_mask, padding_mask, prefix_mask, window_mask

BY_SIZE = {"window": window_mask, "prefix": prefix_mask, "block": block_mask}


@dataclass(frozen=True, eq=False)
class HeadMask:
    """The mask of one head: `codes` uint8 [query, key] are its `blocker_codes`, 0 for open.

    `empty` is the first real query that may attend to nothing in some head of this site, if any.
    """

    site: AttentionSite
    head: int
    codes: np.ndarray
    empty: int | None

    @property
    def rules(self) -> np.ndarray:
        """What blocks each cell: 0 nothing, n the n-th of `RULES`, the last one anything else."""
        return np.minimum(self.codes, len(RULES))


def masks_of(trace: Trace, site: AttentionSite, head: int) -> tuple[HeadMask, ...]:
    """One mask per kind of attention, in the layer of `site` or the last layer if a stack has
    fewer: of `head` for the kind of `site`, else of the first head."""
    masks = []
    for role in ROLES:
        sites = trace.sites_of(role)
        if sites:
            attention = sites[min(site.layer, len(sites) - 1)]
            at = head if role == site.role else 0
            empty = np.argwhere(empty_rows(trace, attention.name))[:, 1].tolist()
            codes = blocker_codes(trace, attention.name)[at]
            masks.append(HeadMask(attention, at, codes, empty[0] if empty else None))
    return tuple(masks)


def compute(
    trace: Trace, site: AttentionSite, head: int, moved: RunChange
) -> tuple[tuple[HeadMask, ...], RunChange]:
    """The masks, and how the run differs from the one without edits."""
    return masks_of(trace, site, head), moved


def show(answer: tuple[tuple[HeadMask, ...], RunChange], view: View) -> b.Blocks:
    """The matrices, what decides the chosen cell, and the tools that change them."""
    masks, moved = answer
    picture = _matrices(masks, view)
    chosen = next(iter(_chosen(masks, view)), None)
    cell = () if chosen is None else (_cell(view, *chosen),)
    empty = [_empty(view, mask) for mask in masks if mask.empty is not None]
    yield b.Hero((picture, *cell, *empty))
    yield _tools(view)
    yield b.Formula.of(
        view.t("masks.formula"),
        r"\text{pattern}_{ij} = \frac{m_{ij}\,e^{s_{ij}}}{\sum_k m_{ik}\,e^{s_{ik}}},"
        r"\qquad m_{ij}\in\{0,1\}",
        r"m^{\text{encoder}}_{ij} = [\,j\ \text{real}\,],\quad "
        r"m^{\text{decoder}}_{ij} = [\,j\ \text{real}\,]\cdot[\,j\le i\,],\quad "
        r"m^{\text{cross}}_{ij} = [\,\text{source token}\ j\ \text{real}\,]",
    )
    yield b.Code(_code(view))
    yield b.Numbers(lambda: _numbers(view, moved))


def _title(view: View, mask: HeadMask) -> str:
    kind = view.t("kinds", mask.site.role)
    return view.t("masks.matrix", kind=kind, layer=mask.site.layer + 1)


def _matrices(head_masks: Sequence[HeadMask], view: View) -> b.Matrices:
    brush, chosen = view.choices(MasksChoices).tool == "brush", [*_chosen(head_masks, view)]
    words = view.words("components.mask_matrix")
    rules = [words["open"], *(view.t("blockers", name) for name in RULES)]
    panels = []
    for mask in head_masks:
        place = next(((query, key) for head_mask, query, key in chosen if head_mask is mask), None)
        axes, selected = saying.site_axes(view, mask.site), None if brush else place
        matrix = Matrix(axes, blocked=mask.rules, rules=rules, selected=selected)
        panels.append((_title(view, mask), matrix))
    if brush:
        painted, hint = partial(_painted, view, head_masks), {"hint": words["brush"]}
        return b.Matrices("masks.matrices", panels, painted=painted, words=hint)
    picked, hint = partial(_picked, head_masks), {"hint": words["hint"]}
    return b.Matrices("masks.matrices", panels, picked=picked, words=hint)


def _picked(head_masks: Sequence[HeadMask], place: Index) -> b.Change:
    at, query, key = place
    return b.choose(mask_cell=(head_masks[at].site.role, query, key))


def _painted(view: View, head_masks: Sequence[HeadMask], at: int, stroke: Stroke) -> b.Change:
    """Convert a stroke to edits of the cells that it changes."""
    mask, scope = head_masks[at], view.choices(MasksChoices).scope
    where = mask.site.role if scope == "everywhere" else mask.site.name
    head = mask.head if scope == "head" else None
    cells = [cell for cell in stroke.cells if (mask.codes[cell] == 0) != stroke.open]
    return _paint(where, head, cells, stroke.open)


def _paint(where: str, head: int | None, cells: list[tuple[int, int]], is_open: bool) -> b.Change:
    def choices(state: State) -> dict[str, Any]:
        return {"edits": paint(state.edits, where, head, cells, is_open)}

    return b.Change(choices)


def _chosen(head_masks: Sequence[HeadMask], view: View) -> Iterator[tuple[HeadMask, int, int]]:
    """The cell clicked last, if it exists in this run."""
    chosen = view.choices(MasksChoices).mask_cell
    for mask in head_masks:
        if chosen is not None and chosen[0] == mask.site.role:
            n_query, n_key = mask.codes.shape
            if chosen[1] < n_query and chosen[2] < n_key:
                yield mask, chosen[1], chosen[2]


def _cell(view: View, mask: HeadMask, query: int, key: int) -> b.Row:
    """The rule that decides one cell, and a button that inverts it in all layers of its kind."""
    site, code = mask.site, int(mask.codes[query, key])
    tokens = {
        "query": saying.quoted_at(view, view.trace.query_tokens(site.name), query),
        "key": saying.quoted_at(view, view.trace.key_tokens(site.name), key),
    }
    words = view.t("masks.cell_open", **tokens)
    if code:
        why = view.t("blockers", BLOCKERS[code])
        words = view.t("masks.cell_blocked", why=why, **tokens)
    place: dict[str, Any] = {"site": site.role, "layer": site.layer, "head": mask.head}
    return b.Row(
        (
            b.Prose(words),
            b.Button(
                "masks.edit_cell",
                view.t("masks.open_cell" if code else "masks.shut_cell"),
                _paint(site.role, None, [(query, key)], bool(code)),
            ),
            b.Button(
                "masks.down",
                view.t("score.open_this"),
                b.choose(visit="score", **place, row=query, key=key, goal=None),
                icon="center_focus_strong",
                kind="quiet",
            ),
        ),
        align="center",
    )


def _empty(view: View, mask: HeadMask) -> b.Hint:
    """A hint about queries without visible keys: how this app and other code treat them."""
    query = saying.quoted_at(view, view.trace.query_tokens(mask.site.name), mask.empty or 0)
    kind = view.t("kinds", mask.site.role)
    return b.Hint(view.t("masks.empty_row", query=query, kind=kind), "block")


def _tools(view: View) -> b.Row:
    """Controls: the effect of a click, the heads that it applies to, and undo."""
    choices = view.choices(MasksChoices)
    tool = picking.pick_one(view, "masks.tool", TOOLS, choices.tool)
    scope = picking.pick_one(view, "masks.scope", SCOPES, choices.scope)
    return b.Row((tool, *([scope] if choices.tool == "brush" else []), b.Undo("masks")))


def _code(view: View) -> list[object]:
    """The functions that made the masks for this sentence: the model's and those of edits."""
    edits = view.trace.edits
    sizes = sizes_in_force(edits)
    rules = any(isinstance(edit, MaskSwitch | MaskSize) for edit in edits)
    code: list[object] = [view.loaded.model.last_stack.run]
    if rules:
        code.append(mask_of)
    if view.loaded.config.is_causal:
        code.append(causal_mask)
    if rules or view.pads:
        code.append(padding_mask)
    causal = rules_in_force(edits)["causal"]
    code += [BY_SIZE[part] for part in sizes if part != "prefix" or causal]
    if any(isinstance(edit, CellEdit) for edit in edits):
        code.append(edit_functions)
    return [*code, blocker_codes, compare]


def _numbers(view: View, moved: RunChange) -> dict[str, list[object]]:
    rows = [
        (site, 100 * moved.sites[site.name].most, view.trace.mask(site.name)[0])
        for kind in view.kinds
        for site in view.trace.sites_of(kind)
    ]
    return {
        view.t("place.kind"): [view.t("kinds", site.role) for site, _, _ in rows],
        view.t("place.layer"): [site.layer + 1 for site, _, _ in rows],
        view.t("masks.open_cells"): [int(mask.sum()) for _, _, mask in rows],
        view.t("masks.blocked_cells"): [int((~mask).sum()) for _, _, mask in rows],
        view.t("masks.largest_change"): [round(most, 4) for _, most, _ in rows],
    }


EXHIBIT = Exhibit(compute, show, inputs={"moved": largest.moved})
