"""One score from 0 to 1 per head, for each of the two queries that can represent a word."""

from collections.abc import Sequence

import numpy as np

from explorer.figures import frame as f
from explorer.figures.head_map import UNSEEN, head_axis, heads_of, stacked
from explorer.figures.theme import escape, palette
from explorer.numbers import fixed

GAP = 0.9


def scores(
    maps: Sequence[f.Floats],
    names: Sequence[str],
    *,
    top: float = 1.0,
    selected: tuple[int, int, int] | None = None,
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """Maps [layer, head] below each other, each under its name; `selected` (map, layer, head) is
    outlined. The last trace has one invisible point per head, in reading order, for clicks.

    Raises ValueError unless there is one name per map.
    """
    if len(maps) != len(names):
        raise ValueError(f"there are {len(maps)} maps, but {len(names)} names")
    colours = palette(dark)
    n_heads = maps[0].shape[1]
    starts = np.cumsum([0.0, *(len(each) + GAP for each in maps)])
    addresses = heads_of(maps)
    values = np.concatenate([each.ravel() for each in maps])
    down = np.array([starts[at] + layer for at, layer, _ in addresses], np.float32)
    bar = f.colorbar(colours, words["score"], tickvals=[0, top], ticktext=["0", f"{top:.3g}"])
    traces = stacked(maps, starts, colours.attention, (0, top), bar)
    points = f.scatter(
        np.array([head for *_, head in addresses], np.float32),
        down,
        "markers",
        **UNSEEN,
        **f.said(
            [
                f"<b>{escape(names[at])}</b><br>{escape(words['layer'])} {layer + 1}, "
                f"{escape(words['head'])} {head + 1}: {fixed(float(value))}"
                for (at, layer, head), value in zip(addresses, values, strict=True)
            ]
        ),
    )
    rows = float(starts[-1]) - GAP
    frame = f.layout(
        colours,
        int(56 + f.BAR_ROOM + 28 * (rows + GAP)),
        clickmode="event+select",
        below=f.BAR_ROOM,
    )
    frame["xaxis"] = head_axis(colours, words["head"], n_heads)
    frame["yaxis"] = f.axis(
        colours,
        words["layer"],
        range=[rows - 0.5, -0.5 - GAP],
        tickvals=[
            float(starts[at]) + layer for at, e in enumerate(maps) for layer in range(len(e))
        ],
        ticktext=[str(layer + 1) for each in maps for layer in range(len(each))],
        fixedrange=True,
    )
    frame["annotations"] = [
        f.note(
            escape(name),
            -0.5,
            float(start) - 0.5 - GAP / 2,
            colours.muted,
            13,
            xanchor="left",
            yanchor="middle",
        )
        for name, start in zip(names, starts, strict=False)
    ]
    if selected is not None:
        at, layer, head = selected
        y = float(starts[at]) + layer
        frame["shapes"] = [f.outline(colours.accent, (head, head), (y, y))]
    return {"data": [*traces, points], "layout": frame}
