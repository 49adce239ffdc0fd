"""A file of sentences or pairs, read in pieces, as batches; and the classes of all tokens.

Memory use does not grow with the file.
"""

import hashlib
import heapq
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from explorer.analysis.roles import Measure, SequenceKeys
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.generation import translate_all
from explorer.runs.inputs import limit
from explorer.runs.sentences import clean_text
from models.rows import Rows, Stream, as_tokens
from models.training.columns import names_pair
from models.training.data import END_OF_TEXT

LINES = 1024
"""Lines that are read at a time."""
SAMPLE = 4096
"""Lines used to decide which words are rare: those with the smallest hashes."""
MOST_BYTES = 1 << 16
"""Maximum bytes per line; a longer line is skipped without being held in memory."""
MARKS_OF_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Line:
    """One sentence or pair; `offset` is the byte offset of its line in the file.

    `credit` is the third column: the attribution for quotations.
    """

    offset: int
    source: str
    target: str = ""
    credit: str = ""


@dataclass(frozen=True)
class Corpus:
    """A file as it was when scanned; `digest` is its SHA-256, `n_lines` counts its examples.

    `sample` holds the offsets of the SAMPLE lines with the smallest hashes, smallest first: a
    pseudo-random sample that is the same in every run.
    """

    path: Path
    digest: str
    n_lines: int
    sample: tuple[int, ...]


def scan(path: Path) -> Corpus:
    """Read a file once, from beginning to end.

    Raises InputProblem `file_empty` or `file_encoding`; OSError.
    """
    digest, n_lines = hashlib.sha256(), 0
    smallest: list[tuple[int, int]] = []  # a heap of (-hash, -offset): its top is the largest hash
    with path.open("rb") as file:
        head = file.read(4096)
        if head.startswith(MARKS_OF_UTF_16) or b"\0" in head:
            raise InputProblem("file_encoding", name=path.name, allowed="UTF-8")
        file.seek(0)
        for offset, line in _raw_lines(file, digest):
            n_lines += 1
            hashed = int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "big")
            if len(smallest) < SAMPLE:
                heapq.heappush(smallest, (-hashed, -offset))
            elif -hashed > smallest[0][0]:
                heapq.heapreplace(smallest, (-hashed, -offset))
    if not n_lines:
        raise InputProblem("file_empty", name=path.name)
    sample = tuple(-offset for _, offset in sorted(smallest, reverse=True))
    return Corpus(path, digest.hexdigest(), n_lines, sample)


@dataclass
class Lines:
    """The readable lines of a piece, and the number of unreadable ones (not UTF-8, or too long)."""

    read: list[Line]
    too_long: int = 0
    unreadable: int = 0


def lines_of(corpus: Corpus, reverse: bool = False) -> Iterator[Lines]:
    """A file in pieces of LINES lines; with `reverse`, the second column is the source."""
    with corpus.path.open("rb") as file:
        raw_lines = _raw_lines(file)
        while raw := list(islice(raw_lines, LINES)):
            piece = Lines([])
            for offset, line in raw:
                if len(line) > MOST_BYTES:
                    piece.too_long += 1
                    continue
                try:
                    parsed = parse(offset, line, reverse)
                except UnicodeDecodeError:
                    piece.unreadable += 1
                    continue
                if parsed is not None:
                    piece.read.append(parsed)
            yield piece


