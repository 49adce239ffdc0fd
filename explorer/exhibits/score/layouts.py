"""Three layouts of the same weights: a matrix per projection, one per head, or one for all."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from explorer.analysis.score.steps import module_of, site_inputs
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.score.place import is_open
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
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


def layouts(loaded: LoadedModel, trace: Trace, site: AttentionSite) -> tuple[Layout, ...]:
    """One matrix each for Q, K and V; one small module per head; one fused W_qkv: the same results.

    The weights are this site's own, copied into modules of each layout, which then read the site's
    input. In cross-attention the queries read another sequence, so only K and V can be fused.
    """
    module = module_of(loaded, site)
    x, memory = site_inputs(loaded, trace, site)
    inputs, linears = (x, memory, memory), (module.w_q, module.w_k, module.w_v)
    first = 0 if site.kind == "self" else 1
    with torch.inference_mode():
        one = [linear(read) for linear, read in zip(linears, inputs, strict=True)]
        heads = [_parts(linear, module.d_head) for linear in linears]
        small = [
            torch.cat([head(read) for head in modules], dim=-1)
            for modules, read in zip(heads, inputs, strict=True)
        ]
        weight = torch.cat([linear.weight for linear in linears[first:]])
        has_bias = module.w_q.bias is not None
        bias = torch.cat([linear.bias for linear in linears[first:]]) if has_bias else None
        fused = _linear(weight, bias)
        wide = [*one[:first], *fused(memory).split([len(w.weight) for w in linears[first:]], -1)]
    singles = [module for modules in heads for module in modules]
    return (
        Layout("one", 3, _count(linears), 0.0),
        Layout("per_head", len(singles), _count(singles), _apart(small, one)),
        Layout("fused", 1 + first, _count([*linears[:first], fused]), _apart(wide, one)),
    )


def _parts(linear: nn.Linear, height: int) -> list[nn.Linear]:
    """A layer as several, each with `height` of its rows."""
    starts = range(0, linear.out_features, height)
    rows = [slice(start, start + height) for start in starts]
    bias: Tensor | None = linear.bias
    return [_linear(linear.weight[at], None if bias is None else bias[at]) for at in rows]


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    linear = nn.Linear(weight.shape[1], len(weight), bias=bias is not None)
    linear.weight.copy_(weight)
    if bias is not None:
        linear.bias.copy_(bias)
    return linear


def _count(modules: Sequence[nn.Linear]) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def _apart(one: list[Tensor], other: list[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


def show(found: tuple[Layout, ...], view: View) -> b.Blocks:
    """Their sizes, and the differences of their results."""
    yield b.Prose(view.t("score.layouts_lead"))
    names = ("matrices", "parameters", "difference")
    rows = [
        [
            view.t(f"score.layout.{each.name}"),
            str(each.matrices),
            f"{each.parameters:,}",
            f"{each.difference:.1e}" if each.difference else "0",
        ]
        for each in found
    ]
    yield b.Table(["", *(view.t(f"score.{name}") for name in names)], rows)
    largest = max(each.difference for each in found)
    yield b.Sentence("aside", view.t("score.layouts_reading", largest=f"{largest:.1e}"))
    yield b.Code((layouts,), first=True)


EXHIBIT = Exhibit(layouts, show, open=partial(is_open, "layouts"))
