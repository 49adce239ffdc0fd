"""Embeddings compared with position vectors before training: which dominates the sum?

A sinusoidal vector has sin^2 + cos^2 = 1 for every pair, so its root mean square is 1 / sqrt(2) at
any width. That of an embedding depends on its initialisation and on whether it is multiplied by
sqrt(d_model) (Vaswani et al. 2017, §3.4): the two belong together.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.positions.sums import Addends
from explorer.runs.trace import Trace
from models.positions import sinusoidal_table
from models.rows import Stream

Drawn = Literal["gpt2", "width", "xavier", "unit"]
DRAWN: tuple[Drawn, ...] = get_args(Drawn)
SEEDS = (0, 1, 2, 3, 4)
SAME = 0.99
"""Cosine above which two vectors count as nearly the same."""
FEW = 3
"""Minimum number of positions at which the two ends of a text are far apart."""
ALIKE = 0.9
"""Mean cosine above which different words count as nearly the same."""


@dataclass(frozen=True)
class VectorSizes:
    """Root mean squares of the components of token and position vectors, and the consequences.

    `drawn` None: the trained model. `same_word` is the mean cosine of one word's sum at the first
    and at the last position of the text: near 1, order is invisible. `same_place` is the mean
    cosine of different words' sums at one position: near 1, words are invisible. NaN if there is
    only one.
    """

    drawn: Drawn | None
    scaled: bool
    n_places: int
    token: float
    position: float
    same_word: float
    same_place: float

    @property
    def verdict(self) -> Literal["drown", "dominate", "both"] | None:
        """Whether positions drown in the words, dominate them, or both remain readable; None for a
        text of one word, or with too few positions for its ends to be far apart.
        """
        if self.n_places < FEW or math.isnan(self.same_word + self.same_place):
            return None
        if self.same_place > ALIKE:
            return "dominate"
        return "drown" if self.same_word > SAME else "both"


def std_of(drawn: Drawn, d_model: int, vocab_size: int) -> float:
    """The standard deviation of a fresh embedding table [vocab_size, d_model]."""
    match drawn:
        case "gpt2":
            return 0.02
        case "width":
            return d_model**-0.5
        case "xavier":
            return math.sqrt(2 / (vocab_size + d_model))
        case "unit":
            return 1.0


def sizes(traced: Trace, stream: Stream, found: Addends) -> tuple[VectorSizes, ...]:
    """The trained model, and every initialisation of its embeddings, unscaled and x sqrt(d_model).

    Only the rows of the text's own words are drawn, normally distributed; the position vectors are
    sinusoidal, one for each position of the text. `found` is what the model itself adds.
    """
    ids = traced.src_tokens if stream == "src" else traced.tgt_tokens
    _, first = np.unique(np.array(ids), return_index=True)
    scaled = traced.config.scale_embeddings
    n_places = len(found.token)
    own = similarities(found.token[first], found.position)
    d_model = found.token.shape[1]
    table = sinusoidal_table(n_places, d_model).numpy()
    return (
        VectorSizes(None, scaled, n_places, *own),
        *(
            VectorSizes(drawn, times, n_places, *_of_seeds(drawn, times, len(first), table, traced))
            for drawn in DRAWN
            for times in (False, True)
        ),
    )


def _of_seeds(
    drawn: Drawn, scaled: bool, n_words: int, table: Float[np.ndarray, "pos d"], traced: Trace
) -> tuple[float, ...]:
    d_model = table.shape[1]
    std = std_of(drawn, d_model, traced.config.vocab_size)
    factor = std * (math.sqrt(d_model) if scaled else 1.0)
    each = []
    for seed in SEEDS:
        generator = torch.Generator().manual_seed(seed)
        words = factor * torch.randn(n_words, d_model, generator=generator).numpy()
        each.append(similarities(words, table))
    return tuple(float(value) for value in np.mean(each, axis=0))


def similarities(
    words: Float[np.ndarray, "word d"], places: Float[np.ndarray, "pos d"]
) -> tuple[float, float, float, float]:
    """`token`, `position`, `same_word`, `same_place` of `VectorSizes`, per word and position."""
    ends = _unit(words + places[0]), _unit(words + places[-1])
    same_word = float((ends[0] * ends[1]).sum(-1).mean()) if len(places) > 1 else math.nan
    at_places = _unit(words[None] + places[:, None])  # [pos, word, d]
    n = len(words)
    cosines = at_places @ at_places.transpose(0, 2, 1)
    others = ~np.eye(n, dtype=bool)
    same_place = float(cosines[:, others].mean()) if n > 1 else math.nan
    return _rms(words), _rms(places), same_word, same_place


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x.astype(np.float64) ** 2)))


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)
