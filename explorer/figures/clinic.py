"""A pattern that may be wrong: weight on hidden keys, and rows that are no numbers at all."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.figures.frame import Bools, Figure, Floats, Words
from explorer.figures.heatmap import attention
from explorer.figures.theme import escape, palette


def suspect(
    pattern: Floats,
    hidden: Bools,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    hidden_word: str,
    dark: bool = False,
    words: Words,
    **titles: Any,
) -> Figure:
    """One head's pattern, [query, key]; `hidden` are the cells that must not be seen.

    A hidden cell without weight is hatched. One that has weight shows it, and hover says with
    `hidden_word` that it should have none. NaN is written into its cell.
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
        {
            "x": int(key),
            "y": int(query),
            "text": "NaN",
            "showarrow": False,
            "font": {"color": palette(dark).ink, "size": 12},
        }
        for query, key in np.argwhere(lost)
    ]
    return frame
