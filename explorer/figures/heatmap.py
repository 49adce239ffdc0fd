"""The large attention heatmap, and the difference of two: as a Matrix, and as a Plotly figure.

Rows are queries, columns are keys, as in the formula softmax(q·kᵀ)·v. A blocked cell is not a small
weight: it is left out of the colour scale and shows hatching instead.
"""

from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.frame import Bools, Figure
from explorer.figures.matrix import Matrix, Scale, counted
from explorer.figures.theme import Palette, Stream, colorscale, escape, palette
from explorer.numbers import percents


def hatching(colours: Palette, blocked: Bools, height: int) -> Figure:
    """One image below the trace, hatched where cells are blocked.

    It uses data coordinates, so it zooms with the cells, and takes one node for any number of
    blocked cells. Its own size only affects the angle of the hatching; it follows the plot, of
    which only the `height` in pixels is known. `blocked` is [query, key].
    """
    n_query, n_key = blocked.shape
    wide, tall = 900 / n_key, height / n_query
    runs = "".join(
        f"M{start * wide:.2f} {query * tall:.2f}h{(stop - start) * wide:.2f}"
        f"v{tall:.2f}H{start * wide:.2f}z"
        for query, row in enumerate(blocked)
        for start, stop in _runs(row)
    )
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="{height}" '
        f'viewBox="0 0 900 {height}" preserveAspectRatio="none">'
        '<pattern id="h" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<rect width="6" height="6" fill="{colours.blocked}"/>'
        f'<path d="M-1 1l2-2M0 6l6-6M5 7l2-2" stroke="{colours.hatch}"/></pattern>'
        f'<path d="{runs}" fill="url(#h)"/></svg>'
    )
    return {
        "source": "data:image/svg+xml," + quote(svg),
        "xref": "x",
        "yref": "y",
        "x": -0.5,
        "y": -0.5,
        "sizex": n_key,
        "sizey": n_query,
        "sizing": "stretch",
        "layer": "below",
    }


def _runs(row: Bools) -> list[tuple[int, int]]:
    """Start and end of every run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


Colouring = Literal["linear", "log", "rank"]

ROOM = 420
"""The approximate width of all cells in pixels; only the browser knows it exactly."""

LOG_FLOOR = 1e-4
"""Weights under 0.01 % share the palest colour of the log scale."""


def attention(*cells: Any, dark: bool = False, words: f.Words, **more: Any) -> f.Figure:
    """One head's pattern as a Plotly figure; same arguments and errors as `weights`."""
    return plotted(weights(*cells, words=words, **more), dark=dark, words=words)


def difference(*cells: Any, dark: bool = False, words: f.Words, **more: Any) -> f.Figure:
    """A change of pattern as a Plotly figure; same arguments and errors as `change`."""
    return plotted(change(*cells, words=words, **more), dark=dark, words=words)


def weights(
    pattern: f.Floats,
    mask: f.Bools | None,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    query_title: str,
    key_title: str,
    query_stream: Stream | None = None,
    key_stream: Stream | None = None,
    blocked_labels: NDArray[np.str_] | Sequence[Sequence[str]] | None = None,
    scale: Colouring = "linear",
    top: float = 1.0,
    selected: int | None = None,
    words: f.Words,
) -> Matrix:
    """One head's pattern, [query, key], as a heatmap with tokens on both axes.

    `mask` is [query, key], True = may attend (None: nothing is blocked); `blocked_labels` [query,
    key] names the mask that blocks a cell and is shown on hover. `scale` maps weights to colour:
    "linear" from 0 to `top`, "log" from 0.01 % to 100 %, "rank" by the order within each row.
    `selected` outlines one query's row.

    Raises ValueError with the sizes if pattern, mask, labels and tokens disagree.
    """
    shape = (len(query_tokens), len(key_tokens))
    f.check_shape("pattern", pattern, shape)
    allowed = _allowed("mask", mask, shape)
    shut: Any = words["blocked"]
    if blocked_labels is not None:
        labels = np.asarray(blocked_labels, dtype=object)
        f.check_shape("blocked_labels", labels, shape)
        shut = _blocked_text(shut, labels)
    texts, said = counted(np.where(allowed, percents(pattern), shut))
    values, meaning = _scaled(np.asarray(pattern, np.float32), allowed, scale, top, words)
    return Matrix(
        values,
        ~allowed,
        texts,
        said,
        meaning,
        query_tokens,
        key_tokens,
        query_title,
        key_title,
        query_stream,
        key_stream,
        selected,
    )


def change(
    before: f.Floats,
    after: f.Floats,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    mask_before: f.Bools | None = None,
    mask_after: f.Bools | None = None,
    query_title: str,
    key_title: str,
    query_stream: Stream | None = None,
    key_stream: Stream | None = None,
    top: float | None = None,
    selected: int | None = None,
    words: f.Words,
) -> Matrix:
    """after - before, [query, key], in percentage points on a diverging scale.

    `top` is the change at the ends of the scale (0 to 1); None takes the largest change, but at
    least one percentage point, so that noise does not look like an effect. Cells blocked in both
    runs are hatched; a cell blocked in one run shows its change, and the hover text names the run.

    Raises ValueError with the sizes if the inputs disagree.
    """
    shape = (len(query_tokens), len(key_tokens))
    f.check_shape("before", before, shape)
    f.check_shape("after", after, shape)
    open_before = _allowed("mask_before", mask_before, shape)
    open_after = _allowed("mask_after", mask_after, shape)
    blocked = ~(open_before | open_after)
    points = (np.asarray(after, np.float32) - np.asarray(before, np.float32)) * 100
    limit = 100 * top if top is not None else max(1.0, float(np.abs(points).max(initial=0.0)))
    shut = words["blocked"]
    was = np.where(open_before, percents(before), shut)
    now = np.where(open_after, percents(after), shut)
    written = np.char.replace(np.char.mod("%+.1f", points), "-", "−").astype(object)
    told = f"{words['before']} " + was + f" → {words['after']} " + now
    texts, said = counted(np.where(blocked, shut, told + "\n" + written + f" {words['points']}"))
    ticks = zip((-limit, 0, limit), f.ends(limit, 3, "+"), strict=True)
    return Matrix(
        points,
        blocked,
        texts,
        said,
        Scale("diverging", -limit, limit, words["points"], tuple(ticks)),
        query_tokens,
        key_tokens,
        query_title,
        key_title,
        query_stream,
        key_stream,
        selected,
    )


