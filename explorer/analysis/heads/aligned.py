"""Two tokenizations of one text aligned: the pieces that both consist of."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from explorer.labels import CONTINUED

SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"
"""The subscripts of tokens that share one character (`models.foreign.tokens`): 你₁ 你₂."""


@dataclass(frozen=True)
class Pieces:
    """The shortest stretches of text that begin and end with a token in both sequences, in order.

    `one[i]` and `other[i]` are the tokens of `labels[i]` in each sequence. `whole`: every token of
    both is a piece of its own, so the sequences are equal. `n_one` and `n_other` are their lengths.
    """

    labels: tuple[str, ...]
    one: tuple[tuple[int, ...], ...]
    other: tuple[tuple[int, ...], ...]
    n_one: int
    n_other: int

    @property
    def whole(self) -> bool:
        """Whether nothing was merged or left out."""
        return len(self.labels) == self.n_one == self.n_other

    def across(self, token: int, back: bool = False) -> int | None:
        """The other sequence's first token of the piece with this token; None if it is in no piece.

        `back`: from the other sequence to the first one.
        """
        here, there = (self.other, self.one) if back else (self.one, self.other)
        matches = (there[at][0] for at, tokens in enumerate(here) if token in tokens)
        return next(matches, None)


@dataclass(frozen=True)
class _Letter:
    """One letter of a sequence, or a whole special token; `tokens` are those that contain it."""

    folded: str
    shown: str
    tokens: list[int]


def align(one: Sequence[str], other: Sequence[str]) -> Pieces:
    """Where two tokenizations of a text agree, by the labels of their tokens.

    Letters are compared without case and accents, which some tokenizers drop; special tokens by
    their names. Whitespace tokens and text that is in only one of the sequences are in no piece.
    """
    letters, others = _letters(one), _letters(other)
    texts = [part.folded for part in letters], [part.folded for part in others]
    if texts[0] == texts[1]:
        blocks = [(0, 0, len(letters))]
    else:
        matches = SequenceMatcher(None, *texts, autojunk=False).get_matching_blocks()
        blocks = [(part.a, part.b, part.size) for part in matches]
    labels: list[str] = []
    ours: list[tuple[int, ...]] = []
    theirs: list[tuple[int, ...]] = []
    for i, j, n in blocks:
        cuts = [at for at in range(n + 1) if _cut(letters, i + at) and _cut(others, j + at)]
        for first, last in pairwise(cuts):
            own = letters[i + first : i + last]
            ours.append(_tokens(own))
            theirs.append(_tokens(others[j + first : j + last]))
            # Labels carry more than letters: special tokens, continuation of a word.
            alone = len(ours[-1]) == 1
            labels.append(one[ours[-1][0]] if alone else "".join(part.shown for part in own))
    return Pieces(tuple(labels), tuple(ours), tuple(theirs), len(one), len(other))


def _letters(tokens: Sequence[str]) -> list[_Letter]:
    letters: list[_Letter] = []
    for at, token in enumerate(tokens):
        if getattr(token, "special", False):
            letters.append(_Letter(f"\0{token}", token, [at]))
            continue
        text = token.removeprefix(CONTINUED) if len(token) > 1 else token
        if text in ("␣", "∅"):
            continue
        for index, letter in enumerate(text):
            if letter in SUBSCRIPTS:
                continue
            follows = text[index + 1 : index + 2]
            if index == 0 and letters and follows and SUBSCRIPTS.find(follows) > 1:
                letters[-1].tokens.append(at)  # the rest of a character that was begun before
                continue
            plain = unicodedata.normalize("NFKD", letter).casefold()
            folded = "".join(
                character for character in plain if not unicodedata.combining(character)
            )
            letters.append(_Letter(folded, letter, [at]))
    return letters


def _cut(letters: Sequence[_Letter], at: int) -> bool:
    """Whether no token spans the boundary before letter `at`."""
    if at in (0, len(letters)):
        return True
    return not set(letters[at - 1].tokens) & set(letters[at].tokens)


def _tokens(letters: Sequence[_Letter]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(token for letter in letters for token in letter.tokens))


def gathered(
    patterns: Float[np.ndarray, "*heads query key"],
    queries: Sequence[tuple[int, ...]],
    keys: Sequence[tuple[int, ...]],
) -> Float[np.ndarray, "*heads query_piece key_piece_and_rest"]:
    """Weights between pieces, summed over keys and averaged over queries; the last column is the
    weight on keys that are in no piece."""
    wide = patterns.astype(np.float64)
    rows = np.stack([wide[..., list(piece), :].mean(-2) for piece in queries], axis=-2)
    columns = [rows[..., list(piece)].sum(-1) for piece in keys]
    rest = rows.sum(-1) - np.sum(columns, axis=0)
    return np.stack([*columns, np.maximum(rest, 0.0)], axis=-1)
