"""A row of token chips, the same on every page, optionally with positions below."""

from collections.abc import Sequence

from explorer.components.payload import Words, pack, tokens_head
from explorer.figures.theme import Stream


def pack_token_strip(
    tokens: Sequence[str],
    *,
    stream: Stream | None = None,
    title: str = "",
    selected: int | None = None,
    words: Words,
) -> bytes:
    """The payload: a row of `tokens`, the chosen one `selected`."""
    head = {
        **tokens_head(tokens),
        "stream": stream,
        "title": title,
        "selected": selected,
        "words": dict(words),
    }
    return pack(head)
