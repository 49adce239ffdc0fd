"""What a model's author wrote about it: CARD.md in a checkpoint of ours, else README.md.

It may be anybody's text, of any length and in any encoding. Nothing in it is obeyed: of the YAML on
its top (the hub's front matter) a licence and languages are read line by line, the rest is words.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from explorer.text import script

MOST_CHARS = 40_000
"""What is read of a card; a longer one is cut there."""
_MOST_VALUES, _MOST_LETTERS = 12, 60
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"(\w+):[ \t]*(.*)")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")


@dataclass(frozen=True)
class CardWords:
    """A card as Markdown, without front matter; "" where there is none.

    `lang` is the language that it is written in, None where that cannot be told; `licence` and
    `languages` are those of its front matter, as written there.
    """

    markdown: str
    lang: str | None
    licence: str
    languages: tuple[str, ...]
    is_cut: bool


def card_words(folder: Path, lang: str) -> CardWords:
    """The card in a model's folder, in this language where it has one, else as it is.

    CARD.zh.md is the Chinese one beside CARD.md; of other libraries README.zh.md or README_zh.md.
    Bytes that are not UTF-8 become U+FFFD. Raises nothing: a file that cannot be read is no card.
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
    """The first MOST_CHARS characters of a file, and whether there are more of them."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(MOST_CHARS + 1)
    except OSError:
        return "", False
    return text.removeprefix("\ufeff")[:MOST_CHARS], len(text) > MOST_CHARS


def front_matter(text: str) -> tuple[dict[str, list[str]], str]:
    """The entries of the YAML on top of a card, each a list, and the words below it.

    Only `key: value`, `key: [a, b]` and a list of `- item` lines are understood; other lines are
    skipped. A block without its closing line is not front matter, but words.
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
