"""The picture that a model reads, as the axis of its attention, and with its patches numbered."""

import base64
import io
from html import escape

from PIL import Image

from explorer.components.heads_payload import PictureAxis
from explorer.exhibits import View
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
    marks = [-1] * sum(getattr(token, "pixels", (0,))[0] < 0 for token in tokens)
    keys = (*marks, *patches, *[-1] * (len(tokens) - len(marks) - len(patches)))
    queries = keys if site.query_stream == site.key_stream else [-1] * len(trace.tgt_tokens)
    return PictureAxis(shown_picture(trace.text, sizes), grid_of(sizes), keys, queries)


def patch_map(view: View) -> str:
    """The picture that the model reads as HTML, with its rows and columns numbered, since patches
    are named "row,column"; the chosen query is framed. "" for a model of texts."""
    sizes = view.loaded.config.picture
    if sizes is None:
        return ""
    file, levels = io.BytesIO(), shown_picture(view.text, sizes)
    Image.fromarray(levels).save(file, "PNG")
    (rows, columns), (height, width) = grid_of(sizes), levels.shape[:2]
    wide = max(9.0, min(18.0, 170 / columns))  # CSS pixels of a patch
    high = wide * columns / width * height / rows
    across, down = (1 if side >= 14 else 2 for side in (wide, high))
    code = base64.b64encode(file.getvalue()).decode()
    placed = [
        *(("span", f"1/{at + 2}", f">{at + 1}</span>") for at in range(0, columns, across)),
        *(("span", f"{at + 2}/1", f">{at + 1}</span>") for at in range(0, rows, down)),
        ("img", "2/2/-1/-1", f' alt="" src="data:image/png;base64,{code}">'),
    ]
    axis = picture_axis(view.trace, view.site)
    cell = axis.queries[view.row] if axis and view.row < len(axis.queries) else -1
    if cell >= 0:
        placed.append(("i", f"{cell // columns + 2}/{cell % columns + 2}", "></i>"))
    parts = (f'<{tag} style="grid-area:{place}"{rest}' for tag, place, rest in placed)
    grid = f"14px repeat({rows},{high:g}px)/20px repeat({columns},{wide:g}px)"
    return (
        f'<div class="patch-map" role="img" aria-label="{escape(view.t("source.map"))}" '
        f'style="grid-template:{grid}">{"".join(parts)}</div>'
    )
