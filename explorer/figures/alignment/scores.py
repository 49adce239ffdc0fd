"""One score from 0 to 1 per head, for each of the two queries that can represent a word."""

from collections.abc import Sequence

import numpy as np

from explorer.figures.frame import BAR_ROOM, Figure, Floats, Words, axis, colorbar, layout
from explorer.figures.head_map import head_axis, heads_of
from explorer.figures.theme import colorscale, escape, palette
from explorer.numbers import fixed

GAP = 0.9


def scores(
    maps: Sequence[Floats],
    names: Sequence[str],
    *,
    top: float = 1.0,
    selected: tuple[int, int, int] | None = None,
    dark: bool = False,
    words: Words,
) -> Figure:
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
    traces = [
        {
            "type": "heatmap",
            "z": each.astype(np.float32),
            "x0": 0,
            "dx": 1,
            "y0": float(start),
            "dy": 1,
            "zmin": 0,
            "zmax": top,
            "colorscale": colorscale(colours.attention),
            "xgap": 1,
            "ygap": 1,
            "hoverinfo": "skip",
            "showscale": at == 0,
            "colorbar": colorbar(
                colours, title=words["score"], tickvals=[0, top], ticktext=["0", f"{top:.3g}"]
            ),
        }
        for at, (start, each) in enumerate(zip(starts, maps, strict=False))
    ]
    points = {
        "type": "scatter",
        "mode": "markers",
        "x": np.array([head for *_, head in addresses], np.float32),
        "y": down,
        "marker": {"size": 22, "symbol": "square", "opacity": 0},
        "selected": {"marker": {"opacity": 0}},
        "unselected": {"marker": {"opacity": 0}},
        "customdata": np.array(
            [
                f"<b>{escape(names[at])}</b><br>{escape(words['layer'])} {layer + 1}, "
                f"{escape(words['head'])} {head + 1}: {fixed(float(value))}"
                for (at, layer, head), value in zip(addresses, values, strict=True)
            ],
            object,
        ),
        "hovertemplate": "%{customdata}<extra></extra>",
    }
    rows = float(starts[-1]) - GAP
    frame = layout(colours, int(56 + BAR_ROOM + 28 * (rows + GAP)), clickmode="event+select")
    frame["margin"]["b"] = BAR_ROOM
    frame["xaxis"] = head_axis(colours, words["head"], n_heads)
    frame["yaxis"] = axis(
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
        {
            "text": escape(name),
            "x": -0.5,
            "y": float(start) - 0.5 - GAP / 2,
            "xanchor": "left",
            "yanchor": "middle",
            "showarrow": False,
            "font": {"color": colours.muted, "size": 13},
        }
        for name, start in zip(names, starts, strict=False)
    ]
    if selected is not None:
        at, layer, head = selected
        y = float(starts[at]) + layer
        frame["shapes"] = [
            {
                "type": "rect",
                "x0": head - 0.5,
                "x1": head + 0.5,
                "y0": y - 0.5,
                "y1": y + 0.5,
                "line": {"color": colours.accent, "width": 2},
            }
        ]
    return {"data": [*traces, points], "layout": frame}
