"""Glosses of a translator's tokens: the phrase that usually translates each, counted in its pairs.

A token and a phrase of the other language belong together as far as they occur in the same pairs
(Dice 1945, Measures of the Amount of Ecologic Association Between Species). Of a token's phrases,
the one with the highest coefficient is its gloss, if it is in most translations of the token.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from models.tokenizer import Tokenizer
from models.training.data import Pair

FEWEST = 5  # pairs that contain a token or a phrase
LEAST_SHARE, LEAST_DICE = 0.5, 0.2
WORDS, CHARACTERS = 3, 4  # maximum length of a phrase, in English and in Chinese
CREDIT = """\
# Glosses: a token, a phrase of its translation, and the percentage of the training pairs with the
# token whose other side has the phrase (its inflections included). Written by `python -m recipes
# gloss` from sentences of the contributors of Tatoeba (https://tatoeba.org), CC BY 2.0 FR.
"""

Gloss = tuple[str, float]
"""A phrase, and the share of the pairs with its token that contain it."""


def glosses_of(pairs: Sequence[Pair], tokenizer: Tokenizer) -> dict[str, Gloss]:
    """The gloss of each source token that has one; parts of an English word have none."""
    rows = [
        (_words(source, tokenizer), {_folded(phrase): phrase for phrase in _phrases(target)})
        for source, target in pairs
    ]
    n_token = Counter(word for words, _ in rows for word in words)
    n_phrase = Counter(folded for _, phrases in rows for folded in phrases)
    together = Counter(
        (word, folded)
        for words, phrases in rows
        for folded in phrases
        if n_phrase[folded] >= FEWEST
        for word in words
        if n_token[word] >= FEWEST
    )
    best: dict[str, tuple[float, str]] = {}
    for (word, folded), both in together.items():
        dice = 2 * both / (n_token[word] + n_phrase[folded])
        units = folded.count(" ") + 1 if folded.isascii() else len(folded)
        # A part of a word occurs in as many pairs as the word: of both, the word is meant.
        best[word] = max(best.get(word, (LEAST_DICE, "")), (dice * units**0.1, folded))
    usual = Counter(
        (word, phrases[best[word][1]])
        for words, phrases in rows
        for word in words
        if word in best and best[word][1] in phrases
    )
    share = {word: together[word, folded] / n_token[word] for word, (_, folded) in best.items()}
    return {
        word: (phrase, share[word])
        for (word, phrase), _ in reversed(usual.most_common())
        if share[word] >= LEAST_SHARE
    }


def _words(text: str, tokenizer: Tokenizer) -> set[str]:
    """The tokens of a text that are words, in lower case, without single Latin letters."""
    pieces = [tokenizer.bytes_of(token).decode() for token in tokenizer.encode(text)]
    whole = (
        piece.strip()
        for piece, after in zip(pieces, [*pieces[1:], " "], strict=True)
        if not piece.isascii() or (piece[0] == " " and not after[0].isalpha())
    )
    return {word.lower() for word in whole if word.isalpha() and word.encode()[1:]}


def _phrases(text: str) -> Iterator[str]:
    """All sequences of a few words or Chinese characters within a clause."""
    if text.isascii():
        units, most, blank = re.findall(r"[a-z']+", text.lower()), WORDS, " "
        clauses = [[re.sub(r"^i\b", "I", unit) for unit in units]]
    else:
        clauses, most, blank = [list(run) for run in re.findall(r"[㐀-鿿]+", text)], CHARACTERS, ""
    for clause in clauses:
        for size in range(1, most + 1):
            for start in range(len(clause) - size + 1):
                yield blank.join(clause[start : start + size])


def _folded(phrase: str) -> str:
    """A phrase without the usual endings of English words, so that inflections count as one."""
    return re.sub(r"(?<=[a-z]{3})(?:e|e?s|e?d|ing)\b", "", phrase)