def _allowed(name: str, mask: f.Bools | None, shape: tuple[int, int]) -> f.Bools:
    if mask is None:
        return np.ones(shape, bool)
    f.check_shape(name, mask, shape)
    if mask.dtype != np.bool_:
        raise ValueError(f"{name} is {mask.dtype}, expected bool with True = may attend")
    return mask


def _blocked_text(blocked: str, labels: NDArray[np.object_]) -> NDArray[np.object_]:
    """ "blocked: causal mask" per cell."""
    text = {label: f"{blocked}: {label}" if label else blocked for label in set(labels.flat)}
    return np.array([text[label] for label in labels.flat], object).reshape(labels.shape)


def _scaled(
    pattern: f.Floats, allowed: f.Bools, scale: Colouring, top: float, words: f.Words
) -> tuple[f.Floats, Scale]:
    """Colour values of the cells, and their scale."""
    if scale == "linear":
        ticks = tuple((tick, f"{100 * tick:.3g} %") for tick in (0.0, top / 2, top))
        return pattern, Scale("attention", 0, top, words["weight"], ticks)
    if scale == "log":
        low = int(np.log10(LOG_FLOOR))
        ticks = tuple((power, f"{100 * 10.0**power:.3g} %") for power in range(low, 1))
        values = np.log10(np.maximum(pattern, LOG_FLOOR))
        return values, Scale("attention", low, 0, words["log_weight"], ticks)
    if scale == "rank":
        ordered = np.where(allowed, pattern, -1.0)
        rank = ordered.argsort(axis=1).argsort(axis=1).astype(np.float32)
        n_blocked = (~allowed).sum(axis=1, keepdims=True)
        span = np.maximum(allowed.sum(axis=1, keepdims=True) - 1, 1)
        ticks = ((0, words["last"]), (1, words["first"]))
        return (rank - n_blocked) / span, Scale("attention", 0, 1, words["rank"], ticks)
    raise ValueError(f"scale is {scale!r}, expected 'linear', 'log' or 'rank'")


def plotted(matrix: Matrix, *, dark: bool = False, words: f.Words) -> f.Figure:
    """A heatmap as a Plotly figure; takes the `words` of `figures.heatmap`."""
    colours, scale = palette(dark), matrix.scale
    query_tokens, key_tokens = matrix.query_tokens, matrix.key_tokens
    n_query, n_key = matrix.values.shape
    hover = (
        f"{escape(words['query'])} <b>%{{y}}</b><br>{escape(words['key'])} <b>%{{x}}</b>"
        "<br>%{text}<extra></extra>"
    )
    texts = np.array([escape(text).replace("\n", "<br>") for text in matrix.texts], object)
    heatmap = {
        "type": "heatmap",
        "x": f.token_labels(key_tokens, dark),
        "y": f.token_labels(query_tokens, dark),
        "z": np.where(matrix.blocked, np.nan, matrix.values).astype(np.float32),
        "text": texts[matrix.said],
        "hovertemplate": hover,
        # A hairline between cells if they are large enough.
        "xgap": 1 if n_key <= 48 else 0,
        "ygap": 1 if n_query <= 48 else 0,
        "colorscale": colorscale(getattr(colours, scale.colours)),
        "zmin": scale.low,
        "zmax": scale.high,
        "colorbar": f.colorbar(
            colours,
            title=scale.title,
            tickvals=[value for value, _ in scale.ticks],
            ticktext=[escape(label) for _, label in scale.ticks],
        ),
    }
    labels = f.upright(key_tokens, dark, ROOM)
    above = f.LEVEL * (f.levels_of(key_tokens, ROOM) - 1)
    frame = f.layout(
        colours,
        64 + above + f.BAR_ROOM + _rows(n_query),
        below=f.BAR_ROOM,
        meta={"least": f.least_width(key_tokens, ROOM, query_tokens)},
    )
    across, down = (matrix.key_title, matrix.key_stream), (matrix.query_title, matrix.query_stream)
    frame["xaxis"] = f.token_axis(heatmap["x"], *across, dark, side="top", **labels)
    frame["yaxis"] = f.token_axis(heatmap["y"], *down, dark, autorange="reversed")
    if matrix.blocked.any():
        frame["images"] = [hatching(colours, matrix.blocked, _rows(n_query))]
    if matrix.selected is not None:
        rows = matrix.selected, matrix.selected
        frame["shapes"] = [f.outline(colours.accent, (0, n_key - 1), rows)]
    return {"data": [heatmap], "layout": frame}


def _rows(n_query: int) -> int:
    """Height of all rows in pixels: less per row the more rows there are."""
    return int(n_query * (30 if n_query <= 16 else max(7.0, 480 / n_query)))
