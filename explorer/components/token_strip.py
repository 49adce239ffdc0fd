"""One row of token chips, which look the same on every page; positions beneath on demand."""

from collections.abc import Sequence

import numpy as np

from explorer.components.mount import Index, show
from explorer.components.payload import (
    Bools,
    Floats,
    Words,
    check_index,
    check_length,
    check_words,
    encode_weights,
    pack,
    tokens_head,
)
from explorer.figures.theme import Stream

WORDS = (
    "label",
    "position",
    "blocked",
    "value",
)
"""The words that the view shows, by the names under which the caller passes them."""


def token_strip(
    tokens: Sequence[str],
    *,
    key: str,
    stream: Stream | None = None,
    title: str = "",
    values: Floats | None = None,
    allowed: Bools | None = None,
    selected: int | None = None,
    words: Words,
) -> int | None:
    """Show `tokens` as chips; return the position just clicked, or None.

    `values` [token], 0 to 1, tint the chips on the attention scale instead of the stream's
    colour; `allowed` [token] False hatches one as blocked. Raises ValueError naming the sizes
    that disagree.
    """

    def pack_with(place: Index | None) -> bytes:
        return pack_token_strip(
            tokens,
            stream=stream,
            title=title,
            values=values,
            allowed=allowed,
            selected=None if place is None else place[0],
            words=words,
        )

    chosen = None if selected is None else (selected,)
    picked = show("token_strip", key, (len(tokens),), chosen, pack_with)
    return None if picked is None else picked[0]


def pack_token_strip(
    tokens: Sequence[str],
    *,
    stream: Stream | None = None,
    title: str = "",
    values: Floats | None = None,
    allowed: Bools | None = None,
    selected: int | None = None,
    words: Words,
) -> bytes:
    """The payload of `token_strip`."""
    tint = np.zeros(len(tokens), np.float32) if values is None else values
    check_length("values", len(tint), len(tokens), "tokens")
    if allowed is not None:
        check_length("allowed", len(allowed), len(tokens), "tokens")
    check_index("selected", selected, len(tokens), "tokens")
    head = {
        **tokens_head(tokens),
        "stream": stream,
        "title": title,
        "tinted": values is not None,
        "selected": selected,
        "words": check_words(WORDS, words),
    }
    return pack(head, cells=encode_weights(tint, allowed))
