"""Find the heads that align without hand-drawn links: the heads on which both directions agree.

The reverse model reads the same pairs, forced to generate the source. If a head of one model and a
head of the other link the same words, both have probably found a translation, since the models were
trained separately and see the two sentences with their roles exchanged (Liang, Taskar and Klein
2006, "Alignment by Agreement"; Chen et al. 2020 choose their layer this way).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from explorer.analysis.alignment.links import Links, diagonal, f1, strongest
from explorer.analysis.alignment.reading import SHIFTS, Reading

Heads = Float[np.ndarray, "shift head"]
ROUNDS, SWEEPS = 20, 20
"""Number of alternations between the two directions, and of coordinate sweeps per regression."""
RIDGE = 0.05
"""Ridge penalty: two heads with similar patterns share the weight instead of one taking it all."""


@dataclass(frozen=True, eq=False)
class Aligner:
    """The weights that links are read from, one per head and shift of each model; they sum to 1.

    `reverse` is None if there is no model for the reverse direction.
    """

    forward: Heads
    reverse: Float[np.ndarray, "back_shift back_head"] | None = None


def matrix(reading: Reading, heads: Heads) -> Float[np.ndarray, "tgt_word src_word"]:
    """The weighted mean of a reading's heads; rows may sum to less than 1 (no special tokens)."""
    return np.tensordot(heads, reading.weights, 2)


def links_of(reading: Reading, back: Reading | None, aligner: Aligner) -> tuple[Links, Links]:
    """The links of both directions; the reverse links are empty without a reverse model."""
    forward = strongest(matrix(reading, aligner.forward))
    if back is None or aligner.reverse is None:
        return forward, np.zeros_like(forward)
    return forward, strongest(matrix(back, aligner.reverse), -2)


def agreement(
    readings: Sequence[Reading], backs: Sequence[Reading]
) -> Float[np.ndarray, "shift head back_shift back_head"]:
    """The F1 of links between every head of one model and every head of the other, at both shifts.

    `backs` come from `read_back`. Raises ValueError if there are no pairs.
    """
    if not readings:
        raise ValueError("there are no sentence pairs to compare heads on")
    common, n_own, n_back = 0.0, 0.0, 0.0
    for reading, back in zip(readings, backs, strict=True):
        own = _flat(strongest(reading.weights))
        other = _flat(strongest(back.weights, -2))
        common = common + own @ other.T
        n_own, n_back = n_own + own.sum(1), n_back + other.sum(1)
    total = np.add.outer(n_own, n_back)
    scores = np.divide(2 * common, total, out=np.zeros_like(total), where=total > 0)
    n_heads, n_back_heads = readings[0].weights.shape[1], backs[0].weights.shape[1]
    shape = (len(SHIFTS), n_heads, len(SHIFTS), n_back_heads)
    return np.asarray(scores).reshape(shape)


def along_diagonal(reading: Reading) -> Reading:
    """The baseline for `agreement`: a reading with one head, which attends along the diagonal.

    Heads of trained models often attend roughly so, and agree without having found a translation;
    the best head of a copy with shuffled weights agrees less.
    """
    weights = diagonal(*reading.weights.shape[2:]).astype(np.float32)
    return replace(reading, weights=np.stack([weights[None]] * len(SHIFTS)))


def _flat(links: np.ndarray) -> Float[np.ndarray, "map cell"]:
    return links.reshape(links.shape[0] * links.shape[1], -1).astype(np.float64)


def one_head(shape: tuple[int, ...], shift: int, head: int) -> Heads:
    """All weight on one head at one shift."""
    weights = np.zeros(shape)
    weights[shift, head] = 1.0
    return weights


def best_pair(table: Float[np.ndarray, "shift head back_shift back_head"]) -> Aligner:
    """The two heads, each with its shift, that agree most by `agreement`; the first one on ties."""
    shift, head, back_shift, back_head = np.unravel_index(table.argmax(), table.shape)
    return Aligner(
        one_head(table.shape[:2], int(shift), int(head)),
        one_head(table.shape[2:], int(back_shift), int(back_head)),
    )


def agreed(readings: Sequence[Reading], backs: Sequence[Reading], aligner: Aligner) -> float:
    """The agreement of an aligner's two directions over pairs: the F1 of their links."""
    both = [links_of(reading, back, aligner) for reading, back in zip(readings, backs, strict=True)]
    return f1([forward for forward, _ in both], [reverse for _, reverse in both])


def learn(readings: Sequence[Reading], backs: Sequence[Reading], start: Aligner) -> Aligner:
    """Non-negative weights of all heads that make the mean matrices of both directions most
    similar.

    Each direction in turn is fitted to the other one's matrix, by least squares over all cells
    (alternating regressions find the most correlated combinations: Hotelling 1936). First, each
    word's weights are normalized to sum to 1 and the mean of each sentence is subtracted; otherwise
    even two heads with uniform attention would agree.
    """
    own = _features(readings, axis=-1)
    other = _features(backs, axis=-2)
    assert start.reverse is not None
    weights = [start.forward.ravel().copy(), start.reverse.ravel().copy()]
    for _ in range(ROUNDS):
        weights[0] = _fitted(own, weights[1] @ other, weights[0])
        weights[1] = _fitted(other, weights[0] @ own, weights[1])
    forward, reverse = (weight / max(weight.sum(), 1e-12) for weight in weights)
    return Aligner(forward.reshape(start.forward.shape), reverse.reshape(start.reverse.shape))


def _features(readings: Sequence[Reading], axis: int) -> Float[np.ndarray, "map cell"]:
    parts = []
    for reading in readings:
        total = reading.weights.sum(axis, keepdims=True, dtype=np.float64)
        maps = _flat(reading.weights / np.maximum(total, 1e-9))
        parts.append(maps - maps.mean(1, keepdims=True))
    return np.concatenate(parts, 1)


def _fitted(
    features: Float[np.ndarray, "map cell"],
    wanted: Float[np.ndarray, " cell"],
    start: Float[np.ndarray, " map"],
) -> Float[np.ndarray, " map"]:
    """Non-negative least squares by coordinate descent, scaled so that the fit has norm 1."""
    gram = features @ features.T
    gram += RIDGE * gram.trace() / len(gram) * np.eye(len(gram))
    aim, weights = features @ wanted, start.copy()
    for _ in range(SWEEPS):
        for at in range(len(weights)):
            change = (aim[at] - gram[at] @ weights) / max(gram[at, at], 1e-12)
            weights[at] = max(0.0, weights[at] + change)
    length = float(np.linalg.norm(weights @ features))
    return weights / length if length > 0 else start
