"""The data of a heatmap, for Plotly and for the canvas of `components.matrices`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from explorer.figures.frame import Bools, Floats
from explorer.figures.theme import Stream


@dataclass(frozen=True)
class Scale:
    """A colour scale:

    `Palette.attention` or `.diverging`, from `low` to `high`. `ticks` are (value, label) pairs of
    the colour bar, `title` is its title.
    """

    colours: Literal["attention", "diverging"]
    low: float
    high: float
    title: str
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, eq=False)
class Matrix:
    """One heatmap: rows are queries, columns are keys.

    `values` [query, key] are on the `scale`; values of `blocked` cells are ignored. The hover text
    of a cell is `texts[said]`, with `said` [query, key], since many cells share few texts. Texts
    are plain, with newlines. `selected` outlines one query's row. Raises ValueError if it is out of
    range.
    """

    values: Floats
    blocked: Bools
    texts: tuple[str, ...]
    said: NDArray[np.integer[Any]]
    scale: Scale
    query_tokens: Sequence[str]
    key_tokens: Sequence[str]
    query_title: str
    key_title: str
    query_stream: Stream | None = None
    key_stream: Stream | None = None
    selected: int | None = None

    def __post_init__(self) -> None:
        n_query = len(self.query_tokens)
        if self.selected is not None and not 0 <= self.selected < n_query:
            raise ValueError(f"selected is {self.selected}, but there are {n_query} queries")


def counted(texts: NDArray[np.object_]) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """The unique texts, and the index of each cell's text."""
    places: dict[str, int] = {}
    said = [places.setdefault(text, len(places)) for text in texts.ravel().tolist()]
    return tuple(places), np.array(said, np.intp).reshape(texts.shape)
