"""The picture that a model reads, as the axis of its attention."""

from explorer.components.heads_payload import PictureAxis
from explorer.runs.trace import Trace
from models.hooks import AttentionSite
from models.pictures import grid_of, picture_of


def picture_axis(trace: Trace, site: AttentionSite) -> PictureAxis | None:
    """The picture whose patches are the keys of a site; None if they are tokens of a text."""
    sizes = trace.config.picture
    if sizes is None or site.key_stream != "src":
        return None
    rows, columns = grid_of(sizes)
    patches = [row * columns + column for column in range(columns) for row in range(rows)]
    padding = [-1] * (len(trace.src_tokens) - len(patches))
    keys = (*patches, *padding)
    queries = keys if site.query_stream == "src" else [-1] * len(trace.tgt_tokens)
    return PictureAxis(255 - picture_of(trace.text, sizes), (rows, columns), keys, queries)
