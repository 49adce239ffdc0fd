"""Toy tasks whose attention is known: copy (a diagonal), reverse (an anti-diagonal) and sort.

The examples are random letters separated by spaces, so that each letter is one token.
"""

import random
import string
from typing import Literal

Task = Literal["copy", "reverse", "sort"]
MOST_SYMBOLS = len(string.ascii_lowercase)


def solve(task: Task, symbols: tuple[str, ...]) -> tuple[str, ...]:
    """The correct output for the input `symbols`."""
    match task:
        case "copy":
            return symbols
        case "reverse":
            return symbols[::-1]
        case "sort":
            return tuple(sorted(symbols))


def task_pairs(
    task: Task, n: int, lengths: tuple[int, int], n_symbols: int, seed: int
) -> list[tuple[str, str]]:
    """`n` different pairs (question, answer) of `lengths[0]` to `lengths[1]` letters.

    The letters are the first `n_symbols` of the alphabet and may repeat. Raises ValueError if `n`
    is more than half the number of possible questions.
    """
    possible = sum(n_symbols**length for length in range(lengths[0], lengths[1] + 1))
    if n > possible // 2:
        raise ValueError(f"{n} different questions are too many: only {possible} exist")
    draw = random.Random(f"{task}/{seed}")
    pairs: dict[str, str] = {}
    while len(pairs) < n:
        length = draw.randint(*lengths)
        symbols = tuple(draw.choice(string.ascii_lowercase[:n_symbols]) for _ in range(length))
        pairs[" ".join(symbols)] = " ".join(solve(task, symbols))
    return list(pairs.items())
