"""Pairs of values side by side: before and after, wrong and right."""

from collections.abc import Sequence

import numpy as np

from explorer.figures import frame as f
from explorer.figures.theme import Stream, escape, palette


def paired(
    labels: Sequence[str],
    first: f.Floats,
    second: f.Floats,
    names: tuple[str, str],
    *,
    title: str,
    label_title: str = "",
    stream: Stream | None = None,
    height: int = 260,
    dark: bool = False,
) -> f.Figure:
    """Two bars per label; the first of a pair is hatched, so they do not differ in colour alone.

    `names` are for the legend, `title` for the value axis. A NaN or infinite value has no bar and
    is shown on hover. Raises ValueError with the sizes if they disagree.
    """
    colours = palette(dark)
    shown = f.token_labels(labels, dark)
    traces = []
    for values, name, colour, shape in (
        (first, names[0], colours.curves[5], "/"),
        (second, names[1], colours.accent, ""),
    ):
        f.check_shape(name, values, (len(labels),))
        numbers = np.asarray(values, np.float64)
        traces.append(
            f.bar(
                shown,
                np.where(np.isfinite(numbers), numbers, 0.0),
                name=escape(name),
                text=[f"{value:.3g}" if np.isfinite(value) else "NaN" for value in numbers],
                textposition="none",
                marker={
                    "color": colour,
                    "pattern": {"shape": shape, "bgcolor": colours.paper, "size": 5},
                },
                hovertemplate=f"<b>%{{x}}</b><br>{escape(name)} %{{text}}<extra></extra>",
            )
        )
    frame = f.layout(colours, height, legend=True, barmode="group", bargap=0.3)
    frame["xaxis"] = f.token_axis(shown, label_title, stream, dark)
    frame["yaxis"] = f.number_axis(colours, title, nticks=5)
    return {"data": traces, "layout": frame}
