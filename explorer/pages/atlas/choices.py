"""What a visitor chooses on the Atlas page."""

import re
from dataclasses import dataclass
from typing import ClassVar

from explorer.analysis.atlas.sums import MEASURES
from explorer.exhibits.choices import RefusedError, choice, one_of, whole

AXES: tuple[str, ...] = ("entropy", "deviation", "distance", "cost", "depth", *MEASURES)
"""What heads can be laid out by: numbers of a head, and its share of each measure."""
SOURCES: tuple[str, ...] = ("matrix", "row", "cell", "painted")
"""Where a pattern to look for comes from: of the open head, or painted."""
MOST_PAINTED = 400
_CELL = re.compile(r"([0-9]{1,3})-([0-9]{1,3})", re.ASCII)

Painted = tuple[tuple[int, int], ...]
"""Cells (query, key) of the open sentence."""


def parse_painted(text: str) -> Painted:
    """`3-2_4-3`: cells, each a query and a key. Raises RefusedError."""
    found = [_CELL.fullmatch(each) for each in text.split("_")] if text else []
    if len(found) > MOST_PAINTED or not all(found):
        raise RefusedError(text)
    return tuple(dict.fromkeys((int(each[1]), int(each[2])) for each in found if each))


def format_painted(cells: Painted) -> str:
    """What `parse_painted` reads."""
    return "_".join(f"{query}-{key}" for query, key in cells)


@dataclass(frozen=True)
class AtlasChoices:
    """`across` and `up` are what the map lays heads out by ("": as usual), `sentence` is the one
    that is drawn of a head's sentences; these are filtered by `shortest` and `longest` (tokens), by
    a word `containing`, and by `least`, the percentage before a sentence. `against` is a model to
    compare with, `traced` the measure that is followed through a training. `like` says where a
    pattern to search for comes from, `painted` are the cells of one that was painted, `found` is
    the sentence of the search that is drawn.
    """

    parts: ClassVar[tuple[str, ...]] = ("heads", "compare", "search")
    across: str = choice("", one_of(AXES))
    up: str = choice("", one_of(AXES))
    sentence: int = choice(1, whole(1, 20))
    shortest: int = choice(0, whole(0, 9999))
    longest: int = choice(0, whole(0, 9999))
    containing: str = choice("", str)
    least: int = choice(0, whole(0, 100))
    against: str = choice("", str)
    traced: str = choice("", one_of(MEASURES))
    like: str = choice("matrix", one_of(SOURCES))
    painted: Painted = choice((), parse_painted, format_painted, of_site=True)
    found: int = choice(1, whole(1, 20))
