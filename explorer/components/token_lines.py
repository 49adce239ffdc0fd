"""Two rows of tokens joined by lines: who attends to whom, the thicker and darker the more."""

from collections.abc import Sequence

from explorer.components.mount import Place, show
from explorer.components.payload import (
    Bools,
    Floats,
    Words,
    check_index,
    check_length,
    choose_words,
    encode_weights,
    pack,
    tokens_head,
)
from explorer.figures.theme import Stream

WORDS = {
    "label": "attention lines",
    "query": "query",
    "key": "key",
    "blocked": "blocked",
    "hint": "Point at a token to see its lines; click a query to keep them.",
}
"""Every word the view can show, in English; pass the same keys to translate them."""


def token_lines(
    pattern: Floats,
    *,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    key: str,
    mask: Bools | None = None,
    query_title: str = "query",
    key_title: str = "key",
    query_stream: Stream | None = None,
    key_stream: Stream | None = None,
    selected: int | None = None,
    least: float = 0.02,
    words: Words | None = None,
) -> int | None:
    """Show `pattern` [query, key] as lines; return the query just clicked, or None.

    Weights under `least` draw no line, but hover still names them. `selected` keeps one query's
    lines; `mask` [query, key] True = may attend. Streams are "src" or "tgt" and colour the rows.
    Raises ValueError naming the sizes that disagree.
    """

    def pack_with(place: Place | None) -> bytes:
        return pack_token_lines(
            pattern,
            query_tokens=query_tokens,
            key_tokens=key_tokens,
            mask=mask,
            query_title=query_title,
            key_title=key_title,
            query_stream=query_stream,
            key_stream=key_stream,
            selected=None if place is None else place[0],
            least=least,
            words=words,
        )

    chosen = None if selected is None else (selected,)
    picked = show("token_lines", key, (len(query_tokens),), chosen, pack_with)
    return None if picked is None else picked[0]


def pack_token_lines(
    pattern: Floats,
    *,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    mask: Bools | None = None,
    query_title: str = "query",
    key_title: str = "key",
    query_stream: Stream | None = None,
    key_stream: Stream | None = None,
    selected: int | None = None,
    least: float = 0.02,
    words: Words | None = None,
) -> bytes:
    """The payload of `token_lines`."""
    if pattern.ndim != 2:
        raise ValueError(f"pattern has shape {pattern.shape}, expected [query, key]")
    check_length("query_tokens", len(query_tokens), pattern.shape[0], "queries in pattern")
    check_length("key_tokens", len(key_tokens), pattern.shape[1], "keys in pattern")
    check_index("selected", selected, len(query_tokens), "queries")
    head = {
        "queries": {**tokens_head(query_tokens), "title": query_title, "stream": query_stream},
        "keys": {**tokens_head(key_tokens), "title": key_title, "stream": key_stream},
        "selected": selected,
        "least": least,
        "words": choose_words(WORDS, words),
    }
    return pack(head, cells=encode_weights(pattern, mask))
