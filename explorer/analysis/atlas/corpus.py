"""A file of sentences or pairs, read in shards: what is kept of it does not grow with the file."""

import hashlib
import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from explorer.problems import InputProblem
from explorer.runs.sentences import clean_text
from models.training.data import END_OF_TEXT

LINES = 1024
"""Lines of one shard: what a kill loses at most, a few seconds' work."""
SAMPLE = 4096
"""Lines by which it is decided which words are rare: those with the smallest hashes."""
MOST_BYTES = 1 << 16
"""Of one line; a longer one is passed over without being held in memory."""
MARKS_OF_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Line:
    """One sentence, or a pair; `offset` is where its line begins in the file, in bytes.

    `credit` is what the third column says, for one who quotes it.
    """

    offset: int
    source: str
    target: str = ""
    credit: str = ""


@dataclass(frozen=True)
class Shard:
    """Consecutive lines of the file: its bytes `start` to `end`, and their SHA-256."""

    start: int
    end: int
    digest: str


@dataclass(frozen=True)
class Corpus:
    """A file as it was when it was scanned; `digest` is its SHA-256, `n_lines` counts no blank.

    `sample` are the offsets of the SAMPLE lines with the smallest hashes, smallest first: as good
    as drawn at random, and the same whoever draws.
    """

    path: Path
    digest: str
    n_lines: int
    shards: tuple[Shard, ...]
    sample: tuple[int, ...]


def scan(path: Path) -> Corpus:
    """Read a file once, from beginning to end. Raises InputProblem `file_empty`,
    `file_encoding`; OSError."""
    whole, part = hashlib.sha256(), hashlib.sha256()
    shards: list[Shard] = []
    smallest: list[tuple[int, int]] = []  # a heap of (-hash, -offset): its top is the largest hash
    start = end = n_lines = in_part = 0
    with path.open("rb") as file:
        head = file.read(4096)
        if head.startswith(MARKS_OF_UTF_16) or b"\0" in head:
            raise InputProblem("file_encoding", name=path.name, allowed="UTF-8")
        file.seek(0)
        for offset, pieces in _raw_lines(file):
            line = b""
            for piece in pieces:
                whole.update(piece)
                part.update(piece)
                end += len(piece)
                line = line or piece
            if not line.strip() or line.strip() == END_OF_TEXT.encode():
                continue
            n_lines += 1
            in_part += 1
            hashed = int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "big")
            if len(smallest) < SAMPLE:
                heapq.heappush(smallest, (-hashed, -offset))
            elif -hashed > smallest[0][0]:
                heapq.heapreplace(smallest, (-hashed, -offset))
            if in_part == LINES:
                shards.append(Shard(start, end, part.hexdigest()))
                start, in_part, part = end, 0, hashlib.sha256()
    if in_part:
        shards.append(Shard(start, end, part.hexdigest()))
    if not n_lines:
        raise InputProblem("file_empty", name=path.name)
    sample = tuple(-offset for _, offset in sorted(smallest, reverse=True))
    return Corpus(path, whole.hexdigest(), n_lines, tuple(shards), sample)


@dataclass
class Lines:
    """The lines of a shard that can be read, and how many cannot: no UTF-8, or far too long."""

    read: list[Line]
    too_long: int = 0
    unreadable: int = 0


def lines_of(corpus: Corpus, shard: Shard, reverse: bool = False) -> Lines:
    """The lines of one shard; `reverse`: the second column is the source.

    Raises InputProblem `file_changed` where the file is not what was scanned any more.
    """
    part, found = hashlib.sha256(), Lines([])
    with corpus.path.open("rb") as file:
        file.seek(shard.start)
        for offset, pieces in _raw_lines(file, shard.end):
            line, size = b"", 0
            for piece in pieces:
                part.update(piece)
                line, size = line or piece, size + len(piece)
            if size > MOST_BYTES:
                found.too_long += 1
                continue
            try:
                parsed = parse(
                    offset, line.decode("utf-8-sig" if offset == 0 else "utf-8"), reverse
                )
            except UnicodeDecodeError:
                found.unreadable += 1
                continue
            if parsed is not None:
                found.read.append(parsed)
    if part.hexdigest() != shard.digest:
        raise InputProblem("file_changed", name=corpus.path.name)
    return found


def line_at(path: Path, offset: int, reverse: bool = False) -> Line | None:
    """The line that begins at an offset; None for one that cannot be used."""
    with path.open("rb") as file:
        file.seek(offset)
        raw = file.readline(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        return None
    try:
        return parse(offset, raw.decode("utf-8-sig" if offset == 0 else "utf-8"), reverse)
    except UnicodeDecodeError:
        return None


def parse(offset: int, line: str, reverse: bool = False) -> Line | None:
    """A line's columns, between TABs: the sentence, its translation, whom to credit.

    None for a blank one, one without a source, and the one that separates two stories.
    """
    columns = line.rstrip("\r\n").split("\t")
    source, target, credit = (*columns, "", "")[:3]
    if reverse:
        source, target = target, source
    try:
        source = source if source.isprintable() and source else clean_text(source, MOST_BYTES)
        if target and not target.isprintable():
            target = clean_text(target, MOST_BYTES)
    except InputProblem:  # nothing visible in it
        return None
    source = " ".join(source.split())
    if not source or source == END_OF_TEXT:
        return None
    return Line(offset, source, " ".join(target.split()), credit.strip())


def _raw_lines(file: IO[bytes], end: int | None = None) -> Iterator[tuple[int, Iterator[bytes]]]:
    """(offset, the line in pieces of MOST_BYTES + 1); each line's pieces must be used up."""
    offset = file.tell()
    while end is None or offset < end:
        first = file.readline(MOST_BYTES + 1)
        if not first:
            return

        def pieces(piece: bytes = first) -> Iterator[bytes]:
            yield piece
            while not piece.endswith(b"\n") and (piece := file.readline(MOST_BYTES + 1)):
                yield piece

        yield offset, pieces()
        offset = file.tell()