def line_at(path: Path, offset: int, reverse: bool = False) -> Line | None:
    """The line at a byte offset; None if it cannot be used."""
    with path.open("rb") as file:
        file.seek(offset)
        raw = file.readline(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        return None
    try:
        return parse(offset, raw, reverse)
    except UnicodeDecodeError:
        return None


def parse(offset: int, line: bytes, reverse: bool = False) -> Line | None:
    """Split a line at TABs: the sentence, its translation, the credit.

    None for a blank line, a line without a source, a separator between two stories, and a header.
    Raises UnicodeDecodeError.
    """
    columns = line.decode("utf-8-sig" if offset == 0 else "utf-8").rstrip("\r\n").split("\t")
    if offset == 0 and names_pair(columns):
        return None
    source, target, credit = (*columns, "", "")[:3]
    if reverse:
        source, target = target, source
    try:
        source = source if source.isprintable() and source else clean_text(source, MOST_BYTES)
        if not target.isprintable() or not target.strip():
            target = clean_text(target, MOST_BYTES) if target.strip() else ""
    except InputProblem:  # no visible characters
        return None
    if not source.strip() or source == END_OF_TEXT:
        return None
    return Line(offset, source, target, credit.strip())


def _raw_lines(
    file: IO[bytes], digest: "hashlib._Hash | None" = None
) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, first MOST_BYTES + 1 bytes) of each line that is no blank and no separator
    between two stories; add all bytes of the file to `digest`."""
    offset = 0
    while line := file.readline(MOST_BYTES + 1):
        piece = line
        while piece:
            if digest is not None:
                digest.update(piece)
            piece = b"" if piece.endswith(b"\n") else file.readline(MOST_BYTES + 1)
        if line.strip() not in (b"", END_OF_TEXT.encode()):
            yield offset, line
        offset = file.tell()


COMMON = 0.95
"""A token is rare unless it is among the most common ones that cover this share of running text."""
TOKENS = 4096
"""Tokens per batch in its longer sequence, padding included."""
KINDS: tuple[Measure, ...] = ("last", "punctuation", "rare")
"""The measures that the key alone decides, besides the first one."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Properties of every token of a vocabulary, each Bool [token].

    If the source has a vocabulary of its own, its tokens follow the target's, from
    `of_source` on.
    """

    punctuation: Bool[Tensor, " token"]
    rare: Bool[Tensor, " token"]
    special: Bool[Tensor, " token"]
    begins: Bool[Tensor, " token"]  # has a letter, no blank before it
    ends: Bool[Tensor, " token"]  # has a letter
    of_source: int = 0


@dataclass(frozen=True, eq=False)
class CorpusBatch:
    """A padded batch; `lines` are the lines' offsets, `sources` the hashes of their sources."""

    rows: Rows
    lines: Int[np.ndarray, " batch"]
    sources: Int[np.ndarray, " batch"]


class Encoded(NamedTuple):
    """A line as token ids with the special tokens the model expects; `src` is () for one text."""

    offset: int
    source: int
    src: tuple[int, ...]
    tgt: tuple[int, ...]


def encode(loaded: LoadedModel, lines: Sequence[Line]) -> tuple[list[Encoded], int]:
    """The lines that the model can read, and the number of lines with too many tokens.

    A translator reads the second column, or its own greedy translation if a line has none. A model
    of one text reads the first column only.
    """
    model, tokenizer, most = loaded.model, loaded.tokenizer, limit(loaded)
    paired = "src" in model.reads
    fitting, rows, too_long = [], [], 0
    for line in lines:
        ids = tokenizer.of("src").encoded(line.source)
        read = model.with_marks(model.reads[0], ids)
        if ids and len(read) <= most:
            fitting.append((line, read))
        elif ids:
            too_long += 1
    own: dict[int, tuple[int, ...]] = {}
    if paired and (alone := [(line.offset, read) for line, read in fitting if not line.target]):
        own = _written(loaded, alone)
    for line, read in fitting:
        src: tuple[int, ...] = ()
        if paired:
            src = read
            tokens = tokenizer.of("tgt").encoded(line.target)
            target = tokens if line.target else own[line.offset]
            read = model.with_marks("tgt", target)
            if len(read) > most:
                too_long += 1
                continue
        rows.append(Encoded(line.offset, hashed(line.source), src, read))
    return rows, too_long


