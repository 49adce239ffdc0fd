"""How much each single patch recovers: blocks of cells below each other, with shared columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.head_map import stacked
from explorer.figures.theme import Stream, escape, palette, show
from explorer.numbers import whole_percent

ROOM = 520
"""The approximate width of all columns in pixels; only the browser knows it exactly."""
GAP = 0.7
"""Blank rows between two blocks."""
MOST_TEXT = 16
"""Largest number of columns with a number in each cell."""


@dataclass(frozen=True, eq=False)
class EffectBlock:
    """One block: `values` [row, column] (NaN: no cell), its name, its row labels and its column
    labels (None: numbered, as heads are)."""

    name: str
    values: f.Floats
    rows: Sequence[str]
    columns: Sequence[str] | None = None
    stream: Stream | None = None


def effect_map(
    blocks: Sequence[EffectBlock],
    *,
    selected: tuple[int, int, int] | None = None,
    title: str = "",
    rows_title: str = "",
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """Shares [row, column] on a diverging scale, 1 = full recovery; `selected` is (block, row,
    column).

    The last trace has one invisible point per cell, block by block in reading order, for clicks.
    Token columns are labelled above the first block and below the last. `title` is the title of
    numbered columns, `rows_title` of all rows.

    Raises ValueError with the sizes if they disagree.
    """
    for block in blocks:
        n_columns = block.values.shape[1] if block.columns is None else len(block.columns)
        f.check_shape(f"the values of {block.name}", block.values, (len(block.rows), n_columns))
    colours = palette(dark)
    starts = np.cumsum([0.0, *(len(block.rows) + GAP for block in blocks)])
    n_rows = float(starts[-1]) - GAP
    width = max(block.values.shape[1] for block in blocks)
    ticks = {"tickvals": [-1, 0, 1], "ticktext": ["−100 %", "0", "100 %"]}
    bar = f.colorbar(colours, words["recovered"], **ticks)
    values = [np.clip(block.values, -1, 1) for block in blocks]
    data = stacked(values, starts, colours.diverging, (-1, 1), bar)
    frame = f.layout(
        colours,
        int(72 + f.BAR_ROOM + 28 * n_rows),
        clickmode="event+select",
        meta={"least": 0},
        below=f.BAR_ROOM,
    )
    frame["yaxis"] = f.axis(
        colours,
        rows_title,
        range=[n_rows - 0.5, -0.5],
        tickvals=[
            float(s) + r for s, b in zip(starts, blocks, strict=False) for r in range(len(b.rows))
        ],
        ticktext=[
            " · ".join(
                [f"<b>{escape(block.name)}</b>"] * (row == 0) + [escape(label)] * bool(label)
            )
            for block in blocks
            for row, label in enumerate(block.rows)
        ],
        fixedrange=True,
    )
    across: f.Figure = {"range": [-0.5, width - 0.5], "fixedrange": True}
    first, last = blocks[0], blocks[-1]
    if first.columns is None:
        counted: f.Figure = {
            "tickvals": list(range(width)),
            "ticktext": [str(n + 1) for n in range(width)],
        }
        frame["xaxis"] = f.axis(colours, title, side="top", **across, **counted)
    else:
        padded = [*first.columns, *[" "] * (width - len(first.columns))]
        labels = f.upright(padded, dark, ROOM)
        labels["ticktext"] = [
            text if at < len(first.columns) else ""
            for at, text in zip(labels["tickvals"], labels["ticktext"], strict=True)
        ]
        least = f.least_width(padded, ROOM, [f"{first.name} 0"])
        frame["height"] += f.LEVEL * (f.levels_of(padded, ROOM) - 1)
        frame["xaxis"] = f.axis(colours, side="top", **across, **labels)
        if first.stream is not None:
            frame["xaxis"]["tickfont"] = {"color": colours.stream(first.stream)}
        if len(blocks) > 1 and last.columns is not None:
            below = [*last.columns, *[" "] * (width - len(last.columns))]
            more = f.LEVEL * f.levels_of(below, ROOM)
            least = max(least, f.least_width(below, ROOM, [f"{last.name} 0"]))
            frame["height"] += more
            frame["margin"]["b"] += more
            frame["annotations"] = _below(last, below, n_rows, dark)
        frame["meta"] = {"least": least}
    if selected is not None:
        at, row, column = selected
        y = float(starts[at]) + row
        frame["shapes"] = [f.outline(colours.accent, (column, column), (y, y), 2.5)]
    return {"data": [*data, _points(blocks, starts, width, colours.ink, words)], "layout": frame}


def _below(block: EffectBlock, labels: Sequence[str], n_rows: float, dark: bool) -> list[f.Figure]:
    """The tokens of the last block below its columns; all blocks share one axis."""
    colours = palette(dark)
    ticks = f.upright(labels, dark, ROOM, below=True)
    colour = colours.ink if block.stream is None else colours.stream(block.stream)
    return [
        f.note(text, at, n_rows - 0.5, colour, 12, yanchor="top")
        for at, text in zip(ticks["tickvals"], ticks["ticktext"], strict=True)
        if at < block.values.shape[1]
    ]


def _points(
    blocks: Sequence[EffectBlock], starts: NDArray[np.float64], width: int, ink: str, words: f.Words
) -> f.Figure:
    cells = [
        (at, block, row, column, float(value))
        for at, block in enumerate(blocks)
        for (row, column), value in np.ndenumerate(block.values)
    ]
    shown = [
        whole_percent(value).replace("-", "−")[:-2]
        if width <= MOST_TEXT and not np.isnan(value) and abs(value) >= 0.005
        else ""
        for *_, value in cells
    ]
    said = [
        f"<b>{escape(_column(block, column, words))}</b><br>{escape(block.name)}, "
        f"{escape(block.rows[row])}<br>" + escape(_value(value, words))
        for _, block, row, column, value in cells
    ]
    return f.scatter(
        np.array([column for *_, column, _ in cells], np.float32),
        np.array([starts[at] + row for at, _, row, _, _ in cells], np.float32),
        "markers+text",
        text=np.array(shown, object),
        textfont={
            "size": 11,
            "color": ["#ffffff" if abs(value) > 0.6 else ink for *_, value in cells],
        },
        marker={"size": 24, "symbol": "square", "opacity": 0},
        selected={"marker": {"opacity": 0}},
        unselected={"marker": {"opacity": 0}, "textfont": {"color": ink}},
        **f.said(said),
    )


def _column(block: EffectBlock, column: int, words: f.Words) -> str:
    if block.columns is None:
        return f"{words['head']} {column + 1}"
    return f"{column} {show(block.columns[column])}"


def _value(value: float, words: f.Words) -> str:
    if np.isnan(value):
        return words["nothing"]
    return f"{words['recovered']} {whole_percent(value).replace('-', '−')}"
