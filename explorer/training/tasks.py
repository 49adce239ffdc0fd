"""Training data: examples of a toy task, sentences with their translations, or own pairs."""

import csv
import random
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache

from explorer.problems import InputProblem
from explorer.sandbox.apart import Away
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
"""Number of characters of own pairs from which other sessions compute while they are read."""


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


def corpus(setup: Setup, away: Away = nullcontext) -> TaskExamples:
    """The examples of a setup; other sessions compute inside `away` while many own pairs are read.

    Raises InputProblem `training_pairs` if fewer than two own pairs can be used.
    """
    text = setup.text if setup.task == "own" else ""
    with away() if len(text) > LONG else nullcontext():
        outcome = _outcome(setup.task, text, setup.vocabularies)
    if isinstance(outcome, InputProblem):
        raise InputProblem(outcome.key, **outcome.values)
    return outcome


@lru_cache(maxsize=8)
def _outcome(task: Task, text: str, vocabularies: Vocabularies) -> TaskExamples | InputProblem:
    """The examples, or why they are refused: both are stored."""
    try:
        return _corpus(task, text, vocabularies)
    except InputProblem as problem:
        return problem


def _corpus(task: Task, text: str, vocabularies: Vocabularies) -> TaskExamples:
    rows = own_rows(text) if task == "own" else ROWS[task](task)
    n_ctx = LONGEST.get(task, N_CTX)
    # A character seen only once would be unknown, so all examples are given twice.
    sources, targets = (list(side) * 2 for side in zip(*rows, strict=True))
    apart = vocabularies == "apart"
    tokenizer = train_tokenizer(targets if apart else sources + targets, MOST_VOCABULARY)
    if apart:
        tokenizer.reading(train_tokenizer(sources, MOST_VOCABULARY))
    fitting = [row for row in rows if encode_pairs([row], tokenizer, n_ctx)]
    if len(fitting) < pairs.FEWEST:
        raise InputProblem("training_pairs", count=len(fitting), limit=pairs.FEWEST)
    held = min(N_HELD_OUT, len(fitting) // 8)
    by_heart = held < 4
    held_out = tuple(fitting[:N_HELD_OUT] if by_heart else fitting[-held:])
    learnt = tuple(fitting if by_heart else fitting[:-held])
    return TaskExamples(
        tokenizer,
        learnt,
        held_out,
        tuple(encode_pairs(learnt, tokenizer, n_ctx)),
        tuple(encode_pairs(held_out, tokenizer, n_ctx)),
        by_heart,
        len(rows) - len(fitting),
    )


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
