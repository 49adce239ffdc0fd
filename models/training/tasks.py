"""Toy tasks whose right attention is known: copy (a diagonal), reverse (an anti-diagonal), sort.

Sequences of random symbols, as examples ready to train on; the symbols' ids follow the special
ids of a config.
"""

import random
from typing import Literal, get_args

from models.config import ModelConfig
from models.training.data import Example

Task = Literal["copy", "reverse", "sort"]
FIRST_SYMBOL = 4  # after pad, start, end and unknown


def solve(task: Task, symbols: tuple[int, ...]) -> tuple[int, ...]:
    """The right output for one input. Raises ValueError for an unknown task."""
    if task == "copy":
        return symbols
    if task == "reverse":
        return symbols[::-1]
    if task == "sort":
        return tuple(sorted(symbols))
    raise ValueError(f"no task {task!r}: there are {', '.join(get_args(Task))}")


def task_examples(
    task: Task, config: ModelConfig, n: int, lengths: tuple[int, int], seed: int
) -> list[Example]:
    """`n` examples with between `lengths[0]` and `lengths[1]` symbols of the config's vocabulary.

    For a decoder-only model the output follows the input in one row. Raises ValueError when the
    vocabulary has no room for two symbols.
    """
    if config.vocab_size < FIRST_SYMBOL + 2:
        raise ValueError(f"vocab_size is {config.vocab_size}: a task needs {FIRST_SYMBOL + 2}")
    draw = random.Random(f"{task}/{seed}")
    examples = []
    for _ in range(n):
        length = draw.randint(*lengths)
        symbols = tuple(draw.randrange(FIRST_SYMBOL, config.vocab_size) for _ in range(length))
        output = solve(task, symbols)
        if config.family == "encoder-decoder":
            examples.append(Example(symbols, output))
        else:
            examples.append(Example((), (*symbols, config.eos_id, *output)))
    return examples
