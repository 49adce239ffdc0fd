"""`mask`, and the conversion of masks of any common form to Bool, True = may attend."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from explorer.components.matrices import Panel, pack_matrices
from explorer.components.standalone import Block, Component, Paragraph
from explorer.exports.picture import matrices_svg
from explorer.figures.matrix import MAX_RULES, Matrix
from explorer.notebook import kernels
from explorer.notebook.given import Patterns, as_array, tokens_for
from explorer.notebook.opening import worded
from explorer.notebook.picture import Picture, Table, axes_of_part, cells_table
from explorer.numbers import minus
from explorer.text import family, t

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
    if _looks_inverted(allowed):
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


def _for_queries(
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


def _n_queries(
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


@worded
def mask(
    mask: Any,
    tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    *,
    why: Any = None,
    layer: int = 0,
    head: int = 0,
    title: str | None = None,
    lang: str = "en",
) -> Picture:
    """Your own mask [query, key] as a matrix, queries down and keys across.

    `layer` and `head` select from leading axes. It may be Bool (True = may attend), 0 and 1 of any
    dtype (1 = may attend), or numbers added to the scores (0 = may attend, -inf or a number of
    -5,000 or less that lies apart from the others = blocked). The picture notes how numbers were
    interpreted, and if the mask looks inverted. A padding mask [key] or [1, 1, 1, key] is broadcast
    to the number of `tokens`. `why` [query, key] may give a reason as text for each blocked cell,
    at most six different ones. The masks of a model are an exhibit:
    `show("masks.matrices", model, text)`.
    Raises ValueError for numbers that block nothing, and if shapes and token lists do not match.
    """
    if isinstance(tokens, str):
        raise ValueError("tokens are one string; give a list of tokens")
    name = title or t("notebook.masks", lang=lang)
    allowed, notes = read_mask(mask, lang)
    allowed, more = _for_queries(allowed, _n_queries(allowed, tokens, key_tokens), lang)
    allowed = _chosen(allowed, layer, head)
    if key_tokens is None and allowed.shape[0] == allowed.shape[1]:
        key_tokens = tokens
    part = Patterns(
        name,
        np.zeros((1, 1, *allowed.shape), np.float32),
        tokens_for(tokens, allowed.shape[0], "query"),
        tokens_for(key_tokens, allowed.shape[1], "key"),
        allowed[None, None],
    )
    number, rules = _reasons(allowed, why, family("figures.heatmap", lang=lang)["blocked"])
    rules = [t("components.mask_matrix.open", lang=lang), *rules]
    matrix = Matrix(axes_of_part(part, lang), blocked=number, rules=rules)
    words = family("components.matrices", lang=lang)
    words["hint"] = t("components.seen.hint", lang=lang)
    packed = pack_matrices([Panel(name, matrix, "headlight-mask")], words=words, captioned=False)
    blocks: list[Block] = [*map(Paragraph, notes + more), Component("matrices", packed)]

    def table() -> Table:
        columns = dict(cells_table([part]))
        del columns["layer"], columns["head"], columns["weight"]
        return columns | {"why": np.array(["", *rules[1:]], dtype=object)[number.ravel()]}

    drawn = partial(matrices_svg, [(name, matrix)], title=name)
    return Picture(name, blocks, lang, {name: allowed}, table, drawn, still=drawn)


def _index(name: str, index: int, count: int) -> int:
    if not 0 <= index < count:
        raise ValueError(f"{name} is {index}, but there are {count}; they count from 0")
    return index


def _chosen(array: np.ndarray, layer: int, head: int) -> np.ndarray:
    if not 2 <= array.ndim <= 4 or 0 in array.shape:
        raise ValueError(f"the mask has shape {list(array.shape)}, expected [query, key]")
    for name, index in (("layer", layer), ("head", head))[4 - array.ndim :]:
        array = array[_index(name, index, len(array)) if len(array) > 1 else 0]
    return array


def _reasons(allowed: np.ndarray, why: Any, blocked: str) -> tuple[np.ndarray, list[str]]:
    """For each cell 0 if it is open, else the number of its reason, from 1; and the reasons."""
    if why is None:
        return (~allowed).astype(np.uint8), [blocked]
    reasons = np.asarray(why, dtype=object)
    if reasons.shape != allowed.shape:
        raise ValueError(f"why has shape {reasons.shape}, the mask {allowed.shape}")
    cells = zip(reasons.flat, allowed.flat, strict=True)
    words = ["" if may else str(word or blocked) for word, may in cells]
    rules = [word for word in dict.fromkeys(words) if word]
    if len(rules) > MAX_RULES:
        raise ValueError(f"{len(rules)} different reasons, at most {MAX_RULES} can be told apart")
    number = {word: at for at, word in enumerate(["", *rules])}
    return np.array([number[word] for word in words], np.uint8).reshape(allowed.shape), rules
