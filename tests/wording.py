"""What a machine can see of the words: `python -m tests.wording`, part of `make lint`.

Lengths of the documents and of each page's lead, names that the glossary avoids, and turns of
phrase that the style of docs/CONTRIBUTING.md excludes. Exit status 1 and one line per finding.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from explorer.glossary import terms
from explorer.pages import PAGES
from explorer.text import words

ROOT = Path(__file__).parents[1]
MOST_LINES = {
    "README.md": 120,
    "docs/zh/README.md": 120,
    "docs/CONTRIBUTING.md": 230,
    "ARCHITECTURE.md": 150,
}
MOST_DOC_LINES = 150
MOST_BULLETS = 20
MOST_LEAD_WORDS = 25
MOST_READING_WORDS = 20
BANNED = {
    "whoever": "name the subject",
    "nobody looks": "without recording",
    "in place of": "instead of",
    "said twice": "repeated twice",
    "brings back": "recovers",
    "is to be had": "is available",
    "are to be had": "are available",
    "stands in the": "is in the",
    "stands beside": "is next to",
    "but for rounding": "up to rounding",
    "a number that is none": "NaN",
    "wind back": "rewind",
}
"""Turns of phrase that no sentence of the app or of the documents uses, and what to write."""
READING = re.compile(r"(?:^|[._])read(?:ing)?(?:[._]|$)|\.told$|\.verdict")
"""The keys of the readings: what a picture shows, in words."""


def too_long(name: str, text: str, most: int) -> Iterator[str]:
    if (lines := text.count("\n")) > most:
        yield f"{name}: {lines} lines, at most {most}"


def releases(changelog: str) -> Iterator[str]:
    for release in re.split(r"^## ", changelog, flags=re.M)[1:]:
        bullets = len(re.findall(r"^- ", release, re.M))
        if bullets > MOST_BULLETS:
            yield f"docs/CHANGELOG.md: {release.splitlines()[0]}: {bullets} bullets"


def long_lead(key: str, text: str) -> Iterator[str]:
    """A lead with more words than one may have; a placeholder counts as one."""
    count = len(re.sub(r"\{.*?\}", "x", text).split())
    if count > MOST_LEAD_WORDS:
        yield f"{key}: {count} words, at most {MOST_LEAD_WORDS}"


def long_reading(key: str, text: str) -> Iterator[str]:
    """Sentences of a reading with more words than one may have, in the plural."""
    plural = re.sub(r"\{\w+:[^{}|]*\|([^{}]*)\}", r"\1", text)
    for sentence in re.split(r"(?<=[.!?]) +", re.sub(r"\{.*?\}", "x", plural)):
        if (count := len(re.findall(r"\S*\w\S*", sentence))) > MOST_READING_WORDS:
            yield f"{key}: {count} words in a sentence, at most {MOST_READING_WORDS}"


def banned(where: str, text: str) -> Iterator[str]:
    for phrase, better in BANNED.items():
        if re.search(rf"\b{phrase}\b", text, re.IGNORECASE):
            yield f"{where}: “{phrase}”; write “{better}”"


def avoided(lang: str, where: str, text: str) -> Iterator[str]:
    for term in terms(lang):
        for name in term.avoid:
            if name.casefold() in text.casefold():
                yield f"{where}: “{name}”; the term is “{term.name}”"


def documents() -> list[Path]:
    """The documents of this repository that a person wrote."""
    folders = ("", "docs/**/", "assets/checkpoints/*/")
    return [path for folder in folders for path in sorted(ROOT.glob(f"{folder}*.md"))]


def findings() -> Iterator[str]:
    for path in documents():
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        if not name.startswith("assets/"):
            yield from too_long(name, text, MOST_LINES.get(name, MOST_DOC_LINES))
        yield from banned(name, text)
        is_chinese = name.startswith("docs/zh/") or name.endswith(".zh.md")
        yield from avoided("zh" if is_chinese else "en", name, text)
    yield from releases((ROOT / "docs/CHANGELOG.md").read_text(encoding="utf-8"))
    leads = {f"{kind}{page.name}.lead" for page in PAGES for kind in ("", "filling.", "silent.")}
    for key, text in words("en").items():
        yield from banned(key, text)
        if key in leads:
            yield from long_lead(key, text)
        if READING.search(key):
            yield from long_reading(key, text)
    for lang in ("en", "zh"):
        for key, text in words(lang).items():
            yield from avoided(lang, key, text)


if __name__ == "__main__":
    found = list(findings())
    print("\n".join(found) if found else "The wording passes.")
    sys.exit(bool(found))
