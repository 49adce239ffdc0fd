"""External text: cleaning, refusals, and sentences from an uploaded file."""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import PurePath

from explorer.problems import InputProblem
from models.training.columns import columns_of

MAX_CHARS = 6000  # 1,024 tokens of English, and a link length that servers accept
MAX_FILE_BYTES = 1_000_000
MAX_SENTENCES = 1000
MAX_LINES, MAX_COLUMNS = 3 * MAX_SENTENCES, 24  # blank lines count; columns if none is named
FILE_TYPES = (".txt", ".csv", ".tsv")
ENCODINGS = "UTF-8, UTF-16, GB18030"

# Invisible characters that would change how the rest of the page reads: the byte order mark and
# the embeddings, overrides and isolates of text direction. Joiners and plain direction marks are
# allowed: emoji and right-to-left scripts need them.
_INVISIBLE = "\\ufeff\\u202a-\\u202e\\u2066-\\u2069"
# Control characters that are no white space, lone surrogates, and the invisible ones.
_DROPPED = re.compile(rf"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff{_INVISIBLE}]")
_VISIBLE = re.compile(rf"[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff{_INVISIBLE}]")
_ASCII, _LETTER = re.compile(r"[\x00-\x7f]+"), re.compile(r"[^\W\d_]")
# The most common Chinese characters and punctuation, 40 % of any running text.
_COMMON = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年"
    "过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样她"
    "很吗，。！？：；、“”"
)


_END = re.compile(r"(?<=[.!?])(?<!\b(?:Mr|Ms|Dr|St)\.)(?<!\bMrs\.)\s+|(?<=[。！？])\s*")
"""Where the next sentence begins, apart from common titles in English."""


def sentences_of(text: str) -> list[str]:
    """The sentences of a paragraph, by their final punctuation; after MAX_SENTENCES the rest."""
    parts = _END.split(text, MAX_SENTENCES)
    return [sentence for sentence in parts if not _is_empty(sentence)]


def clean_text(text: str, limit: int = MAX_CHARS) -> str:
    """One typed text without `dropped` characters; nothing else is changed before tokenization.

    White space stays as it was typed: whether blanks and line ends count is up to the model's
    tokenizer (`folds_blanks`).

    Raises InputProblem: `empty`, `whitespace_only`, `nothing_left`, `too_long_chars`.
    """
    if not text:
        raise InputProblem("empty")
    if text.isspace():
        raise InputProblem("whitespace_only")
    if len(text) > limit:
        raise InputProblem("too_long_chars", limit=limit, length=len(text))
    if _is_empty(text):
        raise InputProblem("nothing_left")
    return _DROPPED.sub("", text)


def dropped(text: str) -> list[str]:
    """The distinct characters that `clean_text` drops, in order: control characters other than
    white space, lone surrogates, byte order marks and overrides of text direction."""
    return list(dict.fromkeys(_DROPPED.findall(text)))


def folds_blanks(encode: Callable[[str], list[int]], text: str) -> bool:
    """Whether a text has runs of white space, line ends, or blanks at its ends, and a tokenizer
    reads it like the same text with single blanks."""
    folded = " ".join(text.split())
    return folded != text and encode(folded) == encode(text)


def one_per_line(sentences: Iterable[str]) -> str:
    """The sentences as the lines of one text; line ends within a sentence become spaces."""
    return "\n".join(" ".join(sentence.splitlines()) for sentence in sentences)


def _is_empty(text: str) -> bool:
    return _VISIBLE.search(text) is None


