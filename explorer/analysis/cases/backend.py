"""Three implementations of one attention layer: written out, fused, and torch's own module.

All three read the layer's input with the layer's weights, so their outputs can be compared with the
model's. Each has its own options and defaults, which are tested too.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explorer.analysis.cases.case import Case, Measured, Result, ResultRow
from explorer.analysis.score.scaling import Scaling, divisor_of
from explorer.analysis.score.steps import attend_as, averaged, bias_of, module_of, site_inputs
from explorer.library import LoadedModel
from explorer.runs.passes import seeded
from explorer.runs.rerun import heads_off
from explorer.runs.trace import Trace
from models.attention import Attention, attend, share_heads
from models.hooks import AttentionSite

ENGINES = {"explicit": "score.engine_explicit", "fused": "F.sdpa", "module": "nn.MHA"}
"""What torch names them, or the key of their name."""
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


def backend(
    loaded: LoadedModel,
    trace: Trace,
    site: AttentionSite,
    head: int,
    engine: str = "explicit",
    p: float = 0.5,
    training: bool = False,
) -> Result:
    """Run a layer of a Trace with all three implementations; `engine` is open.

    The values are the largest difference of the output from the model's, over rows without NaN; the
    number of the other rows; the largest difference between two calls with dropout `p`, in eval or
    training mode; the smallest and largest row sum of the head's returned weights, NaN if none are
    returned. Raises ValueError for a p outside [0, 1).
    """
    if not 0.0 <= p < 1.0:
        raise ValueError(f"p is {p}: dropout must be at least 0 and below 1")
    layer = module_of(loaded, site)
    x, memory = (entry[None] for entry in site_inputs(loaded, trace, site))
    q, k, v, mask, bias = _inputs(trace, site)
    module = module_like(layer) if layer.n_heads * layer.d_head == layer.w_q.in_features else None

    def finish(z: Tensor) -> Tensor:
        return F.linear(z.transpose(1, 2).flatten(2), layer.w_o.weight, layer.w_o.bias)[0]

    def explicit_run(dropout: float) -> tuple[Tensor, Tensor | None]:
        p_now = dropout if training else 0.0
        z, pattern = attend_as(trace.config)(q, k, v, mask, bias=bias, dropout=p_now)
        return finish(z), pattern[0]

    def fused_run(dropout: float) -> tuple[Tensor, Tensor | None]:
        return finish(fused(q, k, v, mask, bias, layer.divisor, dropout)), None

    def module_run(dropout: float) -> tuple[Tensor, Tensor | None]:
        assert module is not None
        module.dropout = dropout
        module.train(training)
        additive = ~mask[0] if bias is None else _with_bias(mask, bias)[0]
        out, weights = module(x, memory, memory, attn_mask=additive, average_attn_weights=False)
        return out[0], weights[0]

    runs: dict[str, Callable[[float], tuple[Tensor, Tensor | None]]] = {
        "explicit": explicit_run,
        "fused": fused_run,
        "module": module_run,
    }
    keep, own = mask[0, head], torch.tensor(trace.pattern(site.name)[head])
    rows, shown, nothing = [], {}, (math.nan, math.nan)
    with torch.no_grad(), seeded(0):
        # An ablated head wrote nothing; these implementations support no edits.
        own_z = torch.tensor(trace.activations[site.hook("z")])[None]
        right = explicit_run(0.0)[0] if heads_off(trace, site.name) else finish(own_z)
        for name, run in runs.items():
            if name == "module" and module is None:
                values = (math.nan, 0.0, math.nan, *nothing)
                rows.append(ResultRow(ENGINES[name], values, outcomes=(("unfit", math.nan),)))
                continue
            (out, weights), (first, dropped), second = run(0.0), run(p), run(p)[0]
            told = ~out.isnan().any(-1)
            difference = _apart(out[told], right[told])
            sums = dropped[head][keep.any(-1)].sum(-1) if dropped is not None else torch.zeros(0)
            ends = (float(sums.min()), float(sums.max())) if len(sums) else nothing
            values = (difference, float((~told).sum()), _apart(first[told], second[told]), *ends)
            kind = "differs" if difference >= SAME else "agrees"
            rows.append(ResultRow(ENGINES[name], values, outcomes=((kind, math.nan),)))
            if weights is not None:  # the module's are averaged unless one asks for all
                shown[name] = weights.mean(0) if name == "module" else weights[head]
    numbers = {"d_head": layer.d_head, "usual": trace.config.d_model / layer.n_heads}
    if engine in shown:
        told = ~shown[engine].isnan().any(-1)
        numbers["apart"] = 100 * _apart(shown[engine][told], own[told])
    why = ["unfit"] if module is None else []
    if any(row.values[0] >= SAME for row in rows):
        why += [f"lacks_{feature}" for feature in _lacking(trace, site)]
    if not training and rows[1].values[2] > SAME:
        why.append("drops")
    opened = {"explicit": "shown", "fused": "no_weights", "module": "averages"}[engine]
    return Result(
        verdict="",
        columns=("output_difference", "nan_rows", "two_calls", "lowest_sum", "highest_sum"),
        rows=rows,
        why=tuple(why),
        numbers=numbers,
        ways=(
            Measured(picture=shown.get(engine), site=site.name),
            Measured(picture=own, site=site.name, keep=keep),
        ),
        opened=() if engine == "module" and module is None else (opened,),
        code=(attend, fused, module_like),
    )


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


def options(
    loaded: LoadedModel,
    trace: Trace,
    site: AttentionSite,
    p: float = 0.5,
    scaling: Scaling = "model",
    n_kv_heads: int = 1,
) -> Result:
    """`scale`, `dropout_p`, `enable_gqa` and `is_causal` of the fused function, compared with
    `attend` with the same option, and without it or with the wrong setting; without any cap.

    `scaling` is the divisor tested with `scale`, `n_kv_heads` the number of shared heads tested
    with `enable_gqa` (the layer's own keys and values, averaged if it has more). Raises ValueError
    for head counts that do not divide evenly.
    """
    layer = module_of(loaded, site)
    q, k, v, mask, bias = _inputs(trace, site)
    own, divisor = layer.divisor, divisor_of(scaling, layer.d_head, layer.w_q.in_features)
    attn_mask = _with_bias(mask, bias)
    plain, by_torch = partial(attend, divisor=own), F.scaled_dot_product_attention
    with torch.no_grad(), seeded(0):
        whole_k, whole_v = share_heads(q, k), share_heads(q, v)
        usual, _ = plain(q, k, v, mask, bias=bias)
        rescaled, _ = attend(q, k, v, mask, bias=bias, divisor=divisor)
        scaled = by_torch(q, whole_k, whole_v, attn_mask=attn_mask, scale=1 / divisor)
        dropped = fused(q, k, v, mask, bias, own, p)
        if n_kv_heads < k.shape[1]:
            k, v = (averaged(tensor, n_kv_heads) for tensor in (k, v))
        grouped, _ = plain(q, k, v, mask, bias=bias)
        tile = (1, q.shape[1] // k.shape[1], 1, 1)
        tiled, _ = plain(q, k.repeat(tile), v.repeat(tile), mask, bias=bias)
        shared = by_torch(q, k, v, attn_mask=attn_mask, enable_gqa=True, scale=1 / own)
        causal = torch.ones(mask.shape[-2:], dtype=torch.bool).tril()
        triangle = by_torch(q, whole_k, whole_v, is_causal=True, scale=1 / own)
        top_left, _ = plain(q, whole_k, whole_v, causal)
    pairs = {
        "scale": (_apart(scaled, rescaled), _apart(scaled, usual), f"score.scalings.{scaling}"),
        "dropout_p": (math.nan, _apart(dropped, usual), f"{p:g}"),
        "enable_gqa": (_apart(shared, grouped), _apart(shared, tiled), str(n_kv_heads)),
        "is_causal": (_apart(triangle, top_left), _apart(triangle, usual), ""),
    }
    rows = [ResultRow(f"option_{name}", pair[:2], pair[2]) for name, pair in pairs.items()]
    why = () if trace.config.score_cap is None else ("uncapped",)
    return Result("", ("same_setting", "other_setting"), rows, why=why)


def layouts(loaded: LoadedModel, trace: Trace, site: AttentionSite) -> Result:
    """One matrix each for Q, K and V; one small module per head; one fused W_qkv: the same results.

    The weights are this site's own, cut or joined for each layout, and read the site's input. In
    cross-attention the queries read another sequence, so only K and V can be fused. The values are
    the number of matrices and of parameters, and the largest difference of any q, k or v from the
    first layout.
    """
    module = module_of(loaded, site)
    x, memory = site_inputs(loaded, trace, site)
    linears = (module.w_q, module.w_k, module.w_v)
    # Of each matrix its input, its rows and, if it has any, their biases.
    one = [
        (read, *(tensor for tensor in (linear.weight, linear.bias) if tensor is not None))
        for read, linear in zip((x, memory, memory), linears, strict=True)
    ]
    per_head = [
        (read, *head)
        for read, *tensors in one
        for head in zip(
            *(tensor.reshape(-1, module.d_head, *tensor.shape[1:]) for tensor in tensors),
            strict=True,
        )
    ]
    first = 0 if site.kind == "self" else 1
    wide = [
        torch.cat(tensors) for tensors in zip(*(matrix[1:] for matrix in one[first:]), strict=True)
    ]
    stored = {"one": one, "per_head": per_head, "fused": [*one[:first], (memory, *wide)]}
    rows: list[ResultRow] = []
    with torch.inference_mode():
        outputs = {
            name: torch.cat([F.linear(*matrix).T.flatten() for matrix in matrices])
            for name, matrices in stored.items()
        }
    for name, matrices in stored.items():
        difference = _apart(outputs[name], outputs["one"])
        n_parameters = sum(tensor.numel() for _, *tensors in matrices for tensor in tensors)
        kind = "differs" if difference >= SAME else "agrees"
        values = (float(len(matrices)), float(n_parameters), difference)
        rows.append(ResultRow(f"score.layout.{name}", values, outcomes=((kind, math.nan),)))
    numbers = {"largest": max(row.values[2] for row in rows)}
    columns = ("matrices", "parameters", "difference")
    return Result("", columns, rows, why=("reading",), numbers=numbers)


BACKEND = Case("backend", "backend", backend)
OPTIONS = Case("options", "backend", options)
LAYOUTS = Case("layouts", "backend", layouts)
