"""Learned position vectors: how training changed them, how far it reached, compared with sines.

The initial vectors are rebuilt from the training seed, so they are exactly those that this model
started from, not a similar sample. A position that no training sequence had gets no gradient and
keeps its initial vector.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from explorer.analysis.positions.encoding import dot_by_distance, gram, model_table, table
from explorer.library import LoadedModel, split_step
from explorer.numerics import cosines
from explorer.seeding import seeded
from models.rows import Stream
from models.training.recipe import read_recipe, recipe_names
from models.transformer import build_model

MOVED = 0.001
"""A vector has moved if it changed by more than this share of its norm: storing it in 16 bits
changes each component by a relative 0.0005 at most."""
SAME = 0.9
"""The minimum cosine of at least one vector with its rebuilt initial vector; below it, the rebuilt
vectors belong to another training run."""


@dataclass(frozen=True, eq=False)
class PositionVectors:
    """The position vectors of one stream of a model and sines of the same size, [pos, d_model].

    `before` are the initial vectors of its training, `moved` how far each of them moved, as a
    share of its norm, and `reached` the number of first positions that training covered: all None
    if the initial vectors cannot be rebuilt (no recipe of that name, or another model under it).
    """

    vectors: Float[np.ndarray, "pos d_model"] = field(repr=False)
    sines: Float[np.ndarray, "pos d_model"] = field(repr=False)
    before: Float[np.ndarray, "pos d_model"] | None = field(repr=False)
    moved: Float[np.ndarray, " pos"] | None
    reached: int | None

    @property
    def added(self) -> Float[np.ndarray, "pos d_model"] | None:
        """What training added to each vector; None if the initial vectors are unknown."""
        return None if self.before is None else self.vectors - self.before

    @property
    def computed(self) -> bool:
        """Whether the vectors are the sines, up to the order of their dimensions (Marian)."""
        own, sines = gram(self.vectors), gram(self.sines)
        return own.shape == sines.shape and np.allclose(own, sines, atol=1e-3 * sines.max())

    @property
    def n_trained(self) -> int:
        """The number of positions that training covered; all of them if unknown."""
        return len(self.vectors) if self.reached is None else self.reached


def learned(loaded: LoadedModel, stream: Stream) -> PositionVectors:
    """The position vectors of a stream. Raises ValueError for a model that learned none there."""
    config = loaded.config
    vectors = model_table(loaded, config.n_ctx, stream)
    if config.positions != "learned" or vectors is None:
        raise ValueError(f"{loaded.name} has no learned positions for {stream}")
    sines = table(config.n_ctx, config.width // 2 * 2, config.rope_base)
    before = _beginning(loaded, stream)
    if before is None or float(cosines(vectors, before).max()) < SAME:
        return PositionVectors(vectors, sines, None, None, None)
    went = np.linalg.norm(vectors - before, axis=1) / np.linalg.norm(before, axis=1)
    changed = np.flatnonzero(went > MOVED)
    return PositionVectors(
        vectors, sines, before, went, int(changed[-1]) + 1 if len(changed) else 0
    )


def _beginning(loaded: LoadedModel, stream: Stream) -> Float[np.ndarray, "pos d_model"] | None:
    """The initial vectors of the recipe with this name: the model, built from its seed."""
    base, _ = split_step(loaded.name)
    if base not in recipe_names():
        return None
    recipe = read_recipe(base, [])
    if recipe.data.start:
        return None
    with seeded(recipe.training.seed):
        model = build_model(loaded.config).requires_grad_(False)
    return model_table(replace(loaded, model=model), loaded.config.n_ctx, stream)


def alike_by_distance(encoding: Float[np.ndarray, "pos d_model"]) -> Float[np.ndarray, " distance"]:
    """The mean cosine of two positions by their distance: 1 at distance 0."""
    lengths = np.linalg.norm(encoding, axis=1, keepdims=True)
    return dot_by_distance(encoding / np.maximum(lengths, 1e-12)).mean


def by_chance(n_positions: int, d_model: int) -> float:
    """The similarity of neighbours expected by chance: three standard deviations of a mean cosine.

    The cosine of two random directions has the standard deviation 1 / sqrt(d_model); there are
    n_positions - 1 pairs of neighbours.
    """
    return 3 / (d_model * max(1, n_positions - 1)) ** 0.5