def sentences_from_file(name: str, data: bytes) -> tuple[str, ...]:
    """The sentences of an uploaded .txt (one per line), .csv or .tsv (one per row), as they are;
    a .txt of one line is cut into its sentences.

    In a table, the column that `columns_of` finds is read, and the header is skipped; without a
    header, the first column that contains words. Blank lines are skipped. `clean_text` follows when
    a sentence is chosen, which may refuse it.

    Raises InputProblem: `file_type`, `file_too_large` (bytes), `file_encoding`, `file_table`,
    `file_empty`, `too_many_sentences`.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix not in FILE_TYPES:
        raise InputProblem("file_type", name=name, allowed=", ".join(FILE_TYPES))
    if len(data) > MAX_FILE_BYTES:
        raise InputProblem("file_too_large", name=name, limit=MAX_FILE_BYTES, size=len(data))
    text = _decoded(name, data)
    lines = text.splitlines()
    if len(lines) <= MAX_LINES:
        cells = lines if suffix == ".txt" else _column(name, text, suffix)
        lines = [cell for cell in cells if not _is_empty(cell)]
    if suffix == ".txt" and len(lines) == 1:
        lines = sentences_of(lines[0])
    if not lines:
        raise InputProblem("file_empty", name=name)
    if len(lines) > MAX_SENTENCES:
        raise InputProblem("too_many_sentences", name=name, limit=MAX_SENTENCES)
    return tuple(lines)


def pairs_in(name: str, data: bytes) -> tuple[tuple[str, str], ...]:
    """Sentences with their translations, as they are, in order; "" if a line has only a sentence.

    A .txt has one pair per line, separated by `|||`, with or without blanks, or a tab; a .csv or
    .tsv one pair per row, in its first two columns or in those that its header names: without a
    name for the translations there are none. Blank lines and a header are skipped.

    Raises InputProblem: `file_type`, `file_encoding`, `file_table`, `file_empty`.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix not in FILE_TYPES:
        raise InputProblem("file_type", name=name, allowed=", ".join(FILE_TYPES))
    header, rows = _table(name, _decoded(name, data), suffix)
    source, target = columns_of(header) or (0, 1)
    pairs = tuple((_cell(row, source), _cell(row, target)) for row in rows)
    pairs = tuple(pair for pair in pairs if not _is_empty(pair[0]))
    if not pairs:
        raise InputProblem("file_empty", name=name)
    return pairs


def header_in(name: str, data: bytes, *, paired: bool = False) -> list[str]:
    """The first row of a readable table if it is a header, which is not a sentence; else [].

    A .txt has a header only as `paired` lines. Raises InputProblem: `file_encoding`, `file_table`.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix == ".txt" and not paired:
        return []
    return _table(name, _decoded(name, data), suffix)[0]


def _table(name: str, text: str, suffix: str) -> tuple[list[str], Iterator[list[str]]]:
    """The header of a table or of paired lines, [] without one, and the further rows. The header
    of paired lines names both sides: a single word may be a sentence."""
    rows = (row for row in _rows(name, text, suffix) if not _is_empty("".join(row)))
    first = next(rows, [])
    columns = columns_of(first)
    if columns is None or (suffix == ".txt" and None in columns):
        return [], chain([first] if first else [], rows)
    return first, rows


def _cell(row: list[str], column: int | None) -> str:
    """A cell of a row; "" where there is none."""
    return "" if column is None else "".join(row[column : column + 1])


def _decoded(name: str, data: bytes) -> str:
    """The text of the bytes: UTF-8, UTF-16 with a byte order mark, or certain GB18030 Chinese."""
    utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if utf_16 else "utf-8-sig")
    except UnicodeDecodeError:
        try:
            text = data.decode("gb18030")
        except UnicodeDecodeError:
            text = "\0"
        # Nearly any bytes are valid GB18030. Text in another legacy encoding decodes to rare
        # characters, while real Chinese has a large share of the most common ones. When in doubt,
        # refuse: a wrong guess would show gibberish as the user's sentence.
        if 10 * sum(map(text.count, _COMMON)) < len(_ASCII.sub("", text)):
            text = "\0"
    if "\0" in text:  # also identifies pictures and spreadsheets
        raise InputProblem("file_encoding", name=name, allowed=ENCODINGS)
    return text


def _column(name: str, text: str, suffix: str) -> list[str]:
    """The column of sentences in a table, without its header."""
    header, further = _table(name, text, suffix)
    rows = list(further)
    if columns := columns_of(header):
        return [_cell(row, columns[0]) for row in rows]
    for column in range(min(MAX_COLUMNS, max(map(len, rows), default=0))):
        cells = [row[column] for row in rows if column < len(row)]
        n_words = sum(_LETTER.search(cell) is not None for cell in cells)
        if n_words and 2 * n_words > sum(not _is_empty(cell) for cell in cells):
            return cells
    return []


def _rows(name: str, text: str, suffix: str) -> Iterator[list[str]]:
    file = io.StringIO(text, newline="")
    try:
        if suffix == ".txt":
            for line in text.splitlines():
                yield re.split(r" *\|\|\| *" if "|||" in line else r"\t", line, maxsplit=1)
        elif suffix == ".tsv" or ("\t" in text and "," not in text):
            # Tab-separated sentences contain unpaired quotation marks, which must not join lines.
            for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                yield [_unquoted(cell) for cell in row]
        else:
            first_line = text[: text.find("\n")] if "\n" in text else text
            semicolons = first_line.count(";") > first_line.count(",")
            yield from csv.reader(file, delimiter=";" if semicolons else ",")
    except csv.Error as error:
        raise InputProblem("file_table", name=name, reason=str(error)) from error


def _unquoted(cell: str) -> str:
    """A cell without the quotation marks that a spreadsheet added."""
    inner = cell[1:-1]
    if len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', ""):
        return inner.replace('""', '"')
    return cell
