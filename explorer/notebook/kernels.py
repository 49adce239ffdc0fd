"""Recompute the patterns of torch's attention functions and verify them against the results.

A pattern is recomputed from the arguments of a call. Their meaning depends on the version of torch,
the kernel and the class of the mask, so each candidate pattern is multiplied by the values and
compared with the result of the call. If no candidate reproduces it, the call has no pattern.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode_stack,
    _pop_mode,
    _push_mode,
)
from torch.utils._python_dispatch import _disable_current_modes

from explorer.notebook.captured import Attention

BLOCKING = -5e3
"""Numbers up to this, added to a score, may be a mask: -1e4, -inf, the lowest float."""

_LIMITS = {torch.float64: 1e-6, torch.float32: 1e-3}
"""Tolerance for results, relative to the largest number; 4e-2 in half precision."""

_SDPA = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


def active_modes() -> list[TorchFunctionMode]:
    """The function modes of this thread, outermost first."""
    return list(_get_current_function_mode_stack())  # type: ignore[no-untyped-call]


def set_modes(modes: Sequence[TorchFunctionMode]) -> None:
    """Replace the function modes of this thread."""
    for _ in active_modes():
        _pop_mode()  # type: ignore[no-untyped-call]
    for mode in modes:
        _push_mode(mode)  # type: ignore[no-untyped-call]


@contextmanager
def aside() -> Iterator[None]:
    """Compute without gradients and autocast, with all active modes suspended."""
    modes = active_modes()
    set_modes([])
    try:
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.enter_context(_disable_current_modes())
            for device in ("cpu", "cuda"):
                stack.enter_context(torch.autocast(device, enabled=False))
            yield
    finally:
        set_modes(modes)


def opaque(*values: Any) -> bool:
    """Whether the values of any tensor cannot be read: nested, meta, or inside torch.func."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    with torch._C.DisableTorchFunctionSubclass():  # in torch 2.6 a CausalBias refuses these
        return any(wrapped(tensor) or tensor.is_nested or tensor.is_meta for tensor in tensors)


def allowed(mask: Tensor) -> Tensor:
    """A mask, or masked scores, as Bool, True = may attend.

    Minus infinity blocks. So do finite numbers up to `BLOCKING` that lie apart: further below the
    others than those spread, and not much more spread themselves. Sharp scores are no mask.
    """
    mask = mask.detach()
    if mask.dtype == torch.bool:
        return mask
    low = ~(mask > BLOCKING)
    blocked, rest = mask[low & mask.isfinite()].double(), mask[~low & mask.isfinite()].double()
    if blocked.numel() and rest.numel():
        gap = rest.min() - blocked.max()
        if bool(gap <= rest.max() - rest.min()) or bool(gap * 2 < blocked.max() - blocked.min()):
            low = low & ~mask.isfinite()
    return ~low


def fill_of(scores: Tensor, keep: Tensor) -> float | None:
    """The largest score among the hidden cells; None if there are none."""
    hidden = scores.expand(keep.shape)[~keep]
    return float(hidden.max()) if hidden.numel() else None


def same(found: Tensor, result: Tensor, scale: float) -> bool:
    """Whether two results agree up to rounding, with NaN at the same positions."""
    if found.shape != result.shape or not torch.equal(found.isnan(), result.isnan()):
        return False
    apart = (found - result).nan_to_num(nan=0.0)  # inf - inf is NaN
    limit = _LIMITS.get(result.dtype, 4e-2) if result.device.type == "cpu" else 4e-2
    return not apart.numel() or float(apart.abs().max()) <= limit * max(scale, 1e-30)


def largest(tensor: Tensor) -> float:
    """The largest finite magnitude."""
    clean = tensor.detach().abs().nan_to_num(nan=0.0, posinf=0.0)
    return float(clean.max()) if clean.numel() else 0.0


def sums_to_one(tensor: Tensor) -> bool:
    """Whether it is a pattern: no negative weights, and each row sums to 1, or is 0."""
    with torch.no_grad():
        sums = tensor.float().sum(-1)
        rows = ((sums - 1).abs() < 1e-2) | (sums == 0)
        return bool(tensor.numel()) and bool((tensor >= 0).all()) and bool(rows.all())


def softmax_of(scores: Tensor) -> Iterator[Tensor]:
    """Candidate patterns of scores: fully masked queries are 0 in some kernels, NaN in others."""
    pattern, empty = scores.softmax(-1), torch.isneginf(scores).all(-1, keepdim=True)
    yield pattern.masked_fill(empty, 0.0)
    if bool(empty.any()):
        yield pattern


