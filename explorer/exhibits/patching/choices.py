"""Choices on the Patching page."""

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from explorer.analysis.patching.maps import BY_HEAD, BY_PLACE, Cell
from explorer.analysis.patching.pair import Places
from explorer.exhibits import PageChoices
from explorer.exhibits.choices import RefusedError, choice, joined, one_of, pairs, unlinked, whole

_CELL = re.compile(r"(src|tgt|encoder|decoder|cross)-([0-9]{1,3})-([0-9]{1,4})")


def parse_cell(text: str) -> Cell:
    """`src-2-0` is the source's stream after block 2 at position 0, `cross-3-5` head 5 of layer 3.

    Heads and their layers count from 1 in a link, as on the screen. Raises RefusedError.
    """
    cell = _CELL.fullmatch(text)
    if cell is None:
        raise RefusedError(text)
    shift = 0 if cell[1] in ("src", "tgt") else 1
    row, column = int(cell[2]) - shift, int(cell[3]) - shift
    if row < 0 or column < 0:
        raise RefusedError(text)
    return cell[1], row, column


def format_cell(cell: Cell | None) -> str:
    """The inverse of `parse_cell`."""
    if cell is None:
        return ""
    name, row, column = cell
    shift = 0 if name in ("src", "tgt") else 1
    return f"{name}-{row + shift}-{column + shift}"


@dataclass(frozen=True)
class PatchingChoices(PageChoices):
    """`second` is the second sentence ("": the suggested one), `align` the alignment of its tokens
    with the first, `into` the patched run, `what` the kind of activation, `cell` the selected
    patch, `asked` the position whose answer is compared. `wanted` is the slow map that the user
    asked for."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "patch": ("patching.second", "patching.map", "patching.patched")
    }
    wanted: tuple[Hashable, str] | None = unlinked(None)
    second: str = choice("", str)
    align: Places | None = choice(None, pairs, joined)
    into: str = choice("second", one_of(("second", "first")))
    what: str = choice("resid", one_of((*BY_PLACE, *BY_HEAD)))
    cell: Cell | None = choice(None, parse_cell, format_cell, of_site=True)
    asked: int | None = choice(None, whole(0, 1023))
