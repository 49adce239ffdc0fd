"""A heatmap before it is drawn: what Plotly and the canvas of `components.matrices` both take."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from explorer.figures.frame import Bools, Floats
from explorer.figures.theme import Stream


@dataclass(frozen=True)
class Scale:
    """What the colours mean: those of `Palette.attention` or `.diverging`, from `low` to `high`.

    `ticks` are (value, label) of the colour bar, which is called `title`.
    """

    colours: Literal["attention", "diverging"]
    low: float
    high: float
    title: str
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, eq=False)
class Matrix:
    """One heatmap: queries run down, keys run across.

    `values` [query, key] on the `scale`; what they are where `blocked` says nothing. Pointing at a
    cell says `texts[said]`, `said` [query, key]: few texts occur, in many cells. They are plain,
    with line ends. `selected` outlines one query's row. Raises ValueError where there is no such.
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
    """The different texts of some cells, and which of them each cell has."""
    places: dict[str, int] = {}
    said = [places.setdefault(text, len(places)) for text in texts.ravel().tolist()]
    return tuple(places), np.array(said, np.intp).reshape(texts.shape)
