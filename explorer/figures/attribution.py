"""Causes of a score or a word: the terms of its sum, and the logit lens by depth."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from explorer.figures import frame as f
from explorer.figures.matrix import Axes, Matrix, Scale
from explorer.figures.theme import Palette, escape, palette, show
from explorer.numbers import digits, percents, signed

ROW, NAMES, LEGEND = 32, 130, 130
"""Pixels of one writer's row, of the names, and of a legend on three lines with the axis."""


def ranking(
    names: Sequence[str],
    values: f.Floats,
    *,
    free: f.Floats | None = None,
    title: str,
    legend: bool = True,
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """The terms of a sum [term] as bars, the first on top; diamonds show the alternative values
    `free`.

    NaN in `free` draws none. Raises ValueError with the sizes if they disagree.
    """
    f.check_shape("values", values, (len(names),))
    colours = palette(dark)
    labels = _labels(names)
    if free is not None:
        f.check_shape("free", free, (len(names),))
    traces = _terms(labels, values, free, colours, words)
    explained = legend and free is not None
    above = LEGEND if explained else 60
    frame = f.layout(colours, above + ROW * len(names), legend=explained)
    frame |= {"bargap": 0.25, "barmode": "overlay"}
    frame["meta"] = {"least": NAMES + 220}
    frame["xaxis"] = f.number_axis(colours, title, zeroline=True, zerolinecolor=colours.muted)
    frame["yaxis"] = f.axis(colours, autorange="reversed", type="category", dtick=1)
    return {"data": traces, "layout": frame}


def _labels(names: Sequence[str]) -> list[str]:
    """Names made unique as categories: Plotly would merge bars of the same name."""
    return [escape(name) + "\u200b" * (at + 1) for at, name in enumerate(names)]


def _terms(
    labels: list[str], values: f.Floats, free: f.Floats | None, colours: Palette, words: f.Words
) -> list[f.Figure]:
    """Bars coloured by sign. With `free`, also diamonds at these values, and thin bars to them from
    `values`; none where they are NaN."""
    low, high = colours.diverging[1], colours.diverging[3]
    more: f.Figure = {"orientation": "h", "textposition": "none"}
    fill = {"color": [high if value >= 0 else low for value in values]}
    widths, ends = np.asarray(values, np.float32), _said(values, words["frozen"])
    bars = f.bar(widths, labels, marker=fill, **more, **ends)
    if free is None:
        return [bars]
    marker = {"symbol": "diamond-open", "size": 8, "color": colours.ink}
    at = np.asarray(free, np.float32)
    diamonds = f.scatter(at, labels, "markers", marker=marker, **_said(free, words["free"]))
    length = np.asarray(free - values, np.float32)
    gaps = f.bar(
        length,
        labels,
        base=widths.tolist(),  # Plotly accepts no binary array here
        width=0.22,
        marker={"color": colours.muted, "opacity": 0.55},
        **more,
        **_said(length, words["left"]),
    )
    return [bars, diamonds, gaps]


def _said(values: f.Floats, name: str) -> f.Figure:
    """The name of a trace, and its values on hover."""
    text = ["" if np.isnan(value) else signed(float(value), 3) for value in values]
    hover = "<b>%{text}</b><extra>" + escape(name) + "</extra>"
    return {"name": escape(name), "text": text, "hovertemplate": hover}


DEPTH_ROW, WORD_COLUMN = 28, 58
"""Height of one depth, and width of a word, in pixels."""
MOST_WRITTEN = 40
"""Number of positions above which words are shown on hover only."""


def depths(
    said: Sequence[Sequence[str]],
    values: f.Floats,
    axes: Axes,
    *,
    kind: str,
    title: str,
    selected: int | None = None,
    n_shown: int | None = None,
) -> Matrix:
    """The word predicted at each depth and position [depth, place], coloured by `values`.

    `kind` is the kind of value: "chance" (probability, 0 to 1), "ranked" (rank from 1, on a
    logarithmic scale) or "distance" (nats, 0 and above). In all three, darker means closer to the
    answer. `selected` outlines a position; positions from `n_shown` on are blank. Raises ValueError
    with the sizes if they disagree.
    """
    if kind == "chance":
        z, low, high, texts = values, 0.0, 1.0, percents(values)
        ticks = [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")]
    elif kind == "ranked":
        z, low, high = -np.log10(values), -float(np.log10(values.max(initial=10.0))), 0.0
        texts = np.char.mod("%.0f", values).astype(object)
        ticks = [(float(tick), f"{10**-tick:,}") for tick in range(int(np.ceil(low)), 1)]
    else:
        z, low, high = -values, -float(values.max(initial=0.1)), 0.0
        texts = np.vectorize(digits, otypes=[object])(values)
        ticks = [(low, digits(-low)), (0.0, "0")]
    n_places = len(axes[1].labels)
    is_blank = np.arange(n_places) >= (n_places if n_shown is None else n_shown)
    words = np.where(is_blank, "", np.vectorize(show, otypes=[object])(np.array(said, object)))
    roomy = n_places <= MOST_WRITTEN
    labels = zip(is_blank, axes[1].labels, strict=True)
    shown = [None if blank else label for blank, label in labels]
    return Matrix(
        (axes[0], replace(axes[1], labels=shown)),
        np.where(is_blank, np.nan, z),
        Scale("attention", low, high, title, tuple(ticks)),
        texts=words + f" · {title} " + texts,
        written=words if roomy else None,
        selected=(None, selected) if selected is not None and selected < n_places else None,
        least=(WORD_COLUMN if roomy else 12, DEPTH_ROW),
    )
