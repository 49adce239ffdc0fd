"""A matrix as data, for its two engines: the canvas of `components.matrices` and the SVG of
`exports.picture`.

Rows are queries, columns are keys, as in the formula softmax(q·kᵀ)·v. A blocked cell is not a small
weight: it is left out of the colour scale and shows hatching instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from explorer.figures.theme import Stream
from explorer.numbers import minus, percents

Words = Mapping[str, str]
Floats = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]
MAX_RULES = 6
"""The number of hatchings that can be told apart without colour."""
Shape = Literal["circle", "square", "diamond"]
Texts = NDArray[np.object_] | NDArray[np.str_] | Sequence[Sequence[str]]


def check_shape(name: str, array: NDArray[Any], expected: tuple[int, ...]) -> None:
    """Raise ValueError with the sizes unless the array has the expected shape."""
    if array.shape != expected:
        raise ValueError(f"{name} has shape {array.shape}, expected {expected}")


@dataclass(frozen=True)
class Scale:
    """A colour scale:

    `Palette.attention` or `.diverging`, from `low` to `high`. `ticks` are (value, label) pairs of
    the colour bar (none: no bar), `title` is its title.
    """

    colours: Literal["attention", "diverging"]
    low: float
    high: float
    title: str = ""
    ticks: tuple[tuple[float, str], ...] = ()

    @classmethod
    def around_zero(cls, limit: float, title: str, n: int = 3, plus: str = "") -> Self:
        """From -`limit` to `limit`, with `n` significant digits at the ends."""
        low, high = minus(f"{-limit:.{n}g}"), f"{plus}{limit:.{n}g}"
        ticks = ((-limit, low), (0.0, "0"), (limit, high))
        return cls("diverging", -limit, limit, title, ticks)


@dataclass(frozen=True)
class Axis:
    """The labels of the rows or columns (None: blank), their title and their sequence.

    `name` precedes a label where a cell is named (by default the title). Of `numbered` labels, as
    many are drawn as fit on one line; of others, as many as fit on three.
    """

    labels: Sequence[str | None]
    title: str = ""
    stream: Stream | None = None
    name: str = ""
    numbered: bool = False

    @classmethod
    def numbers(cls, n: int, title: str, first: int = 0) -> Self:
        """The axis of `n` numbers from `first`."""
        return cls([*map(str, range(first, first + n))], title, numbered=True)


Axes = tuple[Axis, Axis]
"""Rows and columns."""


@dataclass(frozen=True)
class Mark:
    """A shape drawn on some cells (row, column), and its meaning in the legend ("": no entry)."""

    shape: Shape
    cells: Sequence[Sequence[int]]
    name: str = ""


@dataclass(frozen=True, eq=False)
class Matrix:
    """Cells [row, column] with labels on both axes.

    `values` are on the `scale`; NaN leaves a cell blank. Without a scale, the matrix is a mask: its
    open cells are white. `blocked` is the rule that blocks a cell, counted from 1, or 0 (Bool: one
    rule); `rules` are the names of open cells and of the rules. `texts` describe the cells (None:
    their rule or their value), `written` stand in them; both are plain, with newlines. `selected`
    outlines a row (row, None), a column (None, column) or a cell. `least` is the smallest width and
    height of a cell in pixels.

    Raises ValueError with the sizes if they disagree.
    """

    axes: Axes
    values: Floats | None = None
    scale: Scale | None = None
    blocked: NDArray[np.integer[Any]] | Bools | None = None
    rules: Sequence[str] = ("",)
    texts: Texts | None = None
    written: Texts | None = None
    marks: Sequence[Mark] = ()
    selected: tuple[int | None, int | None] | None = None
    least: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        for name in ("values", "blocked", "texts", "written"):
            if (cells := getattr(self, name)) is not None:
                check_shape(name, np.asarray(cells), self.shape)
        if len(self.rules) > MAX_RULES + 1:
            count = len(self.rules) - 1
            raise ValueError(f"{count} rules, at most {MAX_RULES} can be told apart")
        codes = self.codes
        if codes.size and not 0 <= codes.min() <= codes.max() < len(self.rules):
            span, count = f"{codes.min()} to {codes.max()}", len(self.rules) - 1
            raise ValueError(f"blocked runs from {span}, but there are {count} rules")
        for at, size in zip(self.selected or (), self.shape, strict=False):
            if at is not None and not 0 <= at < size:
                raise ValueError(f"selected is {self.selected}, but the matrix is {self.shape}")

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return len(self.axes[0].labels), len(self.axes[1].labels)

    @property
    def codes(self) -> NDArray[np.uint8]:
        """The rule that blocks each cell [row, column], 0 if it is open."""
        none = np.zeros(self.shape, np.uint8)
        return none if self.blocked is None else np.asarray(self.blocked).astype(np.uint8)


def weights(
    pattern: Floats,
    mask: Bools | None,
    axes: Axes,
    *,
    why: Texts | None = None,
    top: float = 1.0,
    selected: int | None = None,
    words: Words,
    **more: Any,
) -> Matrix:
    """One head's pattern [query, key], its colours from 0 to `top`.

    `mask` is [query, key], True = may attend (None: nothing is blocked); `why` [query, key] names
    the mask that blocks a cell. `selected` outlines one query's row. NaN is written into its cell.

    Raises ValueError with the sizes if pattern, mask, reasons and axes disagree.
    """
    allowed = open_cells("mask", mask, axes)
    check_shape("pattern", pattern, allowed.shape)
    lost = np.isnan(pattern)
    texts = np.where(lost, "NaN", percents(np.nan_to_num(pattern)))
    over = "≥ " if np.nanmax(np.where(allowed, pattern, 0), initial=0) > 1.001 * top else ""
    labels = ("", 0.0), ("", top / 2), (over, top)
    ticks = tuple((tick, f"{before}{100 * tick:.3g} %") for before, tick in labels)
    return Matrix(
        axes,
        pattern,
        Scale("attention", 0, top, words["weight"], ticks),
        ~allowed,
        ("", words["blocked"]),
        blocked_texts(texts, allowed, words["blocked"], why),
        np.where(lost, "NaN", "") if lost.any() else None,
        selected=None if selected is None else (selected, None),
        **more,
    )


def change(
    before: Floats,
    after: Floats,
    axes: Axes,
    *,
    masks: tuple[Bools | None, Bools | None] = (None, None),
    selected: int | None = None,
    words: Words,
) -> Matrix:
    """after - before, [query, key], in percentage points on a diverging scale.

    The scale ends at the largest change, but at least at one percentage point, so that noise does
    not look like an effect. Cells blocked by both `masks` are hatched; a cell blocked in one run
    shows its change, and its text names the run.

    Raises ValueError with the sizes if the inputs disagree.
    """
    is_open = [open_cells("mask", mask, axes) for mask in masks]
    check_shape("before", before, is_open[0].shape)
    check_shape("after", after, is_open[0].shape)
    points = (np.asarray(after, np.float32) - np.asarray(before, np.float32)) * 100
    limit = max(1.0, float(np.abs(points).max(initial=0.0)))
    was, now = (
        np.where(flags, percents(cells), words["blocked"])
        for flags, cells in zip(is_open, (before, after), strict=True)
    )
    told = f"{words['before']} " + was + f" → {words['after']} " + now
    allowed = is_open[0] | is_open[1]
    texts = told + "\n" + fixed(points, "%+.1f ") + words["points"]
    return Matrix(
        axes,
        points,
        Scale.around_zero(limit, words["points"], plus="+"),
        ~allowed,
        ("", words["blocked"]),
        blocked_texts(texts, allowed, words["blocked"], None),
        selected=None if selected is None else (selected, None),
    )


def scores(
    values: Floats,
    mask: Bools | None,
    axes: Axes,
    *,
    title: str,
    top: float | None = None,
    why: Texts | None = None,
    words: Words,
) -> Matrix:
    """One head's scores [query, key] before the softmax, on a diverging scale.

    `top` is the value at the ends of the scale (None: the largest magnitude), so that two matrices
    can share it; `mask` and `why` are those of `weights`.
    """
    allowed = open_cells("mask", mask, axes)
    limit = float(np.abs(values[allowed]).max(initial=0.0)) if top is None else top
    return Matrix(
        axes,
        values,
        Scale.around_zero(max(1e-6, limit), title),
        ~allowed,
        ("", words["blocked"]),
        blocked_texts(fixed(values, "%.2f"), allowed, words["blocked"], why),
    )


def signed(
    values: Floats, axes: Axes, title: str, *, limit: float | None = None, n: int = 3, **more: Any
) -> Matrix:
    """Any numbers [row, column] around zero; the scale ends at `limit` (None: the largest
    magnitude) with `n` digits."""
    top = float(np.nanmax(np.abs(values), initial=1e-6)) if limit is None else limit
    return Matrix(axes, values, Scale.around_zero(top, title, n), **more)


def open_cells(name: str, mask: Bools | None, axes: Axes) -> Bools:
    """A mask, True = may attend; all cells without one. Raises ValueError for another shape or
    type."""
    shape = len(axes[0].labels), len(axes[1].labels)
    if mask is None:
        return np.ones(shape, bool)
    check_shape(name, mask, shape)
    if mask.dtype != np.bool_:
        raise ValueError(f"{name} is {mask.dtype}, expected bool with True = may attend")
    return mask


def fixed(values: Floats, form: str) -> NDArray[np.object_]:
    """Numbers as texts, with minus signs."""
    return np.char.replace(np.char.mod(form, values), "-", "−").astype(object)


def blocked_texts(
    texts: NDArray[Any], allowed: Bools, blocked: str, why: Texts | None
) -> NDArray[np.object_]:
    """The texts of open cells, and "blocked: causal mask" in the others."""
    if why is None:
        return np.where(allowed, texts, blocked)
    reasons = np.asarray(why, object)
    check_shape("why", reasons, allowed.shape)
    shut = {why: f"{blocked}: {why}" if why else blocked for why in set(reasons.flat)}
    named = np.array([shut[why] for why in reasons.flat], object).reshape(allowed.shape)
    return np.where(allowed, texts, named)
