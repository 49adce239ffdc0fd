"""User text inside Markdown, harmless: what somebody typed is shown, never obeyed."""

import html
import re

from explorer.figures.theme import show, visible

_ACTIVE = re.compile(r"[!-/:-@\[-`{-~]")  # ASCII punctuation: all that Markdown can act on
_WORD_JOINER = "\u2060"


def escape(text: str, whole: bool = True) -> str:
    """`text` as Markdown that reads exactly as typed, on one line.

    Every ASCII punctuation mark becomes a character reference, which CommonMark never takes for
    markup (nor do Streamlit's `:red[…]`, `$…$` and `<…>`). A word joiner behind each colon keeps
    `:name:` from being replaced by an emoji after parsing. Control characters, and those that turn
    the writing direction of the text around them, are named visibly. What is not `whole` is part
    of a longer text, which is isolated where it is put together.
    """
    draw = show if whole else visible
    return _ACTIVE.sub(_reference, draw(" ".join(text.split()))) if text.strip() else ""


def _reference(match: re.Match[str]) -> str:
    mark = match.group()
    return f"&#{ord(mark)};" + (_WORD_JOINER if mark == ":" else "")


def plain(markdown: str) -> str:
    """The words of Markdown as the app writes it: without its emphasis, colours and icons."""
    words = re.sub(r":material/\w+:\s?", "", markdown)
    words = re.sub(r":[a-z]+(?:-background)?\[(.*?)\]", r"\1", words)
    words = re.sub(r"\*\*|~~|`|\$", "", words)
    return html.unescape(words).replace(_WORD_JOINER, "")
