"""Positional encodings in numbers: the table, its wavelengths, its waves, its dot products."""

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.positions.changes import stack_module
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from models.foreign.placing import outside
from models.positions import frequencies, sinusoidal_table
from models.rows import Stream


def table(
    n_positions: int, d_model: int, base: float = 10000.0
) -> Float[np.ndarray, "pos d_model"]:
    """The sinusoidal table, as the models use it. Raises ValueError for an odd `d_model`."""
    return sinusoidal_table(n_positions, d_model, base).numpy()


def model_table(
    loaded: LoadedModel, n_positions: int, stream: Stream = "tgt"
) -> Float[np.ndarray, "pos d_model"] | None:
    """The vectors that this model adds to the embeddings of a stream at positions 0, 1, 2, ...

    None for a model that adds nothing or has no such stream. Learned tables end at their last
    position.
    """
    stack = stack_module(loaded, stream)
    if stack is None:
        return None
    if loaded.config.longest is not None:
        n_positions = min(n_positions, loaded.config.longest)
    with torch.inference_mode():
        added = stack.positions.added(torch.arange(n_positions)[None])
    return None if added is None else outside(added[0]).numpy()


def sizes(
    traced: Trace, stream: Stream
) -> tuple[Float[np.ndarray, " pos"], Float[np.ndarray, " pos"]] | None:
    """Norms of the word and position vectors at each place of a stream: |embed|, |added|.

    The embedding is scaled as by the model. None if nothing is added, or without such a stream.
    """
    stack = next((stack for stack in traced.stacks if stack.stream == stream), None)
    if stack is None:
        return None
    embedded = traced.activations.get(stack.hook("embed"))
    added = traced.activations.get(stack.hook("pos_embed"))
    if embedded is None or added is None:
        return None
    return np.linalg.norm(embedded, axis=-1), np.linalg.norm(added, axis=-1)


def wavelengths(d_model: int, base: float = 10000.0) -> Float[np.ndarray, " d_model"]:
    """Positions per full turn of each dimension, 2 pi / theta: a sine and its cosine share one.

    Raises ValueError for an odd `d_model`.
    """
    return np.repeat(2 * np.pi / frequencies(d_model, base).numpy(), 2)


def gram(encoding: Float[np.ndarray, "pos d_model"]) -> Float[np.ndarray, "pos pos"]:
    """The dot product of every pair of positions, in float64."""
    wide = encoding.astype(np.float64)
    return wide @ wide.T


def dot_by_distance(encoding: Float[np.ndarray, "pos d_model"]) -> Float[np.ndarray, " distance"]:
    """The mean dot product of positions 0, 1, 2, ... apart. For sines and cosines all are equal:
    PE(p) . PE(p + n) = sum over pairs cos(n theta)."""
    products = gram(encoding)
    return np.array([np.diagonal(products, apart).mean() for apart in range(len(products))])


def asymmetry(products: Float[np.ndarray, "pos pos"]) -> float:
    """The asymmetric share of a matrix: |M - M^T| / 2 |M|, 0 to 1 (Frobenius)."""
    whole = float(np.linalg.norm(products))
    return float(np.linalg.norm(products - products.T)) / (2 * whole) if whole else 0.0
