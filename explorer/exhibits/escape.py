"""Escape user text for Markdown, so that it is displayed and never interpreted."""

import html
import re

from explorer.figures.theme import show, visible

_ACTIVE = re.compile(r"[!-/:-@\[-`{-~]")  # ASCII punctuation: all that Markdown can act on
_WORD_JOINER = "\u2060"


def escape(text: str, whole: bool = True) -> str:
    """`text` as Markdown that reads exactly as typed, on one line.

    Every ASCII punctuation mark becomes a character reference, which CommonMark never takes for
    markup (nor do Streamlit's `:red[…]`, `$…$` and `<…>`). A word joiner after each colon prevents
    `:name:` from being replaced by an emoji after parsing. Control characters and bidirectional
    overrides are shown by name. Text that is not `whole` is part of a longer text, which is
    isolated when it is assembled.
    """
    draw = show if whole else visible
    return _ACTIVE.sub(_reference, draw(" ".join(text.split()))) if text.strip() else ""


def _reference(match: re.Match[str]) -> str:
    mark = match.group()
    return f"&#{ord(mark)};" + (_WORD_JOINER if mark == ":" else "")


def plain(markdown: str) -> str:
    """The plain text of the app's Markdown: without emphasis, colours and icons."""
    words = re.sub(r":material/\w+:\s?", "", markdown)
    words = re.sub(r":[a-z]+(?:-background)?\[(.*?)\]", r"\1", words)
    words = re.sub(r"\*\*|~~|`|\$", "", words)
    return html.unescape(words).replace(_WORD_JOINER, "")
