"""Rows of a word or two, so that a translator knows what they mean on their own.

Such rows are rare in a corpus of sentences, and each has one kind of punctuation there: a model
that saw "Help!" once has to guess at "Help.". So they are repeated with a full stop and with an
exclamation mark, and so are words before a comma on both sides: "No, I'm not." contains "No.".
"""

import random
from collections import Counter
from collections.abc import Sequence

from models.training.data import Pair

WORDS, CHARACTERS = 2, 4  # the most that counts as short, in English and in Chinese
_MARKS = ((".", "。"), ("!", "！"))


def short_rows(pairs: Sequence[Pair], n: int, seed: int) -> list[Pair]:
    """`n` rows of a word or two made of English and Chinese `pairs`, drawn by `seed`.

    Words before a comma are used where at least two pairs agree on their translation. Either
    language may be the source. Raises ValueError when `pairs` contain nothing so short.
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
    """What both sides say before their first comma, with full stops; None unless both are short."""
    first = []
    for text in (source, target):
        phrase, comma, _ = text.partition("," if text.isascii() else "，")
        if not comma or not _short(phrase):
            return None
        first.append(phrase + ("." if text.isascii() else "。"))
    return first[0], first[1]


def _marked(text: str, marks: Pair) -> str:
    """A text with the full stop or exclamation mark of its script; a question stays one."""
    if text[-1] in ".!":
        return text[:-1] + marks[0]
    if text[-1] in "。！":
        return text[:-1] + marks[1]
    return text
