"""The header of a table of texts: which columns are the texts and their translations."""

from collections.abc import Sequence
from pathlib import Path

HEADERS = frozenset({"text", "sentence", "source", "src"})
TARGET_HEADERS = frozenset({"translation", "target", "tgt"})
TEXT_WORDS = frozenset(
    {"body", "comment", "content", "message", "review", "sentence", "text", "tweet", "utterance"}
)
OTHER_HEADERS = frozenset(
    {
        *("author", "category", "class", "date", "id", "index", "label", "name", "rating", "score"),
        *("sentiment", "split", "stars", "time", "timestamp", "user", "username"),
    }
)
"""Names of columns that contain no texts: next to one of these, a name with one of TEXT_WORDS is
the header of the texts."""
LANGUAGES = frozenset(
    {
        *("ar", "cs", "de", "en", "es", "fi", "fr", "he", "hi", "it", "ja", "ko", "nl", "pl", "pt"),
        *("ru", "sv", "tr", "uk", "vi", "zh", "chinese", "english", "french", "german", "spanish"),
    }
)
"""A row of these is a header; the first column is the source."""

MOST_BYTES, MOST_COLUMNS = 1 << 16, 256
"""Most bytes and columns of a line that are read as a header."""


def columns_of(row: Sequence[str]) -> tuple[int, int | None] | None:
    """The columns of the texts and of their translations, if any, that a first row names; None if
    it is no header."""
    names = [cell.strip().lower() for cell in row[:MOST_COLUMNS]]
    if len(names) > 1 and LANGUAGES.issuperset(names):
        return 0, 1
    texts = [at for at, name in enumerate(names) if name in HEADERS]
    if not texts and not OTHER_HEADERS.isdisjoint(names):
        texts = [at for at, name in enumerate(names) if not TEXT_WORDS.isdisjoint(name.split())]
    targets = [at for at, name in enumerate(names) if name in TARGET_HEADERS]
    return (texts[0], (*targets, None)[0]) if texts else None


def names_pair(columns: Sequence[str]) -> bool:
    """Whether the first two columns of a first row name a text and its translation."""
    return columns_of(columns[:2]) == (0, 1)


def header_of(path: Path) -> list[str]:
    """The names of the columns in the first line of a file of pairs; [] if it is no header."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        columns = file.readline(MOST_BYTES).rstrip("\r\n").split("\t")
    return columns if names_pair(columns) else []
