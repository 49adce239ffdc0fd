"""Three layouts of the same weights: a matrix per projection, one per head, or one for all."""

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
