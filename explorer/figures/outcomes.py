"""Outcomes of many cases as a grid of short words, a mask with a value in each cell, and a possibly
faulty attention pattern."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from explorer.figures.frame import Bools, Floats, Words
from explorer.figures.matrix import Axes, Axis, Matrix, Scale, Texts, weights

Level = Literal["good", "loud", "silent"]
LEVELS: dict[Level, float] = {"good": 0.2, "loud": 0.0, "silent": -0.45}
"""Right; wrong with an error or NaN; silently wrong: their place on the diverging scale."""
CELL = (96, 42)
"""Pixels of a case."""
SPELT, LETTER = 16, (10, 15)
"""Characters that fit into one row of a small mask, and the pixels that each needs."""


def outcomes(
    levels: Sequence[Sequence[Level]],
    texts: Texts,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    selected: tuple[int, int] | None = None,
) -> Matrix:
    """A grid [row, column] of cases, each with its text and the colour of its level."""
    return Matrix(
        (Axis(rows), Axis(columns)),
        np.array([[LEVELS[level] for level in row] for row in levels]),
        Scale("diverging", -1, 1),
        texts=texts,
        written=texts,
        selected=selected,
        least=CELL,
    )


def written_mask(keep: Bools, texts: Texts) -> Matrix:
    """A small mask [query, key] with the value of each cell; blocked cells are hatched.

    The values are written if there is room, else shown on hover only.
    """
    longest = max((len(text) for row in texts for text in row), default=0)
    fits = keep.shape[1] * longest <= SPELT
    return Matrix(
        (Axis([None] * keep.shape[0]), Axis([None] * keep.shape[1])),
        np.zeros(keep.shape),
        Scale("attention", 0, 1),
        ~keep,
        ("", ""),
        texts,
        texts if fits else None,
        least=(LETTER[0] * longest if fits else 0, LETTER[1]),
    )


def suspect(
    pattern: Floats, hidden: Bools, axes: Axes, *, hidden_word: str, words: Words
) -> Matrix:
    """One head's pattern, [query, key]; `hidden` marks cells that must have no weight.

    A hidden cell without weight is hatched. A hidden cell with weight shows it, and its text ends
    in `hidden_word`.
    """
    kept_out = hidden & (pattern == 0)
    why = np.where(kept_out, hidden_word, "")
    matrix = weights(pattern, ~kept_out, axes, why=why, words=words)
    leaked = hidden & ~kept_out & ~np.isnan(pattern)
    texts = np.asarray(matrix.texts, object)
    return replace(matrix, texts=np.where(leaked, texts + f" · {hidden_word}", texts))
