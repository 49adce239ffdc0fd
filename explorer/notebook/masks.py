"""The conversion of masks of any common form to Bool, True = may attend."""

from typing import Any

import numpy as np
import torch

from explorer.notebook import kernels
from explorer.notebook.given import as_array
from explorer.numbers import minus
from explorer.text import t

EXPECTED = (
    "expected Bool with True = may attend, 0 and 1 with 1 = may attend, or numbers added to the "
    "scores with 0 = may attend and -inf = blocked"
)


def read_mask(values: Any, lang: str) -> tuple[np.ndarray, list[str]]:
    """A mask as Bool, True = may attend, in its own shape, and notes on how it was interpreted.

    Only the values decide: Bool; 0 and 1 of any dtype; anything else is an additive mask (also a
    float mask of zeros), where values of -5,000 or less block if they lie apart from the others.
    torch's mask classes `CausalBias` and `BlockMask` are evaluated. Raises ValueError for an empty
    mask, for values that block nothing (weights, for example) and for NaN.
    """
    values = _materialised(values)
    array = as_array(values)
    if not array.size:
        raise ValueError(f"the mask has shape {list(array.shape)} and is empty")
    if array.dtype == np.bool_:
        name, allowed = "True", array
        notes: list[str] = []
    else:
        name = "1"
        allowed, notes = _read_numbers(array, _is_float(values), lang)
    if array.min() >= 0 and _looks_inverted(allowed):
        notes.append(t("notebook.convention.inverted", lang=lang, value=name))
    return allowed, notes


def _read_numbers(array: np.ndarray, is_float: bool, lang: str) -> tuple[np.ndarray, list[str]]:
    numbers = set(np.unique(array).tolist())
    if numbers <= {0.0, 1.0} and not (is_float and numbers == {0.0}):
        notes = [t("notebook.convention.ones", lang=lang)]
        if is_float:
            notes.append(t("notebook.convention.float_ones", lang=lang))
        return array != 0, notes
    if np.isnan(array).any():
        raise ValueError(f"the mask contains NaN; {EXPECTED}")
    allowed = kernels.allowed(torch.from_numpy(array)).numpy()
    if is_float and numbers == {0.0}:
        return allowed, [t("notebook.convention.zeros", lang=lang)]
    if allowed.all():
        low, high = float(array.min()), float(array.max())
        raise ValueError(
            f"the mask contains numbers from {low:.4g} to {high:.4g}; none blocks; {EXPECTED}"
        )
    fill = float(array[~allowed].max())
    label = "−∞" if np.isneginf(fill) else minus(f"{fill:.4g}")
    # Low numbers that do not lie apart from the others block nothing.
    is_fill = np.array_equal(allowed, array > kernels.BLOCKING)
    above = f"{kernels.BLOCKING:g}" if is_fill else "-inf"
    notes = [t("notebook.convention.added", lang=lang, fill=label, above=above)]
    shown = array[allowed]
    if shown.size and (shown != 0).any():
        ends = {"low": minus(f"{shown.min():.4g}"), "high": minus(f"{shown.max():.4g}")}
        notes.append(t("notebook.convention.biased", lang=lang, **ends))
    return allowed, notes


def _materialised(given: Any) -> Any:
    """Expand torch's rule-based masks to tensors; return anything else unchanged.

    The classes are known by their names: importing them imports torch's compiler, which takes
    seconds.
    """
    if type(given).__name__ == "CausalBias":
        offset = 0
        if given.variant.name == "LOWER_RIGHT":
            offset = given.seq_len_kv - given.seq_len_q
        return torch.ones(given.seq_len_q, given.seq_len_kv, dtype=torch.bool).tril(offset)
    if type(given).__name__ == "BlockMask":
        from torch.nn.attention.flex_attention import (
            create_mask,
        )  # imported already, with the class

        batch, n_heads, n_query, n_key = given.shape
        device = str(given.kv_num_blocks.device)
        return create_mask(given.mask_mod, batch, n_heads, n_query, n_key, device=device)
    return given


def _is_float(values: Any) -> bool:
    """Whether the values are floats before `as_array` converts them."""
    while isinstance(values, list | tuple) and values and hasattr(values[0], "detach"):
        values = values[0]
    if hasattr(values, "detach"):
        return bool(values.dtype.is_floating_point)
    return np.asarray(values, dtype=getattr(values, "dtype", None)).dtype.kind == "f"


def _looks_inverted(allowed: np.ndarray) -> bool:
    """Whether every query with visible keys sees only later ones, [..., query, key]."""
    if allowed.ndim < 2 or allowed.shape[-1] != allowed.shape[-2]:
        return False
    return bool(allowed.any()) and not np.tril(allowed).any()