def dot_product(func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> Attention | None:
    """The attention of a call of `F.scaled_dot_product_attention`, with the axes of its arguments;
    None if not reproducible.

    A mask of a custom class is not interpreted: the function is called again with one-hot vectors
    as values. With dropout the result is random, so the arguments are trusted without a check.
    """
    arguments = dict(zip(_SDPA, args, strict=False)) | kwargs
    if opaque(*arguments.values()) or not isinstance(result, Tensor):
        return None
    value, is_plain = (
        _shared(arguments, "value"),
        type(arguments.get("attn_mask")) in (Tensor, type(None)),
    )
    for way in (_by_formula, _with_markers) if is_plain else (_with_markers,):
        for pattern, keep, fill, scores in way(func, arguments):
            z = (pattern.to(value.dtype) @ value).to(result.dtype)
            if arguments.get("dropout_p") or same(z, result, largest(value)):
                return _attention(arguments, pattern, keep, fill, scores)
    return None


Reading = tuple[Tensor, Tensor | None, float | None, Tensor | None]
"""A pattern, its mask, the fill value of the mask, and the masked scores."""


def _wide(tensor: Tensor) -> Tensor:
    """Convert to float32, or float64 if it already is."""
    return tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32))


def _shared(given: Mapping[str, Any], name: str) -> Tensor:
    """Keys or values, repeated for each query head under grouped-query attention."""
    tensor = _wide(given[name])
    if not given.get("enable_gqa"):
        return tensor
    return tensor.repeat_interleave(given["query"].shape[-3] // tensor.shape[-3], dim=-3)


def _by_formula(func: Any, given: Mapping[str, Any]) -> Iterator[Reading]:
    query, key, mask = _wide(given["query"]), _shared(given, "key"), given.get("attn_mask")
    scale = given.get("scale")
    scores = query @ key.transpose(-2, -1)
    scores = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    keep, fill = None, None
    if mask is not None:
        mask = mask.detach()
        keep = allowed(mask).expand(scores.shape)
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, -math.inf)
        else:
            scores, fill = scores + mask, fill_of(mask, keep)
    if given.get("is_causal"):
        causal = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~causal, -math.inf)
        keep = causal.expand(scores.shape) if keep is None else keep & causal
    for pattern in softmax_of(scores):
        yield pattern, keep, fill, scores


def _with_markers(func: Any, given: Mapping[str, Any]) -> Iterator[Reading]:
    def run(query: Tensor) -> Tensor:
        changed = {**given, "query": query, "dropout_p": 0.0}
        return by_markers(lambda value: func(**{**changed, "value": value}), given["value"])

    # With all scores 0, only masked keys have a weight of 0.
    visible = run(torch.zeros_like(given["query"])) > 0
    yield run(given["query"]), None if bool(visible.all()) else visible, None, None


def by_markers(attend: Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
    """The pattern of a function of the values, recovered by passing one-hot vectors as values.

    They have the shape of `value`, on which the choice of a kernel depends.
    """
    n_key, width = value.shape[-2:]
    marks = torch.eye(n_key, n_key + width, dtype=value.dtype, device=value.device)
    parts = [
        attend(marks[:, first : first + width].expand(value.shape).contiguous())
        for first in range(0, n_key, width)
    ]
    return torch.cat(parts, dim=-1)[..., :n_key].as_subclass(Tensor)


def _attention(
    given: Mapping[str, Any],
    pattern: Tensor,
    keep: Tensor | None,
    fill: float | None,
    scores: Tensor | None,
) -> Attention:
    keep = None if keep is None else keep.expand(pattern.shape)
    key = given["key"].detach()
    if given.get("enable_gqa"):
        key = _shared(given, "key").to(key.dtype)
    query, key = (
        tensor.detach().expand(*pattern.shape[:-2], *tensor.shape[-2:])
        for tensor in (given["query"], key)
    )
    return Attention("", pattern, keep, query, key, fill, scores=scores)


def flex(func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> Attention | None:
    """The attention of a call of `flex_attention`; None if it cannot be reproduced.

    The pattern is recovered with one-hot vectors as values, the mask from `block_mask`.
    """
    from torch.nn.attention.flex_attention import create_mask  # this import compiles nothing

    names = ("query", "key", "value", "score_mod", "block_mask", "scale", "kernel_options")
    arguments = dict(zip((*names, "buffers", "mask_buffers"), args, strict=False)) | kwargs
    query, key, value = (arguments[name] for name in names[:3])
    if opaque(query, key, value):
        return None
    pattern = by_markers(lambda v: func(query, key, v, *args[3:], **kwargs)[0], value)
    key, value = (
        tensor.detach()
        .repeat_interleave(query.shape[1] // tensor.shape[1], 1)
        .expand(len(query), -1, -1, -1)
        for tensor in (key, value)
    )
    if not same((pattern @ value).to(result[0].dtype), result[0], largest(value)):
        return None
    mask_mod, buffers = arguments["block_mask"][-1], arguments.get("mask_buffers") or ()

    def may_attend(batch: Tensor, head: Tensor, at: Tensor, to: Tensor) -> Tensor:
        return mask_mod(batch, head, at, to, *buffers)

    batch, n_heads, n_query, n_key = pattern.shape
    device = str(query.device)
    keep = create_mask(may_attend, batch, n_heads, n_query, n_key, device=device)
    return Attention("", pattern, None if bool(keep.all()) else keep, query.detach(), key)


FUNCTIONS: dict[str, Callable[..., Attention | None]] = {
    F.scaled_dot_product_attention.__name__: dot_product,
    "flex_attention": flex,
}
"""By name, since one function exists as several objects: in F and in torch.ops.aten."""
