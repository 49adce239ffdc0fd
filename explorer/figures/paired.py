"""Pairs of values side by side: before and after, wrong and right."""

from collections.abc import Sequence

import numpy as np

from explorer.figures.frame import (
    LEGEND,
    Figure,
    Floats,
    check_shape,
    layout,
    number_axis,
    token_axis,
    token_labels,
)
from explorer.figures.theme import Stream, escape, palette


def paired(
    labels: Sequence[str],
    first: Floats,
    second: Floats,
    names: tuple[str, str],
    *,
    title: str,
    label_title: str = "",
    stream: Stream | None = None,
    height: int = 260,
    dark: bool = False,
) -> Figure:
    """Two bars per label; the first of a pair is hatched, so they do not differ in colour alone.

    `names` are for the legend, `title` for the value axis. A NaN or infinite value has no bar and
    is shown on hover. Raises ValueError with the sizes if they disagree.
    """
    colours = palette(dark)
    shown = token_labels(labels, dark)
    traces = []
    for values, name, colour, shape in (
        (first, names[0], colours.curves[5], "/"),
        (second, names[1], colours.accent, ""),
    ):
        check_shape(name, values, (len(labels),))
        numbers = np.asarray(values, np.float64)
        traces.append(
            {
                "type": "bar",
                "name": escape(name),
                "x": shown,
                "y": np.where(np.isfinite(numbers), numbers, 0.0),
                "text": [f"{value:.3g}" if np.isfinite(value) else "NaN" for value in numbers],
                "textposition": "none",
                "marker": {
                    "color": colour,
                    "pattern": {"shape": shape, "bgcolor": colours.paper, "size": 5},
                },
                "hovertemplate": f"<b>%{{x}}</b><br>{escape(name)} %{{text}}<extra></extra>",
            }
        )
    frame = layout(colours, height, showlegend=True, legend=LEGEND, barmode="group", bargap=0.3)
    frame["xaxis"] = token_axis(shown, label_title, stream, dark)
    frame["yaxis"] = number_axis(colours, title, nticks=5)
    return {"data": traces, "layout": frame}
