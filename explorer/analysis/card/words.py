"""The author's text about a model: CARD.md in our checkpoints, else README.md.

The text is untrusted, of any length and encoding. Nothing in it is interpreted: from the YAML block
at the top (the Hub's front matter) the licence and languages are read line by line; the rest is
text.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from explorer.text import script

MOST_CHARS = 40_000
"""Characters that are read of a card; a longer one is truncated."""
_MOST_VALUES, _MOST_LETTERS = 12, 60
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"(\w+):[ \t]*(.*)")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")


@dataclass(frozen=True)
class CardWords:
    """A card as Markdown, without front matter; "" if there is none.

    `lang` is the language of the text, None if it cannot be determined; `licence` and `languages`
    are taken from its front matter verbatim.
    """

    markdown: str
    lang: str | None
    licence: str
    languages: tuple[str, ...]
    is_cut: bool


def card_words(folder: Path, lang: str) -> CardWords:
    """The card in a model's folder, in this language if available, else as it is.

    The Chinese version of CARD.md is CARD.zh.md; of README.md it is README.zh.md or README_zh.md.
    Bytes that are not UTF-8 become U+FFFD. Raises nothing: an unreadable file counts as no card.
    """
    stems = "CARD", "README"
    own = [folder / f"{stem}{by}{lang}.md" for stem in stems for by in "._"]
    for path in (*own, *(folder / f"{stem}.md" for stem in stems)):
        text, is_cut = _beginning(path)
        if text.strip():
            break
    values, markdown = front_matter(text)
    licence = values.get("license", [])
    if licence in ([], ["other"]):
        licence = values.get("license_name", licence)
    return CardWords(
        markdown,
        lang if path in own else script(markdown),
        ", ".join(licence),
        tuple(values.get("language", [])),
        is_cut,
    )


def _beginning(path: Path) -> tuple[str, bool]:
    """The first MOST_CHARS characters of a file, and whether it has more."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(MOST_CHARS + 1)
    except OSError:
        return "", False
    return text.removeprefix("\ufeff")[:MOST_CHARS], len(text) > MOST_CHARS


def front_matter(text: str) -> tuple[dict[str, list[str]], str]:
    """The entries of the YAML block at the top of a card, each as a list, and the text below it.

    Only `key: value`, `key: [a, b]` and lists of `- item` lines are supported; other lines are
    skipped. A block without its closing line is treated as text.
    """
    block = _FRONT.match(text)
    if block is None:
        return {}, text
    values: dict[str, list[str]] = {}
    key = ""
    for line in block[1].splitlines():
        if entry := _ENTRY.fullmatch(line):
            key, said = entry.groups()
            values[key] = [_plain(each) for each in said.strip("[] ").split(",") if _plain(each)]
        elif (item := _ITEM.fullmatch(line)) and key:
            values[key].append(_plain(item[1]))
    return {key: each[:_MOST_VALUES] for key, each in values.items()}, text[block.end() :]


def _plain(value: str) -> str:
    return value.strip().strip("\"'")[:_MOST_LETTERS]
