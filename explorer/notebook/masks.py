"""Convert masks of any common form to Bool, True = may attend, with notes on the conversion."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.attention.bias import CausalBias, CausalVariant

from explorer.notebook.given import as_array
from explorer.notebook.kernels import BLOCKING
from explorer.numbers import minus
from explorer.text import t

EXPECTED = (
    "expected Bool with True = may attend, 0 and 1 with 1 = may attend, or numbers added to the "
    "scores with 0 = may attend and -inf = blocked"
)


def read_mask(given: Any, lang: str) -> tuple[np.ndarray, list[str]]:
    """A mask as Bool, True = may attend, in its own shape, and notes on how it was interpreted.

    Only the values decide: Bool; 0 and 1 of any dtype; anything else is an additive mask (also a
    float mask of zeros), where values of -5,000 or less block. torch's mask classes `CausalBias`
    and `BlockMask` are evaluated. Raises ValueError for an empty mask, for values that block
    nothing (weights, for example) and for NaN.
    """
    given = _materialised(given)
    array = as_array(given)
    if not array.size:
        raise ValueError(f"the mask has shape {list(array.shape)} and is empty")
    if array.dtype == np.bool_:
        name, allowed = "True", array
        notes: list[str] = []
    else:
        name = "1"
        allowed, notes = _read_numbers(array, _is_float(given), lang)
    if looks_inverted(allowed):
        notes.append(t("notebook.convention.inverted", lang=lang, value=name))
    return allowed, notes


def _read_numbers(array: np.ndarray, is_float: bool, lang: str) -> tuple[np.ndarray, list[str]]:
    found = set(np.unique(array).tolist())
    if found <= {0.0, 1.0} and not (is_float and found == {0.0}):
        notes = [t("notebook.convention.ones", lang=lang)]
        if is_float:
            notes.append(t("notebook.convention.float_ones", lang=lang))
        return array != 0, notes
    if np.isnan(array).any():
        raise ValueError(f"the mask contains NaN; {EXPECTED}")
    allowed = array > BLOCKING
    if is_float and found == {0.0}:
        return allowed, [t("notebook.convention.zeros", lang=lang)]
    if allowed.all():
        low, high = float(array.min()), float(array.max())
        raise ValueError(
            f"the mask contains numbers from {low:.4g} to {high:.4g}; none blocks; {EXPECTED}"
        )
    fill = float(array[~allowed].max())
    said = "−∞" if np.isneginf(fill) else minus(f"{fill:.4g}")
    notes = [t("notebook.convention.added", lang=lang, fill=said)]
    shown = array[allowed]
    if shown.size and (shown != 0).any():
        ends = {"low": minus(f"{shown.min():.4g}"), "high": minus(f"{shown.max():.4g}")}
        notes.append(t("notebook.convention.biased", lang=lang, **ends))
    return allowed, notes


def _materialised(given: Any) -> Any:
    """Expand torch's rule-based masks to tensors; return anything else unchanged."""
    if isinstance(given, CausalBias):
        offset = 0
        if given.variant == CausalVariant.LOWER_RIGHT:
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


def _is_float(given: Any) -> bool:
    """Whether the values are floats before `as_array` converts them."""
    while isinstance(given, list | tuple) and given and hasattr(given[0], "detach"):
        given = given[0]
    if hasattr(given, "detach"):
        return bool(given.dtype.is_floating_point)
    return np.asarray(given, dtype=getattr(given, "dtype", None)).dtype.kind == "f"


def looks_inverted(allowed: np.ndarray) -> bool:
    """Whether every query with visible keys sees only later ones, [..., query, key]."""
    if allowed.ndim < 2 or allowed.shape[-1] != allowed.shape[-2]:
        return False
    return bool(allowed.any()) and not np.tril(allowed).any()


def for_queries(
    allowed: np.ndarray, n_query: int | None, lang: str
) -> tuple[np.ndarray, list[str]]:
    """Broadcast a padding mask [..., key] or [..., 1, key] to [..., query, key].

    If `n_query` is None (unknown), the query axis keeps length 1.
    """
    rows = allowed[None] if allowed.ndim == 1 else allowed
    if n_query is None or rows.shape[-2] != 1 or n_query == 1:
        return rows, []
    shape = (*rows.shape[:-2], n_query, rows.shape[-1])
    note = t("notebook.convention.rows", lang=lang, count=n_query)
    return np.broadcast_to(rows, shape), [note]


def n_queries(
    allowed: np.ndarray, tokens: Sequence[str] | None, key_tokens: Sequence[str] | None
) -> int | None:
    """The number of queries to broadcast a padding mask to: the number of `tokens`.

    Raises ValueError if the mask may be a batch [batch, key].
    """
    if tokens is None or isinstance(tokens, str):
        return None
    n_key = allowed.shape[-1]
    if (
        allowed.ndim == 2
        and allowed.shape[0] not in (1, len(tokens))
        and n_key == len(key_tokens or tokens)
    ):
        raise ValueError(
            f"the mask has shape {list(allowed.shape)} and there are {len(tokens)} tokens; of a "
            "padding mask [batch, key], give one sequence: mask[0]"
        )
    return len(tokens)
