"""Three implementations of one attention layer: written out, fused, and torch's own module.

All three read the layer's input with the layer's weights, so their outputs can be compared with the
model's.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explorer.analysis.cases.case import Case, Result, ResultRow
from explorer.analysis.score.steps import attend_as, bias_of, module_of, site_inputs
from explorer.library import LoadedModel
from explorer.runs.passes import seeded
from explorer.runs.rerun import heads_off
from explorer.runs.trace import Trace
from models.attention import Attention, share_heads
from models.hooks import AttentionSite

ENGINES = {"explicit": "cases.backend.explicit", "fused": "F.sdpa", "module": "nn.MHA"}
"""What torch names them, or the key of their name."""
DROPOUT = 0.5
SAME = 1e-4
"""Largest output difference at which implementations agree (float32 sums in different order)."""


def fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor,
    bias: Tensor | None,
    divisor: float,
    p: float = 0.0,
) -> Tensor:
    """`F.scaled_dot_product_attention`: z [batch, head, query, d_head], without weights.

    It has no train/eval mode: `dropout_p` applies whenever it is given, in eval mode too. A bias
    and a mask are combined into one additive float tensor. It does not support a cap.
    """
    attn_mask = mask if bias is None else bias.masked_fill(~mask, float("-inf"))
    k, v = share_heads(q, k), share_heads(q, v)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=attn_mask, dropout_p=p, scale=1 / divisor
    )


def module_like(layer: Attention) -> nn.MultiheadAttention:
    """`nn.MultiheadAttention` with the weights of one of our layers; shared heads are repeated.

    It always divides by sqrt(d_head), so another divisor is folded into W_Q. Raises ValueError if
    the heads together are not as wide as their input: the module gives each d_model / n_heads.
    """
    d_model, has_bias = layer.w_q.in_features, layer.w_q.bias is not None
    if layer.n_heads * layer.d_head != d_model:
        raise ValueError(f"{layer.n_heads} heads of {layer.d_head} are no {d_model} features")
    module = nn.MultiheadAttention(
        d_model, layer.n_heads, bias=has_bias, batch_first=True, device="meta"
    ).to_empty(device="cpu")
    group, linears = layer.n_heads // layer.n_kv_heads, (layer.w_q, layer.w_k, layer.w_v)
    module.out_proj.load_state_dict(layer.w_o.state_dict())
    with torch.no_grad():
        for name in ("weight", "bias") if has_bias else ("weight",):
            q, k, v = (getattr(linear, name).unflatten(0, (-1, layer.d_head)) for linear in linears)
            q = q * math.sqrt(layer.d_head) / layer.divisor
            rows = (q, k.repeat_interleave(group, dim=0), v.repeat_interleave(group, dim=0))
            getattr(module, f"in_proj_{name}").copy_(torch.cat(rows).flatten(0, 1))
    return module.eval()


def backend(loaded: LoadedModel, traced: Trace, site: AttentionSite, head: int) -> Result:
    """Run a layer of a Trace with all three implementations, in eval mode.

    The values are the largest difference of the output from the model's, over rows without NaN; the
    number of the other rows; the largest difference between two calls with dropout DROPOUT. The
    module averages its heads unless asked for all: `apart` is how far the mean of the returned
    weights is from the head's own, in percent.
    """
    layer = module_of(loaded, site)
    x, memory = (entry[None] for entry in site_inputs(loaded, traced, site))
    q, k, v, mask, bias = _inputs(traced, site)
    module = module_like(layer) if layer.n_heads * layer.d_head == layer.w_q.in_features else None

    def finish(z: Tensor) -> Tensor:
        return F.linear(z.transpose(1, 2).flatten(2), layer.w_o.weight, layer.w_o.bias)[0]

    def explicit_run(dropout: float) -> Tensor:
        return finish(attend_as(traced.config)(q, k, v, mask, bias=bias)[0])

    def fused_run(dropout: float) -> Tensor:
        return finish(fused(q, k, v, mask, bias, layer.divisor, dropout))

    def module_run(dropout: float) -> Tensor:
        assert module is not None
        module.dropout = dropout
        additive = ~mask[0] if bias is None else _with_bias(mask, bias)[0]
        # With the weights, the module computes a fully masked row as its own code does.
        out, _ = module(x, memory, memory, attn_mask=additive, average_attn_weights=False)
        return out[0]

    runs = {"explicit": explicit_run, "fused": fused_run, "module": module_run}
    rows = []
    with torch.no_grad(), seeded(0):
        # An ablated head wrote nothing; these implementations support no edits.
        own_z = torch.tensor(traced.activations[site.hook("z")])[None]
        right = explicit_run(0.0) if heads_off(traced, site.name) else finish(own_z)
        for name, run in runs.items():
            if name == "module" and module is None:
                values = (math.nan, 0.0, math.nan)
                rows.append(ResultRow(ENGINES[name], values, outcomes=(("unfit", math.nan),)))
                continue
            out, first, second = run(0.0), run(DROPOUT), run(DROPOUT)
            told = ~out.isnan().any(-1)
            difference = _apart(out[told], right[told])
            values = (difference, float((~told).sum()), _apart(first[told], second[told]))
            kind = "differs" if difference >= SAME else "agrees"
            rows.append(ResultRow(ENGINES[name], values, outcomes=((kind, math.nan),)))
    patterns = torch.tensor(traced.pattern(site.name))
    numbers = {
        "d_head": layer.d_head,
        "usual": traced.config.d_model / layer.n_heads,
        "apart": 100 * _apart(patterns.mean(0), patterns[head]),
    }
    why = ["unfit"] if module is None else []
    if any(row.values[0] >= SAME for row in rows):
        why += [f"lacks_{feature}" for feature in _lacking(traced, site)]
    why += ["drops"] if rows[1].values[2] > SAME else []
    why += ["no_weights"] if module is None else ["no_weights", "averages"]
    columns = ("output_difference", "nan_rows", "two_calls")
    return Result("", columns, rows, why=tuple(why), numbers=numbers, code=(fused, module_like))


def _inputs(
    trace: Trace, site: AttentionSite
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """q, k, v, mask and bias of a site, each with a batch axis."""
    q, k, v = (torch.tensor(trace.activations[site.hook(what)])[None] for what in ("q", "k", "v"))
    bias = bias_of(trace, site)
    mask = torch.tensor(trace.mask(site.name))[None]
    return q, k, v, mask, None if bias is None else torch.tensor(bias)[None]


def _with_bias(mask: Tensor, bias: Tensor | None) -> Tensor:
    """The mask that torch's functions get: Bool, or floats that include a bias."""
    return mask if bias is None else bias.masked_fill(~mask, float("-inf"))


def _lacking(trace: Trace, site: AttentionSite) -> list[str]:
    """The features of the layer at a site that torch's module lacks: rotating or normalizing
    queries and keys, capping scores. The fused function, which gets them rotated and normalized,
    lacks the cap too."""
    config = trace.config
    does = {
        "turned": config.position_type.acts == "turns" and site.kind == "self",
        "normed": config.qk_norm,
        "capped": config.score_cap is not None,
    }
    return [name for name, is_needed in does.items() if is_needed]


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max()) if one.numel() else math.nan


BACKEND = Case("backend", "backend", backend)
