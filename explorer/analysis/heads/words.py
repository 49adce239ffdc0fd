"""Attention between whole words: tokens of one word summed as keys, averaged as queries."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from explorer.labels import BLANK, CONTINUED, NUMBERS


@dataclass(frozen=True)
class Words:
    """The words of a token sequence: their `labels`, and the token at which each `starts`."""

    labels: tuple[str, ...]
    starts: tuple[int, ...]

    def of(self, token: int) -> int:
        """The word that contains a token."""
        return int(np.searchsorted(self.starts, token, side="right")) - 1


def words_of(str_tokens: Sequence[str]) -> Words:
    """Tokens joined to words: a token whose label begins with "·" continues a word.

    So does a token that shares a character with the previous one; the character is then shown
    whole. A blank that is a token of its own belongs to the following word. A special token is
    always a word of its own.
    """
    labels: list[str] = []
    starts: list[int] = []
    open_word = False
    for index, token in enumerate(str_tokens):
        special = bool(getattr(token, "special", False))
        if open_word and getattr(token, "within", False):
            whole, _, _ = labels[-1].rpartition(token[0])  # drop its subscript
            labels[-1] = whole + token[0] + token[1:].lstrip(NUMBERS)
            continue
        if open_word and not special and token.startswith(CONTINUED) and token != CONTINUED:
            labels[-1] += token.removeprefix(CONTINUED)
            continue
        if open_word and not special and labels[-1] == BLANK:
            labels[-1] = token
            continue
        labels.append(token)
        starts.append(index)
        open_word = not special
    return Words(tuple(labels), tuple(starts))


def by_word(
    patterns: Float[np.ndarray, "*heads query key"], queries: Words, keys: Words
) -> Float[np.ndarray, "*heads query_word key_word"]:
    """Weights from words to words. A row sums to the mean of its tokens' row sums.

    Summed over keys, since attention to a word is attention to any of its tokens; averaged over
    queries, since each of them has a full distribution (Clark et al. 2019, section 4.1).
    """
    of_keys = np.add.reduceat(patterns, keys.starts, axis=-1)
    total = np.add.reduceat(of_keys, queries.starts, axis=-2)
    sizes = np.diff((*queries.starts, of_keys.shape[-2]))
    return (total / sizes[:, None]).astype(of_keys.dtype)


def mask_by_word(
    mask: Bool[np.ndarray, "*heads query key"], queries: Words, keys: Words
) -> Bool[np.ndarray, "*heads query_word key_word"]:
    """True where some token of the query's word may attend to some token of the key's."""
    of_keys = np.logical_or.reduceat(mask, keys.starts, axis=-1)
    return np.logical_or.reduceat(of_keys, queries.starts, axis=-2)


def cells_by_word(
    cells: tuple[np.ndarray, np.ndarray], words: tuple[Words, Words]
) -> tuple[np.ndarray, np.ndarray]:
    """Weights and mask [..., query, key] by word instead of by token."""
    weights, mask = cells
    return by_word(weights, *words), mask_by_word(mask, *words)
