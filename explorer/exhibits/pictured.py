"""The picture that a model reads, as the axis of its attention, and with its patches numbered."""

import base64
import io
from html import escape

from PIL import Image

from explorer.components.heads_payload import PictureAxis
from explorer.exhibits.view import View
from explorer.figures.theme import LIGHT
from explorer.runs.trace import Trace
from models.hooks import AttentionSite
from models.pictures import grid_of, order_of, shown_picture


def picture_axis(trace: Trace, site: AttentionSite) -> PictureAxis | None:
    """The picture whose patches are the keys of a site; None if they are tokens of a text."""
    sizes = trace.config.picture
    if sizes is None or site.key_stream != trace.stacks[0].stream:
        return None
    patches = order_of(sizes)
    tokens = trace.src_tokens or trace.tgt_tokens
    marks = [-1] * sum(getattr(each, "pixels", (0,))[0] < 0 for each in tokens)
    keys = (*marks, *patches, *[-1] * (len(tokens) - len(marks) - len(patches)))
    queries = keys if site.query_stream == site.key_stream else [-1] * len(trace.tgt_tokens)
    return PictureAxis(shown_picture(trace.text, sizes), grid_of(sizes), keys, queries)


def patch_map(view: View) -> str:
    """The picture that the model reads as an SVG, with its rows and columns numbered, since patches
    are named "row,column"; the chosen query is framed. "" for a model of texts."""
    sizes = view.loaded.config.picture
    if sizes is None:
        return ""
    file, levels = io.BytesIO(), shown_picture(view.text, sizes)
    Image.fromarray(levels).save(file, "PNG")
    (rows, columns), (height, width) = grid_of(sizes), levels.shape[:2]
    wide = max(9.0, min(18.0, 220 / columns))
    high = wide * columns / width * height / rows
    step = 1 if min(wide, high) >= 13 else 2
    parts = [
        f'<image href="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}" x="16" '
        f'y="12" width="{wide * columns:g}" height="{high * rows:g}" image-rendering="pixelated"/>'
    ]
    for at in range(0, columns, step):
        parts.append(f'<text x="{16 + (at + 0.5) * wide:g}" y="9">{at + 1}</text>')
    for at in range(0, rows, step):
        parts.append(f'<text x="7" y="{15 + (at + 0.5) * high:g}">{at + 1}</text>')
    axis = picture_axis(view.trace, view.site)
    cell = axis.queries[view.row] if axis and view.row < len(axis.queries) else -1
    if cell >= 0:
        x, y = 16 + cell % columns * wide, 12 + cell // columns * high
        frame = f'x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}"'
        parts.append(f'<rect {frame} fill="none" stroke="{LIGHT.accent}" stroke-width="2"/>')
    size = f'width="{18 + wide * columns:g}" height="{14 + high * rows:g}"'
    return (
        f'<svg {size} role="img" aria-label="{escape(view.t("source.map"))}" font-size="9" '
        f'text-anchor="middle" fill="currentColor">{"".join(parts)}</svg>'
    )
