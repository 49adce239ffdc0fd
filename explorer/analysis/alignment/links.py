"""Links between words: reading them from weights, combining both directions, and scoring them.

Links are Bool [tgt_word, src_word]. Each direction gives every word of its own target exactly one
link, to the source word with the most weight. Combining two such sets is symmetrization (Och and
Ney 2003, section 3.2), here by grow-diag-final-and (Koehn et al. 2005, "Edinburgh System
Description").
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

Links = Bool[np.ndarray, "tgt_word src_word"]
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def strongest(
    weights: Float[np.ndarray, "*heads tgt_word src_word"], axis: int = -1
) -> Bool[np.ndarray, "*heads tgt_word src_word"]:
    """Each target word's strongest source word (axis -1), or each source word's target word (-2).

    Ties go to the first one; a word without any weight has no link.
    """
    if 0 in weights.shape[-2:]:
        return np.zeros(weights.shape, bool)
    links = np.zeros(weights.shape, bool)
    most = weights.argmax(axis, keepdims=True)
    np.put_along_axis(links, most, np.take_along_axis(weights, most, axis) > 0, axis)
    return links


def symmetrised(forward: Links, reverse: Links) -> Links:
    """Combine both directions into one set of links, by grow-diag-final-and."""
    return final_and(grow_diag(forward, reverse), forward, reverse)


def grow_diag(forward: Links, reverse: Links) -> Links:
    """Start from the intersection and grow it by adjacent links, diagonals included.

    A link of the union is added if it is adjacent to an existing link and links a word that has no
    link yet, in target order, until nothing can be added.
    """
    links, union = forward & reverse, forward | reverse
    grown = True
    while grown:
        grown = False
        for tgt, src in np.ndindex(*links.shape):
            for near_tgt, near_src in _around(tgt, src, links.shape) if links[tgt, src] else ():
                alone = not links[near_tgt].any() or not links[:, near_src].any()
                if union[near_tgt, near_src] and not links[near_tgt, near_src] and alone:
                    links[near_tgt, near_src] = grown = True
    return links


def _around(tgt: int, src: int, shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    for down, across in NEIGHBOURS:
        if 0 <= tgt + down < shape[0] and 0 <= src + across < shape[1]:
            yield tgt + down, src + across


def final_and(links: Links, forward: Links, reverse: Links) -> Links:
    """Add every link of either direction between two words that both have no link yet."""
    links = links.copy()
    for direction in (forward, reverse):
        for tgt, src in np.argwhere(direction).tolist():
            if not links[tgt].any() and not links[:, src].any():
                links[tgt, src] = True
    return links


def moses(links: Links) -> str:
    """The links in Moses format, `0-0 1-2`: source word, target word (from 0), in source order."""
    return " ".join(f"{src}-{tgt}" for src, tgt in np.argwhere(links.T).tolist())


def f1(links: Sequence[Links], others: Sequence[Links]) -> float:
    """The agreement of two sets of links over sentences, F1: 2 |A & B| / (|A| + |B|), 0 to 1."""
    common = sum(int((a & b).sum()) for a, b in zip(links, others, strict=True))
    total = sum(int(a.sum() + b.sum()) for a, b in zip(links, others, strict=True))
    return 2 * common / total if total else 0.0


@dataclass(frozen=True, eq=False)
class Known:
    """The known links of one pair: `sure` ones, and `possible` ones (including the sure ones)."""

    sure: Links
    possible: Links


@dataclass(frozen=True)
class LinkQuality:
    """Link quality over sentences, each 0 to 1.

    Precision (the share of found links that are possible), recall (the share of sure links that
    were found; NaN if none is sure), and the error rate (Och and Ney 2003, equation 23).
    """

    precision: float
    recall: float
    error: float


def score(guesses: Sequence[Links], known: Sequence[Known]) -> LinkQuality:
    """The scores of found links; the error rate is 1 - (|A & S| + |A & P|) / (|A| + |S|)."""
    pairs = list(zip(guesses, known, strict=True))
    n_found = sum(int(links.sum()) for links in guesses)
    n_sure = sum(int(gold.sure.sum()) for gold in known)
    in_sure = sum(int((links & gold.sure).sum()) for links, gold in pairs)
    in_possible = sum(int((links & gold.possible).sum()) for links, gold in pairs)
    return LinkQuality(
        precision=in_possible / n_found if n_found else 0.0,
        recall=in_sure / n_sure if n_sure else float("nan"),
        error=1 - (in_sure + in_possible) / (n_found + n_sure) if n_found + n_sure else 1.0,
    )


def diagonal(n_tgt: int, n_src: int) -> Links:
    """The diagonal baseline: each target word with the source word at its relative position."""
    links = np.zeros((n_tgt, n_src), bool)
    for tgt in range(n_tgt):
        links[tgt, min(n_src - 1, int((tgt + 0.5) * n_src / n_tgt))] = True
    return links
