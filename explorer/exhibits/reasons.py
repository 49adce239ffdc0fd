"""Which rule blocks which cell: explains the masks that the model applied."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool

from explorer.runs.edits import USUAL_MASKS, CellEdit, KeyHidden, MaskPart, SizePart
from explorer.runs.interventions import concerns, covers, mask_of, rules_in_force, sizes_at
from explorer.runs.trace import Trace

Cells = Bool[np.ndarray, "head query key"]
Blocker = Literal["", "pad_key", "pad_query", "causal", "window", "block", "edit", "other"]
BLOCKERS: tuple[Blocker, ...] = get_args(Blocker)
"""What can block a cell; "" is an open cell, "other" a mask that no rule explains (in none of the
shipped models)."""
RULES: tuple[Blocker, ...] = BLOCKERS[1:-1]
"""The blockers that have their own hatching in a mask matrix."""


@dataclass(frozen=True, eq=False)
class Reasons:
    """Why the cells of one site are blocked, Bool [head, query, key]; several may hold at once.

    `opened` are the cells that an edit opened against the rules.
    """

    pad_key: Cells
    pad_query: Cells
    causal: Cells
    window: Cells
    block: Cells
    edit: Cells
    other: Cells
    opened: Cells

    @property
    def blocked(self) -> Cells:
        """All blocked cells: those where the model's mask is False."""
        rules = self.pad_key | self.pad_query | self.causal | self.window | self.block
        return rules | self.edit | self.other


def reasons(trace: Trace, site: str) -> Reasons:
    """Explain the mask that a site applied; the model's own mask decides what is blocked.

    Each active rule is evaluated separately with `models.masks`. A blocked cell that no rule
    blocks was closed by an edit; a cell that the model left open has no blockers, whatever the
    rules give. Raises KeyError for an unknown site.
    """
    shape = trace.mask(site).shape
    applied = _once(trace.mask(site))
    of_site = trace.site(site)
    valid = {"src": trace.src_valid, "tgt": trace.tgt_valid}
    query_valid, key_valid = (
        torch.tensor(valid[stream])[None] for stream in (of_site.query_stream, of_site.key_stream)
    )
    in_force = rules_in_force(trace.edits)
    numbers = sizes_at(of_site, trace.edits)
    none: dict[MaskPart, bool] = dict.fromkeys(USUAL_MASKS, False)

    def by_rule(*parts: MaskPart, sizes: Sequence[SizePart] = ()) -> Cells:
        rules = none | {part: in_force[part] for part in parts if concerns(part, of_site)}
        mine = {part: numbers[part] for part in sizes if part in numbers}
        mask = mask_of(of_site, rules, query_valid, key_valid, mine)[0]
        return np.broadcast_to(~mask.numpy(), applied.shape) & ~applied

    pad_key = by_rule("pad_keys", "cross_pad")
    pad_query = by_rule("pad_queries")
    causal = by_rule("causal", sizes=["prefix"])
    window, block = by_rule(sizes=["window"]), by_rule(sizes=["block"])
    unexplained = ~applied & ~(pad_key | pad_query | causal | window | block)
    shut, opened = (_edited(trace, site, opened=state)[: len(applied)] for state in (False, True))
    causes: dict[str, Cells] = {
        "pad_key": pad_key,
        "pad_query": pad_query,
        "causal": causal,
        "window": window,
        "block": block,
        "edit": unexplained & shut,
        "other": unexplained & ~shut,
        "opened": applied & opened,
    }
    return Reasons(**{name: np.broadcast_to(cells, shape) for name, cells in causes.items()})


def _once(cells: np.ndarray) -> np.ndarray:
    """The first head only, if all heads share its memory."""
    return cells[:1] if cells.strides[0] == 0 else cells


def blocker_codes(trace: Trace, site: str) -> np.ndarray:
    """The blocker of each cell as index into `BLOCKERS`: uint8 [head, query, key], 0 for open.

    If several rules block a cell, padding has priority over causality, and causality over the
    window and the block; `reasons` has all of them.
    """
    why = reasons(trace, site)
    codes = np.zeros(_once(why.causal).shape, np.uint8)
    for name in ("other", "edit", "block", "window", "causal", "pad_query", "pad_key"):
        codes[_once(getattr(why, name))] = BLOCKERS.index(name)
    return np.broadcast_to(codes, why.causal.shape)


def blocked_by(trace: Trace, site: str) -> np.ndarray:
    """The name of the blocker of each cell, one of `BLOCKERS`: str [head, query, key]."""
    codes = blocker_codes(trace, site)
    return np.broadcast_to(np.array(BLOCKERS)[_once(codes)], codes.shape)


def _edited(trace: Trace, site: str, opened: bool) -> Cells:
    """The cells of a site whose last edit opened (shut) them."""
    last = np.zeros(trace.mask(site).shape, dtype=np.int8)  # 0: none, 1: opened, -1: closed
    hidden = [edit for edit in trace.edits if isinstance(edit, KeyHidden)]
    last[..., [e.key for e in hidden if e.stream == trace.site(site).key_stream]] = -1
    for edit in trace.edits:
        if isinstance(edit, CellEdit) and covers(edit, trace.site(site)):
            heads = slice(None) if edit.head is None else edit.head
            last[heads, edit.query, edit.key] = 1 if edit.open else -1
    return last == (1 if opened else -1)


def empty_rows(trace: Trace, site: str) -> Bool[np.ndarray, "head query"]:
    """Real queries without visible keys: their pattern is all zeros."""
    valid = trace.src_valid if trace.site(site).query_stream == "src" else trace.tgt_valid
    return ~trace.mask(site).any(-1) & valid
