"""Masks: the matrices that the model really used, and what happens when they are changed."""

from functools import partial

from explorer.analysis.heads.compare import Comparison, compare
from explorer.analysis.masks.batch import batch
from explorer.analysis.masks.forced import forced
from explorer.analysis.masks.reasons import rule_numbers
from explorer.exhibits.view import View
from explorer.pages.masks.choices import MasksChoices
from explorer.pages.masks.conventions import conventions
from explorer.pages.masks.effects import effect, largest, more_effects, pick_effect
from explorer.pages.masks.fills import fill_values
from explorer.pages.masks.matrices import matrices, pictures, tools
from explorer.pages.masks.purpose import purpose
from explorer.pages.masks.rules import rules
from explorer.runs.edits import CellEdit, MaskSize, MaskSwitch
from explorer.runs.interventions import edit_functions, mask_of, rules_in_force, sizes_in_force
from explorer.runs.masks import block_mask, prefix_mask
from explorer.ui import controls, painting
from explorer.ui.page import draw_page
from explorer.ui.parts import one_chosen, pick_part
from explorer.ui.stage import hero
from models.masks import causal_mask, padding_mask, window_mask

BY_SIZE = {"window": window_mask, "prefix": prefix_mask, "block": block_mask}


def render(view: View) -> None:
    """The page."""
    draw_page(view, "masks", _drawn, pictures)


def _drawn(view: View) -> None:
    """The page below its introduction."""
    part = one_chosen(view, "part", MasksChoices.parts)
    if part == "matrices":
        _matrices(view)
        return
    _top(view)
    rules(view)
    DRAW[part](view)


def _top(view: View) -> None:
    pick_part(view, "masks", MasksChoices.parts)
    controls.sentence_line(view)


def _matrices(view: View) -> None:
    comparison = compare(view.before(), view.trace)
    picture = partial(effect, view, comparison)
    parts = (
        partial(_top, view),
        partial(_rules_and_matrices, view, comparison),
        partial(pick_effect, view),
        picture,
        partial(more_effects, view, comparison),
    )
    # Of another layer or head, the picture below its menu is what was asked for.
    is_new = painting.is_new("place", (view.site, view.head))
    painting.in_order(parts, first=picture if is_new else None)
    controls.small_print(
        view,
        "masks",
        formula=(
            r"\text{pattern}_{ij} = \frac{m_{ij}\,e^{s_{ij}}}{\sum_k m_{ik}\,e^{s_{ik}}},"
            r"\qquad m_{ij}\in\{0,1\}",
            r"m^{\text{encoder}}_{ij} = [\,j\ \text{real}\,],\quad "
            r"m^{\text{decoder}}_{ij} = [\,j\ \text{real}\,]\cdot[\,j\le i\,],\quad "
            r"m^{\text{cross}}_{ij} = [\,\text{source token}\ j\ \text{real}\,]",
        ),
        code=_code(view),
        numbers=lambda: _numbers(view, comparison),
    )


def _rules_and_matrices(view: View, comparison: Comparison) -> None:
    with hero():
        largest(view, comparison)
    rules(view)
    with hero():
        matrices(view)
    tools(view)
    purpose(view)


def _code(view: View) -> list[object]:
    """The masks that were made for this sentence: the model's own, and those of changed rules."""
    edits = view.trace.edits
    sizes = sizes_in_force(edits)
    rules = any(isinstance(edit, MaskSwitch | MaskSize) for edit in edits)
    code: list[object] = [view.loaded.model.last_stack.run]
    if rules:
        code.append(mask_of)
    if view.loaded.model.last_stack.causal:
        code.append(causal_mask)
    if rules or view.pads:
        code.append(padding_mask)
    causal = rules_in_force(edits)["causal"]
    code += [BY_SIZE[part] for part in sizes if part != "prefix" or causal]
    if any(isinstance(edit, CellEdit) for edit in edits):
        code.append(edit_functions)
    code += [rule_numbers, compare]
    if edits:
        code.append(forced)
    return [*code, batch] if view.others else code


def _numbers(view: View, comparison: Comparison) -> dict[str, list[object]]:
    rows = [
        (site, comparison.sites[site.name], view.trace.mask(site.name))
        for kind in view.kinds
        for site in view.trace.sites_of(kind)
    ]
    return {
        view.t("place.kind"): [view.t(f"kinds.{site.role}") for site, _, _ in rows],
        view.t("place.layer"): [site.layer + 1 for site, _, _ in rows],
        view.t("masks.open_cells"): [int(mask[0].sum()) for _, _, mask in rows],
        view.t("masks.blocked_cells"): [int((~mask[0]).sum()) for _, _, mask in rows],
        view.t("masks.largest_change"): [round(100 * each.max_abs, 4) for _, each, _ in rows],
    }


DRAW = {"conventions": conventions, "fills": fill_values}
