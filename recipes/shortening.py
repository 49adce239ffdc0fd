"""Rows of one or two words, so that a translator can translate them on their own.

Such rows are rare in a corpus of sentences, and each has only one kind of punctuation: a model that
saw "Help!" must guess "Help.". So they are repeated with a full stop and with an exclamation mark.
Words before a comma on both sides are used as well: "No, I'm not." contains "No.".
"""

import random
from collections import Counter
from collections.abc import Sequence

from models.training.data import Pair

WORDS, CHARACTERS = 2, 4  # maximum length of a short text, in English and in Chinese
_MARKS = ((".", "。"), ("!", "！"))


def short_rows(pairs: Sequence[Pair], n: int, seed: int) -> list[Pair]:
    """`n` rows of one or two words made from English-Chinese `pairs`, sampled with `seed`.

    Words before a comma are used if at least two pairs agree on their translation. Either language
    may be the source. Raises ValueError if `pairs` contain no short text.
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
    """Both sides up to their first comma, with full stops; None unless both are short."""
    first = []
    for text in (source, target):
        phrase, comma, _ = text.partition("," if text.isascii() else "，")
        if not comma or not _short(phrase):
            return None
        first.append(phrase + ("." if text.isascii() else "。"))
    return first[0], first[1]


def _marked(text: str, marks: Pair) -> str:
    """A text with its final full stop or exclamation mark replaced; a question is unchanged."""
    if text[-1] in ".!":
        return text[:-1] + marks[0]
    if text[-1] in "。！":
        return text[:-1] + marks[1]
    return text
