"""Training data: examples of a toy task, sentences with their translations, or own pairs."""

import base64
import csv
import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any

import numpy as np
import tokenizers

from explorer.problems import InputProblem
from explorer.sandbox.apart import Away, ask_once
from explorer.sandbox.bounds import answer_one
from explorer.training import pairs
from explorer.training.setup import LONGEST, N_CTX, Setup, Task, Vocabularies
from models.tokenizer import Tokenizer
from models.training.corpus import task_pairs
from models.training.data import Example, encode_pairs
from models.training.home import asset
from models.training.vocabulary import train_tokenizer

Pair = tuple[str, str]

N_TOY, N_HELD_OUT = 6000, 64
LENGTHS, SYMBOLS = (2, 8), 20
MOST_VOCABULARY = 600
DATA_SEED = 1
"""All runs of a task train and are measured on the same examples, whatever their own seed."""
LONG = 10_000
"""Own pairs with more characters are encoded in a separate process."""
ROOM, SECONDS, PATIENCE = 400_000_000, 30, 60.0
"""Limits of that process: bytes of memory, CPU seconds, and seconds until the app gives up. 5,000
pairs take 2 s, mostly imports."""


@dataclass(frozen=True)
class TaskExamples:
    """The examples of a task as text and as tokens; `held_out` is the validation set.

    `by_heart`: there are too few examples for a validation set, so the training examples are
    measured. `too_long` is the number of pairs with more tokens than the model reads.
    """

    tokenizer: Tokenizer
    rows: tuple[Pair, ...]
    held_out: tuple[Pair, ...]
    examples: tuple[Example, ...]
    valid: tuple[Example, ...]
    by_heart: bool = False
    too_long: int = 0

    @property
    def sizes(self) -> tuple[int, int | None]:
        """The sizes of the vocabulary, and of the source's own, if it has one."""
        source = self.tokenizer.source
        return self.tokenizer.vocab_size, source.vocab_size if source else None

    @property
    def shown(self) -> Pair:
        """The example whose heads are watched: the first validation example of medium length."""
        by_length = sorted(self.held_out, key=lambda pair: len(pair[0]))
        return by_length[len(by_length) * 2 // 3]


def corpus(setup: Setup, away: Away | None = None) -> TaskExamples:
    """The examples of a setup. With `away`, a separate process encodes many own pairs, while other
    sessions compute.

    Raises InputProblem `training_pairs` if fewer than two own pairs can be used, and
    `training_heavy` if they take more than the time or memory of that process.
    """
    text = setup.text if setup.task == "own" else ""
    is_apart = away is not None and len(text) > LONG
    with away() if away is not None and is_apart else nullcontext():
        outcome = _outcome(setup.task, text, setup.vocabularies, is_apart)
    if isinstance(outcome, InputProblem):
        raise InputProblem(outcome.key, **outcome.values)
    return outcome


@lru_cache(maxsize=8)
def _outcome(
    task: Task, text: str, vocabularies: Vocabularies, is_apart: bool
) -> TaskExamples | InputProblem:
    """The examples, or why they are refused: both are stored."""
    try:
        return _corpus(task, text, vocabularies, is_apart)
    except InputProblem as problem:
        return problem


def _corpus(task: Task, text: str, vocabularies: Vocabularies, is_apart: bool) -> TaskExamples:
    rows = own_rows(text) if task == "own" else ROWS[task](task)
    if is_apart:
        tokenizer, encoded = _encoded_apart(text, vocabularies)
    else:
        tokenizer, encoded = _encoded(rows, vocabularies, LONGEST.get(task, N_CTX))
    fitting = [(row, example) for row, example in zip(rows, encoded, strict=True) if example]
    if len(fitting) < pairs.FEWEST:
        raise InputProblem("training_pairs", count=len(fitting), limit=pairs.FEWEST)
    held = min(N_HELD_OUT, len(fitting) // 8)
    by_heart = held < 4
    held_out = fitting[:N_HELD_OUT] if by_heart else fitting[-held:]
    learnt = fitting if by_heart else fitting[:-held]
    return TaskExamples(
        tokenizer,
        tuple(row for row, _ in learnt),
        tuple(row for row, _ in held_out),
        tuple(example for _, example in learnt),
        tuple(example for _, example in held_out),
        by_heart,
        len(rows) - len(fitting),
    )


def _encoded(
    rows: Sequence[Pair], vocabularies: Vocabularies, n_ctx: int
) -> tuple[Tokenizer, list[Example | None]]:
    """A tokenizer trained on pairs, and the tokens of each, None if it has more than `n_ctx`."""
    # A character seen only once would be unknown, so all examples are given twice.
    sources, targets = (list(side) * 2 for side in zip(*rows, strict=True))
    apart = vocabularies == "apart"
    tokenizer = train_tokenizer(targets if apart else sources + targets, MOST_VOCABULARY)
    if apart:
        tokenizer.reading(train_tokenizer(sources, MOST_VOCABULARY))
    return tokenizer, [next(iter(encode_pairs([row], tokenizer, n_ctx)), None) for row in rows]


def _encoded_apart(text: str, vocabularies: Vocabularies) -> tuple[Tokenizer, list[Example | None]]:
    """The same for own pairs, by a process that runs this module under the limits of `bounds`."""
    answer = ask_once("training.tasks", {"text": text, "vocabularies": vocabularies}, PATIENCE)
    if answer is None:
        raise InputProblem("training_heavy")
    tokenizer, *source = (Tokenizer(tokenizers.Tokenizer.from_str(j)) for j in answer["tokenizers"])
    for own in source:
        tokenizer.reading(own)
    tokens, ends = (np.frombuffer(base64.b64decode(answer[n]), np.uint32) for n in ("ids", "ends"))
    sides = [tuple(side.tolist()) for side in np.split(tokens, ends[:-1])]
    return tokenizer, [
        Example(*pair) if pair[1] else None for pair in zip(sides[::2], sides[1::2], strict=True)
    ]


def answered(text: str, vocabularies: Vocabularies) -> dict[str, Any]:
    """The trained tokenizers as JSON, the target's first; the tokens of all pairs in one array, and
    where each side ends, as base64."""
    tokenizer, examples = _encoded(own_rows(text), vocabularies, LONGEST["own"])
    own = [] if tokenizer.source is None else [tokenizer.source]
    sides = [side for example in examples for side in example or ((), ())]
    arrays = {"ids": [*chain(*sides)], "ends": [*accumulate(map(len, sides))]}
    packed = {
        name: base64.b64encode(np.array(array, np.uint32).tobytes()).decode()
        for name, array in arrays.items()
    }
    return {"tokenizers": [each.to_json() for each in (tokenizer, *own)], **packed}


def own_rows(text: str) -> list[Pair]:
    """Own pairs in random order. Raises InputProblem `training_pairs` for fewer than two."""
    rows = list(pairs.read(text).rows)
    if len(rows) < pairs.FEWEST:
        raise InputProblem("training_pairs", count=len(rows), limit=pairs.FEWEST)
    random.Random(DATA_SEED).shuffle(rows)
    return rows


def letters(task: Task) -> list[Pair]:
    """Letter sequences for copy, reverse and sort (`models.training.corpus`)."""
    return task_pairs(task, N_TOY, LENGTHS, SYMBOLS, DATA_SEED)  # type: ignore[arg-type]


def sums(task: Task = "add") -> list[Pair]:
    """Two numbers of up to three digits and their sum, digit by digit: "3 7 + 8" gives "4 5"."""
    draw = random.Random(f"{task}/{DATA_SEED}")
    examples: dict[Pair, None] = {}
    while len(examples) < N_TOY:
        one, other = (draw.randrange(10 ** draw.randint(1, 3)) for _ in range(2))
        examples[f"{' '.join(str(one))} + {' '.join(str(other))}", " ".join(str(one + other))] = (
            None
        )
    return list(examples)


BRACKETS = {"(": ")", "[": "]", "{": "}"}


def brackets(task: Task = "brackets") -> list[Pair]:
    """Brackets, some of them closed, and the closing of those left open: "( [ ] {" gives "} )"."""
    draw = random.Random(f"{task}/{DATA_SEED}")
    examples: dict[Pair, None] = {}
    while len(examples) < N_TOY // 2:
        text: list[str] = []
        opened: list[str] = []
        for _ in range(draw.randint(3, 9)):
            if opened and draw.random() < 0.4:
                text.append(BRACKETS[opened.pop()])
            else:
                opened.append(draw.choice(list(BRACKETS)))
                text.append(opened[-1])
        if opened:
            examples[
                " ".join(text), " ".join(BRACKETS[bracket] for bracket in reversed(opened))
            ] = None
    return list(examples)


def sentences(task: Task = "sentences") -> list[Pair]:
    """Short English sentences and their Chinese translations, written for this project."""
    with asset("pairs", "en-zh.tsv").open(encoding="utf-8", newline="") as file:
        rows = [(row[0], row[1]) for row in csv.reader(file, delimiter="\t") if row]
    random.Random(DATA_SEED).shuffle(rows)
    return rows


ROWS: dict[str, Callable[[Task], list[Pair]]] = {
    "copy": letters,
    "reverse": letters,
    "sort": letters,
    "add": sums,
    "brackets": brackets,
    "sentences": sentences,
}


if __name__ == "__main__":
    answer_one(answered, ROOM, SECONDS)
