"""What a user may change in a run: switch a mask rule, silence a head, open or close a cell.

Edits are values: frozen, hashable, written into links as short text. `visitor` turns them into
functions at the model's hook points, so the shared model itself is never touched.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from explorer.problems import InputProblem

MaskPart = Literal["pad_keys", "pad_queries", "causal", "cross_pad"]
USUAL_MASKS: dict[MaskPart, bool] = {
    "pad_keys": True,  # self-attention hides padding as key
    "pad_queries": False,  # padding queries see nothing either
    "causal": True,  # a decoder query sees itself and what stands before it
    "cross_pad": True,  # cross-attention hides source padding as key
}
_SITE = re.compile(r"[a-z0-9_.]+")
_COUNT = re.compile(r"[0-9]{1,4}")


@dataclass(frozen=True)
class MaskSwitch:
    """One rule of the masks, on or off, at every attention site that it concerns."""

    part: MaskPart
    on: bool


@dataclass(frozen=True)
class HeadOff:
    """One head of one site silenced: its z is zero, so it adds nothing to the site's output."""

    site: str
    head: int


@dataclass(frozen=True)
class CellEdit:
    """One cell of one site's mask opened (may attend) or closed; `head` None means all heads."""

    site: str
    head: int | None
    query: int
    key: int
    open: bool


Edit = MaskSwitch | HeadOff | CellEdit


def format_edits(edits: Iterable[Edit]) -> str:
    """The edits as text for a link: `causal-off~head-decoder.blocks.0.attn-3`, "" for none.

    Only characters that a link need not escape. `parse_edits` reads it back.
    """
    return "~".join(_format(edit) for edit in edits)


def _format(edit: Edit) -> str:
    match edit:
        case MaskSwitch(part, on):
            return f"{part}-{'on' if on else 'off'}"
        case HeadOff(site, head):
            return f"head-{site}-{head}"
        case CellEdit(site, head, query, key, is_open):
            heads = "all" if head is None else head
            return f"cell-{site}-{heads}-{query}-{key}-{'open' if is_open else 'shut'}"


def parse_edits(text: str) -> tuple[Edit, ...]:
    """The edits that `format_edits` wrote. Raises InputProblem `bad_edit` with the first bad one.

    Whether a site, head or cell exists is not known here; a run returns unfit edits apart.
    """
    return tuple(_parse(part) for part in text.split("~")) if text else ()


def _parse(text: str) -> Edit:
    match text.split("-"):
        case [part, ("on" | "off") as state] if part in get_args(MaskPart):
            return MaskSwitch(part, state == "on")  # type: ignore[arg-type]
        case ["head", site, head] if _SITE.fullmatch(site) and _COUNT.fullmatch(head):
            return HeadOff(site, int(head))
        case ["cell", site, head, query, key, ("open" | "shut") as state] if (
            _SITE.fullmatch(site)
            and (head == "all" or _COUNT.fullmatch(head))
            and _COUNT.fullmatch(query)
            and _COUNT.fullmatch(key)
        ):
            heads = None if head == "all" else int(head)
            return CellEdit(site, heads, int(query), int(key), state == "open")
    raise InputProblem("bad_edit", edit=text[:80])
