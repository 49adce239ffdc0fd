"""The whole model as boxes in columns; a click on a box opens the page about it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from explorer.components.payload import pack
from explorer.figures.theme import Stream


@dataclass(frozen=True)
class Box:
    """One part: its name, the shapes below it, and a number on the right.

    An arrow connects each box to the next in its column, except boxes that are `aside`. `skips`
    adds a residual arrow past that many boxes before this one. The box that `sends` a value has an
    arrow to every box that `receives` it.
    """

    name: str
    shape: str
    note: str = ""
    skips: int = 0
    sends: str = ""
    receives: str = ""
    aside: bool = False


@dataclass(frozen=True)
class Column:
    """A stream: its title, and groups of boxes with their titles, in order of execution."""

    title: str
    stream: Stream
    groups: tuple[tuple[str, tuple[Box, ...]], ...]


def pack_machine_view(columns: Sequence[Column], hrefs: Sequence[str] = ()) -> bytes:
    """The payload of one or two columns, side by side where there is room; the groups of a single
    column are side by side too.

    `hrefs` are the targets of the boxes, in order; "" is no link. A box with a target is a real
    link, which can be opened in another tab.
    """
    return pack({"columns": [asdict(column) for column in columns], "hrefs": list(hrefs)})
