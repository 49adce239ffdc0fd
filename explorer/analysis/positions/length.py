"""Longer than trained: a model's behaviour at positions that did not occur in training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from jaxtyping import Float

from explorer.analysis.positions.changes import MOST_SHIFT, PositionChange, position_functions
from explorer.library import LoadedModel, split_step
from explorer.runs.rerun import rerun, token_logprobs, written_tokens
from explorer.runs.trace import Trace
from models.decoding import best, decode
from models.hooks import LOGITS, Edits
from models.rows import Stream, padded
from models.strategies import Greedy
from models.training.tasks import Task, task_pairs

SHIFTS = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, MOST_SHIFT)


def shift_losses(
    loaded: LoadedModel, traced: Trace, stream: Stream, shifts: Sequence[int] = SHIFTS
) -> Float[np.ndarray, " shift"]:
    """The mean loss of the written tokens if the sequence began at each of these positions.

    Words, order and length are unchanged. NaN if nothing was written.
    """
    written, losses = written_tokens(traced), []
    for shift in shifts:
        moved = Edits(position_functions(loaded, stream, PositionChange("shift", shift)))
        logits = rerun(loaded, traced, {LOGITS}, moved)[LOGITS][0].numpy()
        losses.append(-token_logprobs(logits, written).mean() if len(written) else np.nan)
    return np.array(losses)


def most_shift(loaded: LoadedModel, n: int) -> int:
    """The largest shift of `n` tokens: learned positions end at n_ctx, others do not."""
    longest = loaded.config.longest
    return MOST_SHIFT if longest is None else max(0, longest - n)


N_ROWS = 30
"""Test sequences per length for a toy model."""


@dataclass(frozen=True)
class Toy:
    """A model's task, and the shortest and longest of its training sequences."""

    task: Task
    shortest: int
    longest: int
    n_symbols: int


def toy_of(name: str) -> Toy | None:
    """The toy task of a shipped model, as its recipe defines it; None for other models.

    A model of a toy task has the task's name.
    """
    base, _ = split_step(name)
    return next((Toy(task, 2, 10, 20) for task in get_args(Task) if task == base), None)


@dataclass(frozen=True, eq=False)
class ByLength:
    """The shares of fully correct sequences and of correct letters, by sequence length."""

    lengths: tuple[int, ...]
    exact: Float[np.ndarray, " length"]
    letters: Float[np.ndarray, " length"]


def by_length(
    loaded: LoadedModel, toy: Toy, lengths: Sequence[int], n_rows: int = N_ROWS, seed: int = 11
) -> ByLength:
    """Let a toy model answer `n_rows` random sequences of each length, greedily.

    `letters` counts letters in the right place. Raises ValueError for lengths with fewer than
    `n_rows` different sequences.
    """
    exact, letters = [], []
    for length in lengths:
        pairs = task_pairs(toy.task, n_rows, (length, length), toy.n_symbols, seed)
        outputs = _answers(loaded, [question for question, _ in pairs], 2 * length + 4)
        right = [answer.split() for _, answer in pairs]
        given = [output.split() for output in outputs]
        exact.append(float(np.mean([a == b for a, b in zip(given, right, strict=True)])))
        hits = [
            sum(x == y for x, y in zip(a, b, strict=False)) / length
            for a, b in zip(given, right, strict=True)
        ]
        letters.append(float(np.mean(hits)))
    return ByLength(tuple(lengths), np.array(exact), np.array(letters))


def _answers(loaded: LoadedModel, questions: Sequence[str], longest: int) -> list[str]:
    """The greedy answers to sequences of equal length in tokens."""
    encode = loaded.tokenizer.of("src").encode
    rows = [loaded.model.with_marks("src", encode(question)) for question in questions]
    src, valid = padded(rows, loaded.marks.of("src").pad)
    outputs = best(decode(loaded.model, src, Greedy(), longest, src_valid=valid))
    return [loaded.tokenizer.decode(output.tokens) for output in outputs]
