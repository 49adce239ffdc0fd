"""A row of token chips, the same on every page, optionally with positions below."""

from collections.abc import Sequence

from explorer.components.mount import Index, show
from explorer.components.payload import (
    Words,
    check_index,
    check_words,
    pack,
    tokens_head,
)
from explorer.figures.theme import Stream

WORDS = ("label", "position")
"""The words that the view shows, by the names under which the caller passes them."""


def token_strip(
    tokens: Sequence[str],
    *,
    key: str,
    stream: Stream | None = None,
    title: str = "",
    selected: int | None = None,
    words: Words,
) -> int | None:
    """Show `tokens` as chips in the stream's colour; return the position just clicked, or None.

    Raises ValueError if `selected` is out of range.
    """

    def pack_with(place: Index | None) -> bytes:
        return pack_token_strip(
            tokens,
            stream=stream,
            title=title,
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
    selected: int | None = None,
    words: Words,
) -> bytes:
    """The payload of `token_strip`."""
    check_index("selected", selected, len(tokens), "tokens")
    head = {
        **tokens_head(tokens),
        "stream": stream,
        "title": title,
        "selected": selected,
        "words": check_words(WORDS, words),
    }
    return pack(head)
