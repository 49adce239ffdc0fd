"""A possibly faulty attention pattern: weight on hidden keys, and rows of NaN."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.heatmap import attention
from explorer.figures.theme import escape, palette


def suspect(
    pattern: f.Floats,
    hidden: f.Bools,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    hidden_word: str,
    dark: bool = False,
    words: f.Words,
    **titles: Any,
) -> f.Figure:
    """One head's pattern, [query, key]; `hidden` marks cells that must have no weight.

    A hidden cell without weight is hatched. A hidden cell with weight shows it, with `hidden_word`
    on hover. NaN is written into its cell.
    """
    lost = np.isnan(pattern)
    kept_out = hidden & (pattern == 0)
    frame = attention(
        np.nan_to_num(pattern),
        ~kept_out,
        query_tokens,
        key_tokens,
        blocked_labels=np.where(kept_out, hidden_word, ""),
        dark=dark,
        words=words,
        **titles,
    )
    text: NDArray[np.object_] = frame["data"][0]["text"]
    leaked = hidden & ~kept_out & ~lost
    text = np.where(leaked, text + f" · {escape(hidden_word)}", text)
    frame["data"][0]["text"] = np.where(lost, "NaN", text)
    frame["layout"]["annotations"] = [
        f.note("NaN", int(key), int(query), palette(dark).ink, 12)
        for query, key in np.argwhere(lost)
    ]
    return frame
