"""Stories with substituted names, so that a model learns to look up a story's characters.

In a small corpus a name predicts its story. With other names, a story can only be continued by
looking up the names in its context, which is what an induction head does.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

FEWEST = 12  # minimum number of stories with a name, to exclude other capitalised words
_TITLES = {"Mr", "Mrs", "Papa"}
_INSIDE = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+\b")
_WORD = re.compile(r"\b[A-Za-z]+\b")
_HE, _SHE = {"he", "him", "his"}, {"she", "her", "hers"}


def names_of(texts: Sequence[str]) -> list[list[str]]:
    """The names in `texts`, as two lists: names used with "he", and names used with "she".

    A name is a word that is capitalised within sentences in at least `FEWEST` texts. Its pronoun
    must be more than twice as frequent as the other one in the texts where it is the only name.
    """
    inside = Counter(word for text in texts for word in set(_INSIDE.findall(text)))
    small = Counter(word for text in texts for word in set(_WORD.findall(text)))
    known = {
        word
        for word, count in inside.items()
        if count >= FEWEST and small[word.lower()] < count / 4 and word not in _TITLES
    }
    pronouns: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for text in texts:
        words = _WORD.findall(text)
        present = known.intersection(words)
        if len(present) == 1:
            counts = pronouns[present.pop()]
            counts[0] += sum(word.lower() in _HE for word in words)
            counts[1] += sum(word.lower() in _SHE for word in words)
    he = sorted(name for name, (his, her) in pronouns.items() if his > 2 * her)
    she = sorted(name for name, (his, her) in pronouns.items() if her > 2 * his)
    return [he, she]


def renamed_texts(texts: Sequence[str], n: int, seed: int) -> list[str]:
    """`n` texts, cycling through `texts` in random order, with every name replaced at random.

    Pronouns still match, and different names stay different. Texts without a name are unchanged.
    Raises ValueError if no names are found.
    """
    draw = random.Random(seed)
    kinds = names_of(texts)
    if not any(kinds):
        raise ValueError(f"no name occurs in at least {FEWEST} of these {len(texts)} texts")
    rows = _shuffled_cycle(texts, draw)
    return [_renamed(next(rows), kinds, draw) for _ in range(n)]


def _shuffled_cycle(texts: Sequence[str], draw: random.Random) -> Iterator[str]:
    while True:
        yield from draw.sample(texts, len(texts))


def _renamed(text: str, kinds: list[list[str]], draw: random.Random) -> str:
    others: dict[str, str] = {}
    words = set(_WORD.findall(text))
    for names in kinds:
        present = [name for name in names if name in words]
        others |= zip(present, draw.sample(names, len(present)), strict=True)
    return _WORD.sub(lambda match: others.get(match[0], match[0]), text)
