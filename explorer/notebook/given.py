"""Convert the user's attention to [layer, head, query, key] float32, with notes on anomalies."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from explorer.numbers import whole_percent
from explorer.text import t

SUM_TOLERANCE = 1e-2
"""Tolerance for row sums without a note: the rounding error of bfloat16."""


@dataclass(frozen=True, eq=False)
class Patterns:
    """`weights` [layer, head, query, key] with query and key tokens, and notes as sentences.

    `mask` [layer, head, query, key] is True for cells that may be attended to; None if nothing is
    blocked. `whys` [layer, head, query, key] is the reason why a cell is blocked, as text.
    """

    title: str
    weights: np.ndarray = field(repr=False)
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    mask: np.ndarray | None = field(default=None, repr=False)
    whys: np.ndarray | None = field(default=None, repr=False)
    query_stream: Any = None
    key_stream: Any = None
    notes: tuple[str, ...] = ()


def as_array(given: Any) -> np.ndarray:
    """Convert a tensor (any device, dtype, with or without gradients), array or nested list.

    Raises ValueError for anything other than real numbers of one shape.
    """
    if hasattr(given, "detach"):
        if given.is_meta:
            raise ValueError("the tensor is on the meta device and contains no numbers")
        try:
            given = given.detach().cpu()
            given = given if given.layout == torch.strided else given.to_dense()
            given = given.float() if given.dtype.is_floating_point else given
            return np.asarray(given.as_subclass(torch.Tensor).numpy())
        except (RuntimeError, TypeError) as error:  # subclass without storage
            raise ValueError(f"a {type(given).__name__} cannot be read: {error}") from None
    if isinstance(given, list | tuple) and any(hasattr(part, "detach") for part in given):
        given = [as_array(part) for part in given]
    try:
        array = np.asarray(given)
        if np.iscomplexobj(array):
            raise TypeError("they are complex numbers")
        return array if array.dtype == np.bool_ else array.astype(np.float32)
    except (ValueError, TypeError) as error:
        raise ValueError(f"expected numbers of one shape: {error}") from None


def layers_of(given: Any, batch: int, lang: str) -> tuple[np.ndarray, list[str]]:
    """Convert an array, or one array per layer, to [layer, head, query, key], and return notes.

    A list has one [head, query, key], or one [batch, head, query, key], per layer, like the
    `attentions` of Hugging Face models. An array is [layer, head, query, key], with a batch
    [layer, batch, head, query, key], or omits leading axes. Raises ValueError for another shape or
    for masks, IndexError if `batch` is out of range.
    """
    notes = []
    if isinstance(given, list | tuple) and given and np.ndim(as_array(given[0])) >= 3:
        parts = [as_array(part) for part in given]
        if len(shapes := {part.shape for part in parts}) > 1:
            raise ValueError(
                "layers differ in shape: " + ", ".join(str(list(shape)) for shape in sorted(shapes))
            )
        array = np.stack(parts)
    else:
        array = as_array(given)
    if array.dtype == np.bool_:
        raise ValueError("these are masks, not weights: use mask(…)")
    if not 2 <= array.ndim <= 5:
        raise ValueError(
            f"attention has shape {list(array.shape)}, expected [layer, head, query, key]"
        )
    if array.ndim == 5:
        n = array.shape[1]
        if not 0 <= batch < n:
            raise IndexError(f"batch is {batch}, but there are {n} sequences")
        if n > 1:
            notes.append(t("notebook.batch", lang=lang, index=batch + 1, count=n))
        array = array[:, batch]
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    if 0 in array.shape:
        raise ValueError(f"there is no attention in shape {list(array.shape)}")
    return array.astype(np.float32), notes


def checked(weights: np.ndarray, lang: str) -> tuple[np.ndarray, list[str]]:
    """Weights that can be drawn, and notes on anomalies. Raises ValueError for scores."""
    notes = []
    broken = ~np.isfinite(weights)
    if broken.any():
        notes.append(t("notebook.nan", lang=lang, count=int(broken.any(-1).sum())))
        weights = np.where(broken, 0, weights)
    low, high = float(weights.min()), float(weights.max())
    if low < -1e-6 or high > 1 + SUM_TOLERANCE:
        raise ValueError(
            f"weights run from {low:.4g} to {high:.4g}, expected 0 to 1; "
            "scores need a softmax first"
        )
    sums = weights.sum(-1)
    odd = (np.abs(sums - 1) > SUM_TOLERANCE) & ~broken.any(-1)
    if odd.any():
        notes.append(
            t(
                "notebook.sums",
                lang=lang,
                count=int(odd.sum()),
                total=sums.size,
                low=whole_percent(float(sums[odd].min())),
                high=whole_percent(float(sums[odd].max())),
            )
        )
    return np.clip(weights, 0, 1), notes


def tokens_for(given: Sequence[str] | None, length: int, axis: str) -> tuple[str, ...]:
    """Tokens of an axis, or by default numbers from 1.

    Raises ValueError for a string or a list of another length.
    """
    if given is None:
        return tuple(str(index + 1) for index in range(length))
    if isinstance(given, str):
        raise ValueError(f"{axis} tokens are one string; give a list of {length} tokens")
    if len(given) != length:
        raise ValueError(f"{len(given)} {axis} tokens, but the attention has {length} of them")
    return tuple(str(token) for token in given)
