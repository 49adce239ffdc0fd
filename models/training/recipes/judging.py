"""Which of a model's own continuations a reader prefers.

A reader marked, in texts that a model wrote after the beginnings of stories, the first sentence
that breaks sense. Of two texts with the same beginning, the one that keeps sense longer is the
better one (`models/training/objectives/preference.py` learns from such pairs).
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from models.tokenizer import Tokenizer
from models.training.data import Preference
from models.training.home import data

JUDGED = data("models.training.recipes", "judged")
ENDING = ".jsonl.gz"
LEAD = 8  # tokens: by so many the better one keeps sense longer


@dataclass(frozen=True)
class Judged:
    """What a model wrote after the first `given` tokens of a story, as far as it was judged."""

    story: int  # in the training file, from 0: the text itself is not ours to keep
    given: int
    kept: str  # the sentences that keep sense, exactly as they follow what was given
    broken: str  # the first one that does not; empty where all of them do


def read_judged(name: str) -> list[Judged]:
    """The judgements of that name, or of a file: one JSON object a line, the fields of `Judged`.

    A file ending in .gz is compressed, as those that come with the project are: a sixth of the
    size. Raises ValueError where there are none.
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
    """The judgements that come with the project, by name."""
    return tuple(sorted(path.name.removesuffix(ENDING) for path in JUDGED.glob(f"*{ENDING}")))


def preferences_of(
    judged: Sequence[Judged], texts: Sequence[str], tokenizer: Tokenizer
) -> list[Preference]:
    """Pairs of continuations of one beginning, of which one makes sense clearly longer (`LEAD`).

    The story itself also forms a pair, with the continuation that breaks first: so the model can
    learn what it would never write, not only its own best habits. Each text ends where its
    judgement does: the better one with its last sentence that makes sense, the worse one with the
    sentence that does not, the story with a sentence after about as many tokens. Raises ValueError
    for a judgement of a story, or of more of its tokens, than `texts` has.
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
        # Cut within a word, a text can go on in pieces that its whole is not read in.
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
    """The first `least` of these tokens, and the rest of the sentence that they end in."""
    for n in range(least, len(ids)):
        if tokenizer.decode(ids[:n]).endswith((".", "!", "?", '"')):
            return ids[:n]
    return ids
