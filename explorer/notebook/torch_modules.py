"""Attention of torch's own modules: calls of `F.multi_head_attention_forward`, and what modules
return."""

import math
from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from explorer.notebook.captured import Attention
from explorer.notebook.kernels import allowed, largest, opaque, same, softmax_of, sums_to_one


def multi_head(func: Any, args: Any, kwargs: Any, result: Any) -> Attention | None:
    """The attention of a call; None if no interpretation of its masks reproduces `result`.

    Arguments are [pos, batch, d_model], or [pos, d_model] without a batch. `bias_k`, `static_k` and
    `add_zero_attn` add keys. torch uses True = blocked, `Attention` True = may attend. With dropout
    the result is random, so the first interpretation is used without a check.
    """
    bound = signature(F.multi_head_attention_forward).bind(*args, **kwargs)
    bound.apply_defaults()
    arguments, out = bound.arguments, result[0]
    if opaque(out, *arguments.values()):
        return None
    q, k, v = (head.float() if head.dtype != torch.float64 else head for head in _heads(arguments))
    random = arguments["training"] and arguments["dropout_p"] > 0
    for added, keep in _masks(arguments, q, k):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores if added is None else scores + added
        for pattern in softmax_of(scores):
            product = _joined(pattern @ v, arguments).reshape(out.shape)
            if random or same(product.to(out.dtype), out, max(largest(product), largest(out))):
                return Attention("", pattern, keep, q, k, scores=scores)
    return None


def _heads(given: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """Projected queries, keys and values, [batch, head, pos, d_head]."""
    query, key, value = (given[name].detach() for name in ("query", "key", "value"))
    if query.ndim == 2:
        query, key, value = query[:, None], key[:, None], value[:, None]
    n_heads, batch = given["num_heads"], query.shape[1]
    if given["use_separate_proj_weight"]:
        maps = [given[f"{name}_proj_weight"] for name in ("q", "k", "v")]
    else:
        maps = given["in_proj_weight"].chunk(3)
    biases = given["in_proj_bias"]
    each_bias = (None, None, None) if biases is None else biases.chunk(3)
    projected = [
        F.linear(x.to(w.dtype), w, b)
        for x, w, b in zip((query, key, value), maps, each_bias, strict=True)
    ]
    for at, name in ((1, "bias_k"), (2, "bias_v")):
        if given[name] is not None:
            projected[at] = torch.cat([projected[at], given[name].expand(1, batch, -1)])
    heads = [x.reshape(*x.shape[:2], n_heads, -1).permute(1, 2, 0, 3) for x in projected]
    for at, name in ((1, "static_k"), (2, "static_v")):
        static = given[name]
        if static is not None:
            heads[at] = static.reshape(batch, n_heads, *static.shape[1:])
    if given["add_zero_attn"]:
        heads[1:] = [torch.cat([x, torch.zeros_like(x[:, :, :1])], dim=2) for x in heads[1:]]
    q, k, v = heads
    return q, k, v


def _masks(
    given: Mapping[str, Any], q: Tensor, k: Tensor
) -> Iterator[tuple[Tensor | None, Tensor | None]]:
    """Candidates for the additive mask that torch used, each also as Bool, True = may attend.

    torch uses `is_causal` instead of the mask if there is no padding mask and no weights are
    requested.
    """
    hinted = given["is_causal"] and given["key_padding_mask"] is None
    if hinted and not given["need_weights"]:
        keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
        shape = (q.shape[0], q.shape[1], -1, -1)
        yield (
            torch.zeros_like(keep, dtype=q.dtype).masked_fill(~keep, -math.inf),
            keep.expand(shape),
        )
    yield _merged(given, q, k)


def _merged(given: Mapping[str, Any], q: Tensor, k: Tensor) -> tuple[Tensor | None, Tensor | None]:
    shape = (*q.shape[:3], given["key"].shape[0])
    added = None
    for name in ("attn_mask", "key_padding_mask"):
        mask = given[name]
        if mask is None:
            continue
        if mask.dtype == torch.bool:
            blocked = mask.detach()
            mask = torch.zeros(mask.shape, dtype=q.dtype, device=q.device)
            mask = mask.masked_fill(blocked, -math.inf)
        if name == "key_padding_mask":
            mask = mask.reshape(shape[0], 1, 1, -1)
        elif mask.ndim == 3:
            mask = mask.reshape(-1, shape[1] if mask.shape[0] > 1 else 1, *mask.shape[1:])
        mask = mask.detach().to(q.dtype).expand(shape)
        added = mask if added is None else added + mask
    if added is not None:
        added = F.pad(added, (0, k.shape[2] - shape[3]))
    return added, None if added is None else allowed(added)


def _joined(z: Tensor, given: Mapping[str, Any]) -> Tensor:
    """Concatenate the heads and apply the output projection: [query, batch, d_model]."""
    weight, bias = given["out_proj_weight"], given["out_proj_bias"]
    joined = z.permute(2, 0, 1, 3).flatten(2).to(weight.dtype)
    return F.linear(joined, weight, bias)


FUSED = ("attention", "attn", "_transformer_encoder_layer_fwd")
"""Parts of the names of fused operators, whose pattern is hidden."""


def looks_like_attention(module: nn.Module) -> bool:
    """Whether a module is named like attention, or is compiled or scripted and thus opaque."""
    if isinstance(module, torch.jit.ScriptModule) or type(module).__name__ == "OptimizedModule":
        return True
    name = type(module).__name__.lower()
    return "attention" in name or "attn" in name


def patterns_in(output: Any) -> Iterator[Tensor]:
    """Patterns [batch, head, query, key] among the outputs of a module."""
    if isinstance(output, Mapping):
        parts = list(output.values())
    elif isinstance(output, tuple | list):
        parts = list(output)
    else:
        return
    for part in parts:
        if isinstance(part, Tensor):
            if part.ndim == 4 and part.is_floating_point() and sums_to_one(part):
                yield part
        else:
            yield from patterns_in(part)
