"""Edits as functions at a model's hook points, and a check of which edits fit a run.

Masks are rebuilt from the functions of `models.masks`; there is no other mask code.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from explorer.runs.edits import (
    USUAL_MASKS,
    CellEdit,
    Edit,
    HeadOff,
    KeyHidden,
    MaskPart,
    MaskSize,
    MaskSwitch,
    SizePart,
)
from models.hooks import NO_EDITS, AttentionSite, Edits
from models.masks import block_mask, causal_mask, padding_mask, prefix_mask, window_mask

Sizes = Mapping[SizePart, int]
NO_SIZES: Sizes = {}


def concerns(part: MaskPart | SizePart, site: AttentionSite) -> bool:
    """Whether this rule applies to the mask of this site."""
    match part:
        case "pad_keys" | "window" | "block":
            return site.kind == "self"
        case "pad_queries":
            return True
        case "causal" | "prefix":
            return site.kind == "self" and site.stack == "decoder"
        case "cross_pad":
            return site.kind == "cross"


def rules_in_force(edits: Sequence[Edit]) -> dict[MaskPart, bool]:
    """Every mask rule, on or off, after the switches in `edits`; a later switch wins."""
    return USUAL_MASKS | {edit.part: edit.on for edit in edits if isinstance(edit, MaskSwitch)}


def sizes_in_force(edits: Sequence[Edit]) -> Sizes:
    """The rules with a number in `edits`; a later one of the same part wins."""
    return {edit.part: edit.size for edit in edits if isinstance(edit, MaskSize)}


def sizes_at(site: AttentionSite, edits: Sequence[Edit]) -> Sizes:
    """`sizes_in_force` at one site, combined with the model's own window: the narrower one wins."""
    sizes = sizes_in_force(edits)
    windows = [size for size in (site.window, sizes.get("window")) if size is not None]
    return {**sizes, "window": min(windows)} if windows else sizes


def covers(cell: CellEdit, site: AttentionSite) -> bool:
    """Whether a painted cell belongs to this site: by its name, or by its kind."""
    return cell.site in (site.name, "cross" if site.kind == "cross" else site.stack)


def mask_of(
    site: AttentionSite,
    rules: dict[MaskPart, bool],
    query_valid: Tensor,
    key_valid: Tensor,
    sizes: Sizes = NO_SIZES,
) -> Tensor:
    """The mask of a site under `rules`: Bool, broadcastable to [batch, head, query, key].

    `query_valid` [batch, query] and `key_valid` [batch, key] are True at real tokens. With the
    default rules, and the `sizes_at` the site without edits, this equals the model's own mask.
    """
    keys = key_valid
    if not rules["cross_pad" if site.kind == "cross" else "pad_keys"]:
        keys = torch.ones_like(key_valid)
    mask = padding_mask(keys)
    if rules["pad_queries"]:
        mask = mask & padding_mask(query_valid).mT  # padding queries see nothing either
    n_query, n_key = query_valid.shape[1], key_valid.shape[1]
    if concerns("causal", site) and rules["causal"]:
        if "prefix" in sizes:
            mask = mask & prefix_mask(n_query, sizes["prefix"], n_key)
        else:
            mask = mask & causal_mask(n_query, n_key, offset=n_key - n_query)
    if site.kind == "self" and "window" in sizes:
        mask = mask & window_mask(n_query, n_key, n_key - n_query, sizes["window"])
    if site.kind == "self" and "block" in sizes:
        mask = mask & block_mask(torch.arange(n_key)[None] // sizes["block"])[..., -n_query:, :]
    return mask


def fits(edit: Edit, sites: Sequence[AttentionSite], n_src: int, n_tgt: int) -> bool:
    """Whether a run with these sequence lengths has the site, head or cell that the edit names."""
    if isinstance(edit, MaskSwitch | MaskSize):
        return any(concerns(edit.part, site) for site in sites)
    sizes = {"src": n_src, "tgt": n_tgt}
    if isinstance(edit, KeyHidden):
        known = any(site.key_stream == edit.stream for site in sites)
        return known and edit.key < sizes[edit.stream]
    if isinstance(edit, CellEdit):
        site = next((site for site in sites if covers(edit, site)), None)
    else:
        site = next((site for site in sites if site.name == edit.site), None)
    if site is None or (edit.head is not None and not 0 <= edit.head < site.n_heads):
        return False
    if isinstance(edit, HeadOff):
        return True
    return 0 <= edit.query < sizes[site.query_stream] and 0 <= edit.key < sizes[site.key_stream]


def edit_functions(
    sites: Sequence[AttentionSite],
    edits: Sequence[Edit],
    src_valid: Tensor | None = None,
    tgt_valid: Tensor | None = None,
) -> Edits:
    """A visitor that applies `edits` to every pass made under it.

    `src_valid` and `tgt_valid` are Bool [1, pos]; None means that every token of that stream is
    real, whatever its length, as in decoding, where the sequence grows with every step. Edits that
    do not fit a pass have no effect on it.
    """
    if not edits:
        return NO_EDITS
    valid = {"src": src_valid, "tgt": tgt_valid}
    functions: dict[str, Callable[[Tensor], Tensor]] = {}
    for site in sites:
        switched = any(
            isinstance(e, MaskSwitch | MaskSize) and concerns(e.part, site) for e in edits
        )
        cells = [e for e in edits if isinstance(e, CellEdit) and covers(e, site)]
        hidden = [e.key for e in edits if isinstance(e, KeyHidden) and e.stream == site.key_stream]
        if switched or cells or hidden:
            functions[site.hook("mask")] = partial(
                _edited_mask,
                site=site,
                rules=rules_in_force(edits) if switched else None,
                sizes=sizes_at(site, edits),
                cells=cells,
                hidden=hidden,
                query_valid=valid[site.query_stream],
                key_valid=valid[site.key_stream],
            )
        heads = [e.head for e in edits if isinstance(e, HeadOff) and e.site == site.name]
        heads = [head for head in heads if 0 <= head < site.n_heads]
        if heads:
            functions[site.hook("z")] = partial(_without_heads, heads=heads)
    return Edits(functions)


def _edited_mask(
    mask: Tensor,
    site: AttentionSite,
    rules: dict[MaskPart, bool] | None,
    sizes: Sizes,
    cells: Sequence[CellEdit],
    hidden: Sequence[int],
    query_valid: Tensor | None,
    key_valid: Tensor | None,
) -> Tensor:
    """The mask [batch, head, query, key] rebuilt from the rules, without the hidden keys, then with
    cells set."""
    _, n_heads, n_query, n_key = mask.shape
    if rules is not None:
        if query_valid is None:
            query_valid = torch.ones(1, n_query, dtype=torch.bool)
        if key_valid is None:
            key_valid = torch.ones(1, n_key, dtype=torch.bool)
        mask = mask_of(site, rules, query_valid, key_valid, sizes).expand(mask.shape)
    if cells or hidden:
        mask = mask.clone()  # the model's own is shared by all sites, and may be a broadcast view
    if hidden:
        mask[..., [key for key in hidden if key < n_key]] = False
    for cell in cells:
        heads = range(n_heads) if cell.head is None else [cell.head]
        if 0 <= cell.query < n_query and 0 <= cell.key < n_key and max(heads) < n_heads:
            mask[:, list(heads), cell.query, cell.key] = cell.open
    return mask


def _without_heads(z: Tensor, heads: Sequence[int]) -> Tensor:
    """z [batch, head, query, d_head] with these heads set to zero."""
    z = z.clone()
    z[:, list(heads)] = 0.0
    return z
