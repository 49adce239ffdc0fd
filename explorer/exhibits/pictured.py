"""The picture that a model reads, as the axis of its attention."""

from explorer.components.heads_payload import PictureAxis
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
