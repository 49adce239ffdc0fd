"""Joining short rows into longer ones, for a corpus without long texts.

A model trained on sentences of ten tokens repeats itself on texts of forty: it has seen neither
those positions nor two statements in a row. Concatenations of unrelated pairs teach both (Kondo et
al. 2021, Sentence Concatenation Approach to Data Augmentation for Neural Machine Translation).
"""

import random
from collections import Counter
from collections.abc import Sequence

from models.training.data import Pair

FEWEST, MOST = 2, 4  # pairs in one longer row


def joined_pairs(pairs: Sequence[Pair], n: int, seed: int) -> list[Pair]:
    """`n` longer pairs, each made of two to four of `pairs`, sampled with `seed`.

    Half of them are sequences of sentences; the others join the pairs as clauses of one sentence,
    if they end with a full stop. Raises ValueError if there are fewer than four pairs.
    """
    if len(pairs) < MOST:
        raise ValueError(f"{len(pairs)} pairs are too few to join: {MOST} are needed")
    draw = random.Random(seed)
    inside = Counter(word for pair in pairs for text in pair for word in text.split()[1:])
    made = []
    for _ in range(n):
        chosen = draw.sample(pairs, draw.randint(FEWEST, MOST))
        clauses = draw.random() < 0.5
        sides = []
        for texts in zip(*chosen, strict=True):
            whole = texts[0]
            for text in texts[1:]:
                whole = _joined(whole, text, clauses, inside)
            sides.append(whole)
        made.append((sides[0], sides[1]))
    return made


def _joined(left: str, right: str, clauses: bool, inside: Counter[str]) -> str:
    """Join two texts. `inside` counts non-initial words, of which only names are capitalised."""
    if clauses and left.endswith("。"):
        return f"{left[:-1]}，{right}"
    if clauses and left.endswith("."):
        first, space, rest = right.partition(" ")
        small = first[:1].lower() + first[1:]
        word = small if inside[small] > inside[first] else first
        return f"{left[:-1]}, and {word}{space}{rest}"
    return left + (" " if left[-1:].isascii() else "") + right