def _written(
    loaded: LoadedModel, sources: Sequence[tuple[int, tuple[int, ...]]]
) -> dict[int, tuple[int, ...]]:
    """The greedy translation of each (offset, source): {offset: tokens}."""
    written: dict[int, tuple[int, ...]] = {}
    order = sorted(sources, key=lambda each: (len(each[1]), each[0]))
    while order:
        width = len(order[-1][1])
        some = [order.pop() for _ in range(min(len(order), max(1, TOKENS // width)))]
        translations = translate_all(loaded, [read for _, read in some])
        for (offset, _), (tokens, _) in zip(some, translations, strict=True):
            written[offset] = tuple(tokens)
    return written


def batches(loaded: LoadedModel, encoded: Sequence[Encoded]) -> Iterator[CorpusBatch]:
    """Batches of lines of similar length; the same lines give the same batches."""
    order = sorted(encoded, key=lambda e: (len(e.tgt), len(e.src), e.offset))
    current: list[Encoded] = []
    longest = 0
    for line in order:
        width = max(len(line.src), len(line.tgt))
        if current and max(longest, width) * (len(current) + 1) > TOKENS:
            yield batch_of(loaded, current)
            current, longest = [], 0
        current.append(line)
        longest = max(longest, width)
    if current:
        yield batch_of(loaded, current)


def batch_of(loaded: LoadedModel, encoded: Sequence[Encoded]) -> CorpusBatch:
    """These sentences as one batch."""
    sources = [e.src for e in encoded] if "src" in loaded.model.reads else None
    rows = Rows.of([e.tgt for e in encoded], sources, loaded.marks)
    return CorpusBatch(
        rows,
        np.array([e.offset for e in encoded], np.int64),
        np.array([e.source for e in encoded], np.int64),
    )


def vocabulary_of(loaded: LoadedModel, sample: Iterable[Line]) -> Vocabulary:
    """Classify every token; rare ones are counted in `sample`, both columns together."""
    return vocabulary(loaded, rare_in(loaded, sample))


def rare_in(loaded: LoadedModel, sample: Iterable[Line]) -> Bool[Tensor, " token"]:
    """Which tokens are rare, by their frequency in `sample`; in the order of `Vocabulary`."""
    first, tokenizer = _of_source(loaded), loaded.tokenizer
    reader, writer = tokenizer.of("src"), tokenizer.of("tgt")
    counted: Counter[int] = Counter()
    for line in sample:
        counted.update(first + t for t in reader.encoded(line.source) if t >= 0)  # not patches
        if line.target and "src" in loaded.model.reads:
            counted.update(writer.encoded(line.target))
    rare = torch.ones(first + loaded.config.n_tokens("src"), dtype=torch.bool)
    left = COMMON * counted.total()
    for token, count in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        if left <= 0:
            break
        rare[token] = False
        left -= count
    return rare


def _of_source(loaded: LoadedModel) -> int:
    """`Vocabulary.of_source`."""
    return loaded.config.vocab_size if loaded.config.src_vocab_size else 0


def vocabulary(loaded: LoadedModel, rare: Bool[Tensor, " token"]) -> Vocabulary:
    """Classify every token, given which ones are rare."""
    first = _of_source(loaded)
    texts, special = [], []
    for stream in ("tgt", "src") if first else ("tgt",):
        tokenizer, size = loaded.tokenizer.of(stream), loaded.config.n_tokens(stream)
        known, rest = range(min(size, tokenizer.vocab_size)), max(0, size - tokenizer.vocab_size)
        of_own = [tokenizer.is_special(token) for token in known]
        special += [*of_own, *[False] * rest]
        own = (b"" if of_own[token] else tokenizer.bytes_of(token) for token in known)
        texts += [*(piece.decode("utf-8", "replace") for piece in own), *[""] * rest]
    return Vocabulary(
        punctuation=torch.tensor([_is_punctuation(text.strip()) for text in texts]),
        rare=rare,
        special=torch.tensor(special),
        begins=torch.tensor([text[:1].isascii() and text[:1].isalpha() for text in texts]),
        ends=torch.tensor([text[-1:].isascii() and text[-1:].isalpha() for text in texts]),
        of_source=first,
    )


def keys_of(rows: Rows, stream: Stream, vocabulary: Vocabulary) -> SequenceKeys:
    """Classify the keys of a sequence."""
    tokens, valid = rows.tokens(stream), rows.valid(stream)
    n = valid.sum(1)
    last = torch.arange(tokens.shape[1]) == n[:, None] - 1
    kinds: dict[Measure, Tensor] = dict.fromkeys(KINDS, torch.zeros_like(valid))
    kinds["last"] = last & valid
    if tokens.dim() > 2:  # patches: none is punctuation or rare
        ids = torch.tensor([as_tokens(row) for row in tokens.tolist()])
        return SequenceKeys(ids, n, valid, kinds)
    at = tokens + vocabulary.of_source if stream == "src" else tokens
    words = valid & ~vocabulary.special[at]
    joined = vocabulary.ends[at[:, :-1]] & vocabulary.begins[at[:, 1:]]
    rare = vocabulary.rare[at]
    rare[:, 1:] |= joined  # a word split into several tokens counts as rare
    rare[:, :-1] |= joined
    kinds["punctuation"] = vocabulary.punctuation[at] & words
    kinds["rare"] = rare & words & ~vocabulary.punctuation[at]
    return SequenceKeys(tokens, n, words, kinds)


def _is_punctuation(text: str) -> bool:
    return bool(text) and all(unicodedata.category(c)[0] in "PS" for c in text)


def hashed(text: str) -> int:
    """A hash of a text that is the same on every machine."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
