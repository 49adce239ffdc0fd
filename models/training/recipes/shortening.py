"""Shorter rows out of known pairs, so that a translator knows what one or two words mean alone.

Such rows are few in a corpus of sentences, and each stands there with one end mark: a model that
saw "Help!" once guesses at "Help.". So they are said again, with either mark, and with them the
words that stand before a comma on both sides: "No, I'm not." holds "No.".
"""

import random
from collections import Counter
from collections.abc import Sequence

from models.training.data import Pair

WORDS, CHARACTERS = 2, 4  # the longest that counts as short, in English and in Chinese
_MARKS = ((".", "。"), ("!", "！"))


def short_rows(pairs: Sequence[Pair], n: int, seed: int) -> list[Pair]:
    """`n` rows of a word or two out of English and Chinese `pairs`, drawn by `seed`, some often.

    What stands before a comma counts where two pairs or more agree on it. Either language may be
    the source. Raises ValueError when `pairs` hold nothing so short.
    """
    whole = [pair for pair in pairs if _short(*pair)]
    before = Counter(pair for source, target in pairs if (pair := _before_comma(source, target)))
    known = whole + [pair for pair, count in before.items() if count > 1 for _ in range(count)]
    if not known:
        raise ValueError(f"no pair has {WORDS} words or fewer")
    draw = random.Random(seed)
    rows = []
    for source, target in draw.choices(known, k=n):
        marks = draw.choice(_MARKS)
        rows.append((_marked(source, marks), _marked(target, marks)))
    return rows


def _short(*texts: str) -> bool:
    return all(
        len(text.split()) <= WORDS if text.isascii() else len(text.rstrip("。！？")) <= CHARACTERS
        for text in texts
    )


def _before_comma(source: str, target: str) -> Pair | None:
    """The first phrases of both sides, with full stops, where they are short."""
    first = []
    for text in (source, target):
        phrase, comma, _ = text.partition("," if text.isascii() else "，")
        if not comma or not _short(phrase):
            return None
        first.append(phrase + ("." if text.isascii() else "。"))
    return first[0], first[1]


def _marked(text: str, marks: Pair) -> str:
    """A statement or cry with the mark of its script; a question stays one."""
    if text[-1] in ".!":
        return text[:-1] + marks[0]
    if text[-1] in "。！":
        return text[:-1] + marks[1]
    return text
