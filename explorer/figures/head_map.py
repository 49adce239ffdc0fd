"""One number per head of a model: rows are layers, columns are heads, one map per kind."""

from collections.abc import Collection, Sequence

import numpy as np

from explorer.figures import frame as f
from explorer.figures.theme import escape, palette
from explorer.numbers import fixed, signed

GAP = 0.9
"""Blank rows above each map, with its name."""


def head_map(
    maps: Sequence[f.Floats],
    names: Sequence[str],
    *,
    top: float | None = None,
    off: Collection[tuple[int, int, int]] = (),
    selected: tuple[int, int, int] | None = None,
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """Maps [layer, head] below each other, each under one of `names`, in one figure.

    The scale goes from 0 to `top`; without it, the values are changes, on a diverging scale. A
    head's address is (map, layer, head). Heads in `off` are crossed out, `selected` is outlined.
    The last trace has one invisible point per head, in reading order, for clicks. Raises ValueError
    naming the sizes when the maps disagree.
    """
    if len(maps) != len(names):
        raise ValueError(f"there are {len(maps)} maps, but {len(names)} names")
    n_heads = maps[0].shape[1]
    for name, each in zip(names, maps, strict=True):
        f.check_shape(f"the map of {name}", each, (len(each), n_heads))
    starts = np.cumsum([0.0, *(len(each) + GAP for each in maps)])
    addresses = [(at, *place) for at, each in enumerate(maps) for place in np.ndindex(*each.shape)]
    values = np.concatenate([each.ravel() for each in maps])
    colours, is_off = palette(dark), [address in set(off) for address in addresses]
    if top is None:
        top = max(0.1, float(np.abs(values).max(initial=0.0)))
        least, scale, ends, number = -top, colours.diverging, f.ends(top, 2, "+"), signed
    else:
        least, scale, ends, number = 0.0, colours.attention, ["0", f"{top:.3g}"], fixed
    ticks = [least, 0, top] if least else [0, top]
    bar = f.colorbar(colours, words["value"], tickvals=ticks, ticktext=ends)
    points = f.scatter(
        np.array([head for *_, head in addresses], np.float32),
        np.array([starts[at] + layer for at, layer, _ in addresses], np.float32),
        "markers+text",
        text=np.where(is_off, "✕", ""),
        textfont={"color": colours.ink, "size": 15},
        marker={"size": 22, "symbol": "square", "opacity": 0},
        selected={"marker": {"opacity": 0}},
        unselected={"marker": {"opacity": 0}},
        **f.said(
            [
                f"<b>{escape(names[at])}</b><br>{escape(words['layer'])} {layer + 1}, "
                f"{escape(words['head'])} {head + 1}: "
                + (escape(words["off"]) if gone else number(float(value)))
                for (at, layer, head), gone, value in zip(addresses, is_off, values, strict=True)
            ]
        ),
    )
    rows = float(starts[-1])
    frame = f.layout(
        colours, int(56 + f.BAR_ROOM + 28 * rows), clickmode="event+select", below=f.BAR_ROOM
    )
    heads = range(n_heads)
    layers = [(at, layer) for at, each in enumerate(maps) for layer in range(len(each))]
    frame["xaxis"] = f.axis(
        colours,
        words["head"],
        side="top",
        range=[-0.5, n_heads - 0.5],
        tickvals=list(heads),
        ticktext=[str(head + 1) for head in heads],
        fixedrange=True,
    )
    frame["yaxis"] = f.axis(
        colours,
        words["layer"],
        range=[rows - GAP - 0.5, -0.5 - GAP],
        tickvals=[float(starts[at]) + layer for at, layer in layers],
        ticktext=[str(layer + 1) for _, layer in layers],
        fixedrange=True,
    )
    over = {"xanchor": "left", "yanchor": "middle"}
    frame["annotations"] = [
        f.note(escape(name), -0.5, float(start) - 0.5 - GAP / 2, colours.muted, 13, **over)
        for name, start in zip(names, starts, strict=False)
    ]
    if selected is not None:
        at, layer, head = selected
        y = float(starts[at]) + layer
        frame["shapes"] = [f.outline(colours.accent, (head, head), (y, y))]
    return {"data": [*stacked(maps, starts, scale, (least, top), bar), points], "layout": frame}


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
