"""What a user may change in a run: a mask rule or its size, a head, a cell of a mask.

Edits are values: frozen, hashable, written into links as short text. `edit_functions` turns them
into functions at the model's hook points, so the shared model itself is never modified.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, get_args

from explorer.problems import InputProblem
from models.rows import Stream

MaskPart = Literal["pad_keys", "pad_queries", "causal", "cross_pad"]
USUAL_MASKS: dict[MaskPart, bool] = {
    "pad_keys": True,  # self-attention hides padding as key
    "pad_queries": False,  # padding queries see nothing either
    "causal": True,  # a decoder query sees itself and what precedes it
    "cross_pad": True,  # cross-attention hides source padding as key
}
SizePart = Literal["window", "prefix", "block"]
SIZE_PARTS: tuple[SizePart, ...] = get_args(SizePart)
MOST_EDITS = 4000
_SITE = re.compile(r"[a-z0-9_.]+")
_COUNT = re.compile(r"[0-9]{1,4}")
_PLACE = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}")


@dataclass(frozen=True)
class MaskSwitch:
    """One mask rule, on or off, at every attention site that it applies to."""

    part: MaskPart
    on: bool


@dataclass(frozen=True)
class HeadOff:
    """One head of one site ablated: its z is zero, so it adds nothing to the site's output."""

    site: str
    head: int


@dataclass(frozen=True)
class MaskSize:
    """An additional rule with a number, at every self-attention site that it applies to.

    window: a query sees only keys fewer than `size` positions away. prefix: the first `size`
    tokens of the target are visible to all (prefix LM). block: tokens see only the `size` tokens
    of their own block, like texts packed into one row.
    """

    part: SizePart
    size: int


@dataclass(frozen=True)
class CellEdit:
    """One cell of a mask opened (may attend) or closed; `head` None means all heads.

    `site` is the name of one site, or a kind ("encoder", "decoder", "cross"): all its layers.
    """

    site: str
    head: int | None
    query: int
    key: int
    open: bool


@dataclass(frozen=True)
class KeyHidden:
    """One token of a sequence hidden as a key from every query, at every site that reads it."""

    stream: Stream
    key: int


Edit = MaskSwitch | MaskSize | HeadOff | CellEdit | KeyHidden


def about_masks(edit: Edit) -> bool:
    """Whether an edit changes a mask; otherwise it ablates a head, which leaves masks unchanged."""
    return not isinstance(edit, HeadOff)


def format_edits(edits: Iterable[Edit]) -> str:
    """The edits as text for a link: `causal-off~window-4~head-decoder.blocks.0.attn-3`.

    Uses only characters that need no escaping in a link. Consecutive cells painted alike share
    one entry: `cells-decoder-all-shut-3.1-3.2`. `parse_edits` is the inverse.
    """
    parts = []
    for like, group in groupby(edits, _painted_alike):
        members = list(group)
        if like is None:
            parts += [_format(edit) for edit in members]
        else:
            places = "-".join(f"{e.query}.{e.key}" for e in members if isinstance(e, CellEdit))
            parts.append(f"cells-{like}-{places}")
    return "~".join(parts)


def _painted_alike(edit: Edit) -> str | None:
    if not isinstance(edit, CellEdit):
        return None
    heads = "all" if edit.head is None else edit.head
    return f"{edit.site}-{heads}-{'open' if edit.open else 'shut'}"


def _format(edit: Edit) -> str:
    match edit:
        case MaskSwitch(part, on):
            return f"{part}-{'on' if on else 'off'}"
        case MaskSize(part, size):
            return f"{part}-{size}"
        case HeadOff(site, head):
            return f"head-{site}-{head}"
        case KeyHidden(stream, key):
            return f"hide-{stream}-{key}"
    raise TypeError(f"{edit} has no text of its own")


def parse_edits(text: str) -> tuple[Edit, ...]:
    """The edits that `format_edits` wrote. Raises InputProblem `bad_edit` with the first bad one.

    Whether a site, head or cell exists is not checked here; a run returns unfit edits separately.
    """
    edits = tuple(edit for part in text.split("~") for edit in _parse(part)) if text else ()
    if len(edits) > MOST_EDITS:
        raise InputProblem("bad_edit", edit=text[:80])
    return edits


def _parse(text: str) -> tuple[Edit, ...]:
    match text.split("-"):
        case [part, ("on" | "off") as state] if part in get_args(MaskPart):
            return (MaskSwitch(part, state == "on"),)  # type: ignore[arg-type]
        case [part, size] if part in SIZE_PARTS and _COUNT.fullmatch(size) and int(size):
            return (MaskSize(part, int(size)),)
        case ["head", site, head] if _SITE.fullmatch(site) and _COUNT.fullmatch(head):
            return (HeadOff(site, int(head)),)
        case ["hide", ("src" | "tgt") as stream, key] if _COUNT.fullmatch(key):
            return (KeyHidden(stream, int(key)),)
        case ["cell", site, head, query, key, state]:  # as links once said it
            return _cells(text, site, head, state, [f"{query}.{key}"])
        case ["cells", site, head, state, *places] if places:
            return _cells(text, site, head, state, places)
    raise InputProblem("bad_edit", edit=text[:80])


def _cells(text: str, site: str, head: str, state: str, places: list[str]) -> tuple[Edit, ...]:
    known = _SITE.fullmatch(site) and (head == "all" or _COUNT.fullmatch(head))
    if not known or state not in ("open", "shut") or not all(map(_PLACE.fullmatch, places)):
        raise InputProblem("bad_edit", edit=text[:80])
    heads = None if head == "all" else int(head)
    cells = [map(int, place.split(".")) for place in places]
    return tuple(CellEdit(site, heads, query, key, state == "open") for query, key in cells)


def paint(
    edits: Iterable[Edit], site: str, head: int | None, cells: Iterable[tuple[int, int]], open: bool
) -> tuple[Edit, ...]:
    """`edits` after painting `cells` (query, key), each of them opened or closed by `open`.

    An earlier edit of the same cell and scope is removed instead of overridden, so a stroke and its
    opposite leave no edits.
    """
    kept = list(edits)
    for query, key in cells:
        opposite = CellEdit(site, head, query, key, not open)
        if opposite in kept:
            kept.remove(opposite)
        else:
            kept.append(CellEdit(site, head, query, key, open))
    return tuple(kept)
