"""Preference pairs from a reader's judgements of a model's own continuations.

In texts that a model generated from the beginnings of stories, a reader marked the first sentence
that does not make sense. Of two texts with the same beginning, the one that makes sense for longer
is better (`preference.py` learns from such pairs).
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from models.tokenizer import Tokenizer

JUDGED = Path(__file__).with_name("judged")
ENDING = ".jsonl.gz"
LEAD = 8  # minimum number of tokens by which the better one makes sense for longer


class Preference(NamedTuple):
    """Two continuations of one beginning, as token ids without the start token."""

    given: tuple[int, ...]
    better: tuple[int, ...]
    worse: tuple[int, ...]


@dataclass(frozen=True)
class Judged:
    """A model's continuation of the first `given` tokens of a story, up to the judged sentence."""

    story: int  # index in the training file, from 0 (the text itself is not redistributed)
    given: int
    kept: str  # the sentences that make sense, exactly as they follow the given tokens
    broken: str  # the first sentence that does not make sense; empty if all of them do


def read_judged(name: str) -> list[Judged]:
    """Read judgements by name or file path: one JSON object per line, with the fields of `Judged`.

    A file ending in .gz is decompressed; the shipped ones are (a sixth of the size). Raises
    ValueError if there is no such name or file.
    """
    path = JUDGED / f"{name}{ENDING}"
    if not path.is_file():
        path = Path(name)
    if not path.is_file():
        known = ", ".join(judged_names())
        raise ValueError(f"no judgements {name!r}: it must be a file, or one of {known}")
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return [Judged(**json.loads(line)) for line in content.decode("utf-8").splitlines()]


def judged_names() -> tuple[str, ...]:
    """Names of the judgements that ship with the project."""
    return tuple(sorted(path.name.removesuffix(ENDING) for path in JUDGED.glob(f"*{ENDING}")))


def preferences_of(
    judged: Sequence[Judged], texts: Sequence[str], tokenizer: Tokenizer
) -> list[Preference]:
    """Pairs of continuations of one beginning, one of which makes sense for `LEAD` more tokens.

    The story itself is paired with the continuation that breaks first, so that the model also
    learns from text that it would not generate. The better text ends with its last sentence that
    makes sense, the worse one with the sentence that does not, and the story with the sentence that
    reaches about the same length. Raises ValueError if a judged story, or its given tokens, are not
    in `texts`.
    """
    read: dict[tuple[int, tuple[int, ...]], list[tuple[list[int], list[int]]]] = defaultdict(list)
    for one in judged:
        ids = tokenizer.encode(texts[one.story]) if one.story < len(texts) else []
        if len(ids) < one.given:
            raise ValueError(
                f"{one.given} tokens of story {one.story} were judged with what follows them, but "
                f"this text has {len(texts)} stories, and {len(ids)} tokens there: it must be the "
                "text that was judged"
            )
        given = tuple(ids[: one.given])
        kept = tokenizer.decode(given) + one.kept
        good, whole = tokenizer.encode(kept), tokenizer.encode(kept + one.broken)
        # A cut within a word can change how the whole text is tokenized: skip such cases.
        if tuple(good[: one.given]) == given == tuple(whole[: one.given]):
            read[one.story, given].append((good[one.given :], whole[one.given :]))
    pairs = []
    for (story, start), rows in read.items():
        broken = [(good, whole) for good, whole in rows if len(whole) > len(good)]
        pairs += [
            (start, better, worse)
            for better, _ in rows
            for good, worse in broken
            if len(better) >= len(good) + LEAD
        ]
        if broken:
            first = min(broken, key=lambda row: len(row[0]))[1]
            itself = tokenizer.encode(texts[story])[len(start) :]
            if itself:
                pairs.append((start, _to_sentence_end(itself, len(first), tokenizer), first))
    return [Preference(start, tuple(better), tuple(worse)) for start, better, worse in pairs]


def _to_sentence_end(ids: list[int], least: int, tokenizer: Tokenizer) -> list[int]:
    """The first `least` tokens, extended to the end of the sentence."""
    for n in range(least, len(ids)):
        if tokenizer.decode(ids[:n]).endswith((".", "!", "?", '"')):
            return ids[:n]
    return ids
