"""The same attention built differently: three layouts of its weights, shared keys, dropout."""

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from explorer.analysis.cell.origin import module_of, site_inputs
from explorer.analysis.cell.steps import attend_as, bias_of
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from explorer.seeding import seeded
from models.hooks import AttentionSite


@dataclass(frozen=True)
class Layout:
    """One way to store W_Q, W_K and W_V: the number of matrices and of parameters.

    `difference` is the largest difference of any q, k or v from the one-matrix layout.
    """

    name: str
    matrices: int
    parameters: int
    difference: float


def layouts(loaded: LoadedModel, traced: Trace, site: AttentionSite) -> tuple[Layout, ...]:
    """One matrix each for Q, K and V; one small module per head; one fused W_qkv: the same results.

    The weights are this site's own, copied into modules of each layout, which then read the site's
    input. In cross-attention the queries read another sequence, so only K and V can be fused.
    """
    module = module_of(loaded, site)
    x, memory = site_inputs(loaded, traced, site)
    inputs = (x, memory, memory)
    linears = (module.w_q, module.w_k, module.w_v)
    with torch.inference_mode():
        one = [linear(read) for linear, read in zip(linears, inputs, strict=True)]
        heads = [_per_head(linear, module.d_head) for linear in linears]
        small = [
            torch.cat([head(read) for head in modules], dim=-1)
            for modules, read in zip(heads, inputs, strict=True)
        ]
        first = 0 if site.kind == "self" else 1
        fused = _fused(linears[first:])
        widths = [linear.out_features for linear in linears[first:]]
        wide = [*one[:first], *fused(memory).split(widths, dim=-1)]
    singles = [module for modules in heads for module in modules]
    unfused = list(linears[:first])
    return (
        Layout("one", 3, _count(linears), 0.0),
        Layout("per_head", len(singles), _count(singles), _apart(small, one)),
        Layout("fused", 1 + first, _count([*unfused, fused]), _apart(wide, one)),
    )


def _per_head(linear: nn.Linear, d_head: int) -> list[nn.Linear]:
    parts = []
    for start in range(0, linear.out_features, d_head):
        head = nn.Linear(linear.in_features, d_head, bias=linear.bias is not None)
        _fill(head, linear.weight[start : start + d_head], linear.bias, start)
        parts.append(head)
    return parts


def _fill(target: nn.Linear, weight: Tensor, bias: Tensor | None, start: int) -> None:
    with torch.no_grad():
        target.weight.copy_(weight)
        if bias is not None:
            target.bias.copy_(bias[start : start + len(weight)])


def _fused(linears: tuple[nn.Linear, ...]) -> nn.Linear:
    weight = torch.cat([linear.weight.detach() for linear in linears])
    biases: list[Tensor] = [linear.bias for linear in linears if linear.bias is not None]
    fused = nn.Linear(weight.shape[1], len(weight), bias=bool(biases))
    _fill(fused, weight, torch.cat(biases) if biases else None, 0)
    return fused


def _count(modules: list[nn.Linear] | tuple[nn.Linear, ...]) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def _apart(one: list[Tensor], other: list[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


@dataclass(frozen=True, eq=False)
class Grouped:
    """A site whose query heads share keys and values in `n_kv_heads` groups.

    `group_of[i]` is the kv head that query head i reads. `cache_bytes` is the KV-cache size per
    token in all layers of this kind of attention, in float32. `moved` is the largest change of any
    weight (0 to 1) if the model's own keys are averaged into that many heads, and `tiled` the same
    if the heads are then repeated in the wrong order (`repeat` instead of `repeat_interleave`).
    Both are None if the model itself has no more kv heads than that.
    """

    n_kv_heads: int
    group_of: tuple[int, ...]
    cache_bytes: int
    moved: float | None
    tiled: float | None


def possible_groups(site: AttentionSite) -> tuple[int, ...]:
    """The numbers of kv heads that divide the heads of a site evenly."""
    return tuple(n for n in range(1, site.n_heads + 1) if site.n_heads % n == 0)


def grouped(traced: Trace, site: AttentionSite, n_kv_heads: int) -> Grouped:
    """What sharing keys and values would change here. Raises ValueError for an uneven number.

    Averaging the heads of a group is the first step of Ainslie et al. 2023 (§2.1) for turning a
    trained model into one with fewer kv heads; they then continue training, which is not done here.
    """
    if n_kv_heads not in possible_groups(site):
        raise ValueError(f"{site.n_heads} heads cannot share {n_kv_heads} kv heads evenly")
    group = site.n_heads // n_kv_heads
    n_layers = sum(each.kind == site.kind and each.stack == site.stack for each in traced.sites)
    q, k, v = (torch.tensor(traced.activations[site.hook(what)])[None] for what in ("q", "k", "v"))
    mask = torch.tensor(traced.mask(site.name))[None]
    found = bias_of(traced, site)
    bias = None if found is None else torch.tensor(found)[None]
    moved = tiled = None
    if k.shape[1] > n_kv_heads:
        shared, values = averaged(k, n_kv_heads), averaged(v, n_kv_heads)
        own = torch.tensor(traced.pattern(site.name))
        _, pattern = attend_as(traced.config)(q, shared, values, mask, bias=bias)
        tile = (1, group, 1, 1)
        repeated = shared.repeat(tile), values.repeat(tile)
        _, wrong = attend_as(traced.config)(q, *repeated, mask, bias=bias)
        moved = float((pattern[0] - own).abs().max())
        tiled = float((wrong[0] - own).abs().max())
    return Grouped(
        n_kv_heads=n_kv_heads,
        group_of=tuple(head // group for head in range(site.n_heads)),
        cache_bytes=2 * n_layers * n_kv_heads * traced.config.d_head * 4,
        moved=moved,
        tiled=tiled,
    )


def averaged(x: Tensor, n_groups: int) -> Tensor:
    """[batch, kv_head, pos, d_head] with `n_groups` heads, each the mean of adjacent ones."""
    batch, n_heads, *rest = x.shape
    return x.reshape(batch, n_groups, n_heads // n_groups, *rest).mean(2)


@dataclass(frozen=True, eq=False)
class Dropped:
    """A row of weights before and after dropout, both [key], and the row sums of the whole head.

    `before` sums to 1; `sums` [query] after dropout do not, only their mean over many draws does.
    """

    before: Float[np.ndarray, " key"] = field(repr=False)
    after: Float[np.ndarray, " key"] = field(repr=False)
    sums: Float[np.ndarray, " query"] = field(repr=False)


def dropped(
    traced: Trace, site: AttentionSite, head: int, query: int, p: float, seed: int = 0
) -> Dropped:
    """The effect of dropout between softmax and values on one row. Raises ValueError for a bad p.

    The values are replaced by one-hot vectors, so that the model's own `attend` returns the weights
    it used.
    """
    if not 0.0 <= p < 1.0:
        raise ValueError(f"p is {p}: dropout must be at least 0 and below 1")
    q, k = (torch.tensor(traced.activations[site.hook(what)])[None] for what in ("q", "k"))
    mask = torch.tensor(traced.mask(site.name))[None]
    found = bias_of(traced, site)
    bias = None if found is None else torch.tensor(found)[None]
    marks = torch.eye(k.shape[2]).expand(1, k.shape[1], -1, -1)
    with seeded(seed):
        z, _ = attend_as(traced.config)(q, k, marks, mask, bias=bias, dropout=p)
    used = z[0, head].numpy()
    return Dropped(traced.pattern(site.name)[head, query], used[query], used.sum(-1))
