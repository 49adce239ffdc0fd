"""One number per head of a model: rows are layers, columns are heads, one map per kind."""

from collections.abc import Collection, Sequence

import numpy as np

from explorer.figures import frame as f
from explorer.figures.theme import Palette, escape, palette
from explorer.numbers import signed

GAP = 0.6
"""Blank rows between two kinds of attention."""
UNSEEN = {
    "marker": {"size": 22, "symbol": "square", "opacity": 0},
    "selected": {"marker": {"opacity": 0}},
    "unselected": {"marker": {"opacity": 0}},
}
"""Points that are only hovered over and clicked."""


def heads_of(maps: Sequence[f.Floats]) -> list[tuple[int, int, int]]:
    """(Map, layer, head) of every cell of maps [layer, head], in reading order."""
    return [
        (at, layer, head) for at, each in enumerate(maps) for layer, head in np.ndindex(*each.shape)
    ]


def head_map(
    maps: Sequence[f.Floats],
    names: Sequence[str],
    *,
    off: Collection[tuple[int, int, int]] = (),
    selected: tuple[int, int, int] | None = None,
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """Changes [layer, head] on a diverging scale, one map for each of `names`, in one figure.

    A head's address is (map, layer, head). Heads in `off` are crossed out, `selected` is outlined.
    The second trace has one invisible point per head, in reading order, for clicks. Raises
    ValueError naming the sizes when the maps disagree.
    """
    if len(maps) != len(names):
        raise ValueError(f"there are {len(maps)} maps, but {len(names)} names")
    n_heads = maps[0].shape[1]
    for name, each in zip(names, maps, strict=True):
        f.check_shape(f"the map of {name}", each, (len(each), n_heads))
    starts = np.cumsum([0.0, *(len(each) + GAP for each in maps)])
    addresses = heads_of(maps)
    across = np.array([head for _, _, head in addresses], np.float32)
    down = np.array([starts[at] + layer for at, layer, _ in addresses], np.float32)
    values = np.concatenate([each.ravel() for each in maps])
    limit = max(0.1, float(np.abs(values).max(initial=0.0)))
    colours = palette(dark)
    bar = f.colorbar(
        colours, title=words["change"], tickvals=[-limit, 0, limit], ticktext=f.ends(limit, 2, "+")
    )
    traces = stacked(maps, starts, colours.diverging, (-limit, limit), bar)
    is_off = [address in set(off) for address in addresses]
    points = f.scatter(
        across,
        down,
        "markers+text",
        text=np.where(is_off, "✕", ""),
        textfont={"color": colours.ink, "size": 15},
        **UNSEEN,
        **f.said(
            [
                f"<b>{escape(names[at])}</b>, {escape(words['layer'])} {layer + 1}, "
                f"{escape(words['head'])} {head + 1}<br>"
                + (escape(words["off"]) if gone else signed(value))
                for (at, layer, head), gone, value in zip(addresses, is_off, values, strict=True)
            ]
        ),
    )
    rows = float(starts[-1])
    frame = f.layout(
        colours, int(56 + f.BAR_ROOM + 28 * rows), clickmode="event+select", below=f.BAR_ROOM
    )
    frame["xaxis"] = head_axis(colours, words["head"], n_heads)
    frame["yaxis"] = f.axis(
        colours,
        range=[rows - GAP - 0.5, -0.5],
        tickvals=[
            float(starts[at]) + layer for at, e in enumerate(maps) for layer in range(len(e))
        ],
        ticktext=[
            f"{escape(name)} · {layer + 1}" if layer == 0 else str(layer + 1)
            for name, each in zip(names, maps, strict=True)
            for layer in range(len(each))
        ],
        fixedrange=True,
    )
    if selected is not None:
        at, layer, head = selected
        y = float(starts[at]) + layer
        frame["shapes"] = [f.outline(colours.accent, (head, head), (y, y))]
    return {"data": [*traces, points], "layout": frame}


def stacked(
    maps: Sequence[f.Floats],
    starts: f.Floats,
    colours: tuple[str, ...],
    span: tuple[float, float],
    bar: f.Figure,
) -> list[f.Figure]:
    """Maps [row, column] below each other, each from its start, with one colour bar."""
    alike = {"x0": 0, "dx": 1, "dy": 1, "hoverinfo": "skip", "colorbar": bar}
    return [
        f.heatmap(each, colours, span, 1, y0=float(start), showscale=at == 0, **alike)
        for at, (start, each) in enumerate(zip(starts, maps, strict=False))
    ]


def head_axis(colours: Palette, title: str, n_heads: int) -> f.Figure:
    """The axis of heads, counted from 1, above the plot."""
    return f.axis(
        colours,
        title,
        side="top",
        range=[-0.5, n_heads - 0.5],
        tickvals=list(range(n_heads)),
        ticktext=[str(head + 1) for head in range(n_heads)],
        fixedrange=True,
    )
