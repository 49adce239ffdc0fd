"""A file of sentences or pairs, read in shards; memory use does not grow with the file."""

import hashlib
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from explorer.problems import InputProblem
from explorer.runs.sentences import clean_text
from models.training.columns import names_pair
from models.training.data import END_OF_TEXT

LINES = 1024
"""Lines per shard: the most that a killed run loses, a few seconds of work."""
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
class Shard:
    """Consecutive lines of the file: the byte range `start` to `end`, and its SHA-256."""

    start: int
    end: int
    digest: str


@dataclass(frozen=True)
class Corpus:
    """A file as it was when scanned; `digest` is its SHA-256.

    `sample` holds the offsets of the SAMPLE lines with the smallest hashes, smallest first: a
    pseudo-random sample that is the same in every run.
    """

    path: Path
    digest: str
    shards: tuple[Shard, ...]
    sample: tuple[int, ...]


def scan(path: Path) -> Corpus:
    """Read a file once, from beginning to end.

    Raises InputProblem `file_empty` or `file_encoding`; OSError.
    """
    hashes = [hashlib.sha256(), hashlib.sha256()]  # of the whole file, and of the current shard
    shards: list[Shard] = []
    smallest: list[tuple[int, int]] = []  # a heap of (-hash, -offset): its top is the largest hash
    start = end = in_part = 0
    with path.open("rb") as file:
        head = file.read(4096)
        if head.startswith(MARKS_OF_UTF_16) or b"\0" in head:
            raise InputProblem("file_encoding", name=path.name, allowed="UTF-8")
        file.seek(0)
        for offset, line, size in _raw_lines(file, hashes):
            end += size
            if not line.strip() or line.strip() == END_OF_TEXT.encode():
                continue
            in_part += 1
            hashed = int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "big")
            if len(smallest) < SAMPLE:
                heapq.heappush(smallest, (-hashed, -offset))
            elif -hashed > smallest[0][0]:
                heapq.heapreplace(smallest, (-hashed, -offset))
            if in_part == LINES:
                shards.append(Shard(start, end, hashes[1].hexdigest()))
                start, in_part, hashes[1] = end, 0, hashlib.sha256()
    if in_part:
        shards.append(Shard(start, end, hashes[1].hexdigest()))
    if not shards:
        raise InputProblem("file_empty", name=path.name)
    sample = tuple(-offset for _, offset in sorted(smallest, reverse=True))
    return Corpus(path, hashes[0].hexdigest(), tuple(shards), sample)


@dataclass
class Lines:
    """The readable lines of a shard, and the number of unreadable ones (not UTF-8, or too long)."""

    read: list[Line]
    too_long: int = 0
    unreadable: int = 0


def lines_of(corpus: Corpus, shard: Shard, reverse: bool = False) -> Lines:
    """The lines of one shard; with `reverse`, the second column is the source.

    Raises InputProblem `file_changed` if the file has changed since it was scanned.
    """
    part, lines = hashlib.sha256(), Lines([])
    with corpus.path.open("rb") as file:
        file.seek(shard.start)
        for offset, line, size in _raw_lines(file, [part], shard.end):
            if size > MOST_BYTES:
                lines.too_long += 1
                continue
            try:
                parsed = parse(offset, line, reverse)
            except UnicodeDecodeError:
                lines.unreadable += 1
                continue
            if parsed is not None:
                lines.read.append(parsed)
    if part.hexdigest() != shard.digest:
        raise InputProblem("file_changed", name=corpus.path.name)
    return lines


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
    file: IO[bytes], hashes: Sequence["hashlib._Hash"], end: int | None = None
) -> Iterator[tuple[int, bytes, int]]:
    """Yield (offset, first MOST_BYTES + 1 bytes, size) per line; hash all its bytes."""
    offset = file.tell()
    while (end is None or offset < end) and (line := file.readline(MOST_BYTES + 1)):
        piece = line
        while piece:
            for each in hashes:
                each.update(piece)
            piece = b"" if piece.endswith(b"\n") else file.readline(MOST_BYTES + 1)
        start, offset = offset, file.tell()
        yield start, line, offset - start
