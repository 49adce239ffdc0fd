"""The logit lens as a grid of words: one row per depth, one column per position."""

from collections.abc import Sequence

import numpy as np

from explorer.figures import frame as f
from explorer.figures.theme import bare, clipped, escape, palette, show
from explorer.numbers import digits, percents

ROW, COLUMN = 30, 62
"""Height of one depth, and width of a word, in pixels."""
MOST_WRITTEN = 40
"""Number of positions above which words are shown on hover only."""


def depths(
    said: Sequence[Sequence[str]],
    values: f.Floats,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    kind: str,
    title: str,
    column_title: str,
    selected: int | None = None,
    doubtful: Sequence[int] = (),
    n_shown: int | None = None,
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """The word predicted at each depth and position [depth, place], coloured by `values`.

    `kind` is the kind of value: "chance" (probability, 0 to 1), "ranked" (rank from 1, on a
    logarithmic scale) or "distance" (nats, 0 and above). In all three, darker means closer to the
    answer. `selected` outlines a position; positions from `n_shown` on are blank; the names of
    `doubtful` depths are dimmed. Raises ValueError with the sizes if they disagree.
    """
    shape = (len(rows), len(columns))
    f.check_shape("said", np.array([list(row) for row in said], object), shape)
    f.check_shape("values", values, shape)
    colours = palette(dark)
    if kind == "chance":
        z, low, high, texts = values, 0.0, 1.0, percents(values)
        ticks, names = [0.0, 0.5, 1.0], ["0 %", "50 %", "100 %"]
    elif kind == "ranked":
        z, low, high = -np.log10(values), -float(np.log10(values.max(initial=10.0))), 0.0
        texts = np.array([[f"{value:.0f}" for value in row] for row in values], object)
        ticks = list(range(int(np.ceil(low)), 1))
        names = [f"{10**-tick:,}" for tick in ticks]
    else:
        z, low, high = -values, -float(values.max(initial=0.1)), 0.0
        texts = np.array([[digits(float(value)) for value in row] for row in values], object)
        ticks, names = [low, 0.0], [digits(-low), "0"]
    labels = f.token_labels(columns, dark)
    z = np.where(np.arange(shape[1]) < (shape[1] if n_shown is None else n_shown), z, np.nan)
    written = [[_short(word) for word in row[:n_shown]] for row in said]
    roomy = len(columns) <= MOST_WRITTEN
    trace = f.heatmap(
        z,
        colours.attention,
        (low, high),
        gap=2,
        x=labels,
        y=[
            f'<span style="color:{colours.muted}"><i>{escape(row)}</i></span>'
            if at in doubtful
            else escape(row)
            for at, row in enumerate(rows)
        ],
        text=written,
        texttemplate="%{text}" if roomy else "",
        textfont={"size": 12},
        customdata=np.array(texts, object),
        colorbar=f.colorbar(colours, title, tickvals=ticks, ticktext=names),
        hovertemplate=f"<b>%{{text}}</b><br>{escape(words['depth'])} %{{y}}<br>"
        f"{escape(title)} <b>%{{customdata}}</b><extra></extra>",
    )
    frame = f.layout(colours, 70 + f.BAR_ROOM + ROW * len(rows), below=f.BAR_ROOM)
    frame["meta"] = {"least": 110 + (COLUMN if roomy else 12) * len(columns)}
    ticks_across = {"tickvals": list(range(shape[1]))[:n_shown], "ticktext": labels[:n_shown]}
    frame["xaxis"] = f.token_axis(
        labels, column_title, "tgt", dark, side="top", tickangle=0, **ticks_across
    )
    frame["yaxis"] = f.axis(colours, words["depth"], autorange="reversed", type="category")
    if selected is not None and 0 <= selected < len(columns):
        frame["shapes"] = [f.outline(colours.accent, (selected, selected), (0, len(rows) - 1))]
    return {"data": [trace], "layout": frame}


def _short(word: str) -> str:
    """A word shortened to fit into its cell."""
    drawn = show(word)
    wide = any(character >= "\u1100" for character in bare(drawn))
    return escape(clipped(drawn, 5 if wide else 8))
