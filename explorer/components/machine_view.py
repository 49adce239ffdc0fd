"""The whole model as boxes in columns; a click on a box opens the page about it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from explorer.components.mount import Index, show
from explorer.components.payload import pack
from explorer.figures.theme import Stream


@dataclass(frozen=True)
class Box:
    """One part: its name, the shapes below it, a number on the right, and the target of a click.

    An empty `href` is no link. An arrow connects each box to the next in its column, except boxes
    that are `aside`. `skips` adds a residual arrow past that many boxes before this one. The box
    that `sends` a value has an arrow to every box that `receives` it.
    """

    name: str
    shape: str
    note: str = ""
    href: str = ""
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


def machine_view(columns: Sequence[Column], *, key: str) -> Box | None:
    """Show one or two columns, side by side where there is room; return the box just clicked.

    The groups of a single column are side by side too. A box is a real link: it can be opened in
    another tab.
    """

    def pack_with(_: Index | None) -> bytes:
        return pack_machine_view(columns)

    boxes = [box for column in columns for _, group in column.groups for box in group]
    picked = show("machine_view", key, (len(boxes),), None, pack_with)
    return None if picked is None else boxes[picked[0]]


def pack_machine_view(columns: Sequence[Column]) -> bytes:
    """The payload of `machine_view`: the columns as they are."""
    return pack({"columns": [asdict(column) for column in columns]})
