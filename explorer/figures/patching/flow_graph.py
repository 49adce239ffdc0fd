"""Flow graph of a generated word: columns are words, sublayers go upwards, edge width is the
share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.figures import frame as f
from explorer.figures.theme import Palette, Stream, escape, palette, show
from explorer.numbers import percent

STEP, MOST = 44, 560
"""Height in pixels between two sublayers, and the maximum height of the graph."""
ROOM = 500
"""The approximate width of all columns in pixels; only the browser knows it exactly."""
WIDTHS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.6)
"""Thresholds of the share for each edge width."""


@dataclass(frozen=True)
class FlowEdge:
    """An edge from (column, level) below to (column, level) above; `share` is 0 to 1, `said` the
    hover text; `crosses`: it leads from one stream to the other."""

    lower: tuple[float, float]
    upper: tuple[float, float]
    share: float
    said: str
    crosses: bool = False


@dataclass(frozen=True)
class WordColumn:
    """One word: its label, stream and column, and the level of its row of words."""

    label: str
    stream: Stream
    at: float
    level: float


@dataclass(frozen=True)
class Dot:
    """One vector: its place, its share of the generated word (0 to 1), and its hover text."""

    at: float
    level: float
    share: float
    said: str
    stream: Stream


def flow_graph(
    columns: Sequence[WordColumn],
    dots: Sequence[Dot],
    lines: Sequence[FlowEdge],
    *,
    written: tuple[float, float, str],
    levels: Sequence[tuple[float, str]],
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """Draw the graph; `written` is (column, level, label) of the word at the top, `levels` are row
    labels."""
    colours = palette(dark)
    top = written[1] + 0.9
    width = max(column.at for column in columns) + 1
    frame = f.layout(
        colours, int(min(STEP, max(16.0, MOST / top)) * (top + 1.4) + 24), hovermode="closest"
    )
    pad = max(0.6, 0.045 * width)  # the largest dot
    span = [-pad, width - 1 + pad]
    frame["xaxis"] = f.axis(colours, range=span, fixedrange=True, showticklabels=False)
    frame["yaxis"] = f.axis(
        colours,
        range=[-1.1, top],
        fixedrange=True,
        tickvals=[at for at, _ in levels],
        ticktext=[escape(name) for _, name in levels],
        tickfont={"color": colours.muted, "size": 11},
    )
    frame["annotations"] = [
        *_labels(columns, width, dark),
        f.note(
            f"<b>{escape(show(written[2]))}</b>",
            written[0],
            written[1],
            colours.target,
            15,
            yshift=18,
        ),
    ]
    labels = [column.label for column in columns]
    frame["meta"] = {"least": f.least_width(labels, ROOM, [name for _, name in levels])}
    return {
        "data": [*_edges(lines, colours), _middles(lines), _dots(dots, colours, words)],
        "layout": frame,
    }


def _labels(columns: Sequence[WordColumn], width: float, dark: bool) -> list[f.Figure]:
    """The words below their columns, for each stream below its own lowest vectors."""
    colours, found = palette(dark), []
    for stream in ("src", "tgt"):
        own = [column for column in columns if column.stream == stream]
        if not own:
            continue
        ticks = f.upright(
            [column.label for column in own], dark, int(ROOM * len(own) / width), True
        )
        found += [
            f.note(
                text,
                own[at].at,
                own[at].level,
                colours.stream(own[at].stream),
                12,
                yanchor="top",
                yshift=-8,
            )
            for at, text in zip(ticks["tickvals"], ticks["ticktext"], strict=True)
        ]
    return found


def _edges(lines: Sequence[FlowEdge], colours: Palette) -> list[f.Figure]:
    """One trace per width and kind, since a Plotly line has a single width."""
    found = []
    for crosses in (False, True):
        for degree in range(len(WIDTHS) + 1):
            drawn = [
                line
                for line in lines
                if line.crosses == crosses
                and int(np.searchsorted(WIDTHS, line.share, "right")) == degree
            ]
            if not drawn:
                continue
            xs: list[Any] = [x for line in drawn for x in (line.lower[0], line.upper[0], None)]
            ys: list[Any] = [y for line in drawn for y in (line.lower[1], line.upper[1], None)]
            found.append(
                f.scatter(
                    xs,
                    ys,
                    line={
                        "width": 1 + 1.6 * degree,
                        "color": colours.accent if crosses else colours.attention[2],
                        "dash": "dash" if crosses else "solid",
                    },
                    opacity=0.35 + 0.1 * degree,
                    hoverinfo="skip",
                )
            )
    return found


def _middles(lines: Sequence[FlowEdge]) -> f.Figure:
    """One invisible point on every edge, with its hover text."""
    return f.scatter(
        np.array([(line.lower[0] + line.upper[0]) / 2 for line in lines], np.float32),
        np.array([(line.lower[1] + line.upper[1]) / 2 for line in lines], np.float32),
        "markers",
        marker={"size": 12, "opacity": 0},
        **f.said([escape(line.said) for line in lines]),
    )


def _dots(dots: Sequence[Dot], colours: Palette, words: f.Words) -> f.Figure:
    share = escape(words["share"])
    return f.scatter(
        np.array([dot.at for dot in dots], np.float32),
        np.array([dot.level for dot in dots], np.float32),
        "markers",
        marker={
            "size": [4 + 18 * float(np.sqrt(dot.share)) for dot in dots],
            "color": [colours.stream(dot.stream) for dot in dots],
            "line": {"width": 1, "color": colours.paper},
            "opacity": 1,
        },
        **f.said([f"{escape(dot.said)}<br>{share} {percent(dot.share)}" for dot in dots]),
    )
