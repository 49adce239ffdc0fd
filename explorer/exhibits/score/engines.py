"""Three implementations of one attention layer: written out, fused, and torch's own module.

All three read the layer's input with the layer's weights, so their outputs can be compared with the
model's. Each has its own options and defaults, which are tested too.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from explorer.analysis.score.scaling import Scaling, divisor_of
from explorer.analysis.score.steps import attend_as, bias_of, module_of, site_inputs
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import pick_one, toggle
from explorer.exhibits.score.choices import ENGINES, Engine, ScoreChoices
from explorer.exhibits.score.groups import averaged, possible_groups
from explorer.exhibits.score.place import drop_of, is_open, patterns, pick_dropout
from explorer.exhibits.shared import PartChoices
from explorer.library import LoadedModel
from explorer.numbers import fixed, number, percent
from explorer.runs.rerun import heads_off
from explorer.runs.trace import Trace
from explorer.seeding import seeded
from models.attention import Attention, attend, share_heads
from models.hooks import AttentionSite

Option = Literal["scale", "dropout_p", "enable_gqa", "is_causal"]
Lacking = Literal["turned", "normed", "capped"]
"""What torch's implementations lack: rotating or normalizing queries and keys, capping scores."""
OPTIONS: tuple[Option, ...] = get_args(Option)
SAME = 1e-4
"""Largest output difference at which implementations agree (float32 sums in different order)."""
NAMES: dict[Engine, str] = {"fused": "F.sdpa", "module": "nn.MHA"}
"""Short names of torch's engines, as in the text above."""


@dataclass(frozen=True)
class EngineRun:
    """The result of one implementation for this layer.

    `lacks` lists what the layer does and the implementation cannot; `fits` is False if it cannot
    even hold the layer's matrices, and nothing was run. `difference` is the largest difference of
    its output from the model's, over rows without NaN; `nan_rows` counts the others. `twice` is the
    largest difference between two calls with dropout p in the given mode, eval or train. `row_sums`
    are the smallest and largest row sum of the returned weights, None if it returns none.
    """

    engine: Engine
    difference: float
    nan_rows: int
    twice: float
    row_sums: tuple[float, float] | None
    lacks: tuple[Lacking, ...] = ()
    fits: bool = True


@dataclass(frozen=True)
class OptionRun:
    """An option of the fused function, compared with `attend`.

    `same` is its difference from `attend` with the same option, `other` from `attend` without it or
    with the wrong setting; NaN if not applicable.
    """

    option: Option
    same: float
    other: float


@dataclass(frozen=True, eq=False)
class Engines:
    """The three runs, the options, and the weights that each returns [query, key].

    `own` is this head's pattern, `mean` what `nn.MultiheadAttention` returns by default (None if it
    does not fit the layer), and `apart` the largest difference between the two.
    """

    runs: tuple[EngineRun, ...]
    options: tuple[OptionRun, ...]
    own: Float[np.ndarray, "query key"] = field(repr=False)
    mean: Float[np.ndarray, "query key"] | None = field(repr=False)
    apart: float


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
    given = mask if bias is None else bias.masked_fill(~mask, float("-inf"))
    k, v = share_heads(q, k), share_heads(q, v)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=given, dropout_p=p, scale=1 / divisor)


def module_like(layer: Attention) -> nn.MultiheadAttention:
    """`nn.MultiheadAttention` with the weights of one of our layers; shared heads are repeated.

    It always divides by sqrt(d_head), so another divisor is folded into W_Q. Raises ValueError if
    the heads together are not as wide as their input: the module gives each d_model / n_heads.
    """
    d_model, has_bias = layer.w_q.in_features, layer.w_q.bias is not None
    if layer.n_heads * layer.d_head != d_model:
        raise ValueError(f"{layer.n_heads} heads of {layer.d_head} are no {d_model} features")
    factor = math.sqrt(layer.d_head) / layer.divisor
    module = nn.MultiheadAttention(
        d_model, layer.n_heads, bias=has_bias, batch_first=True, device="meta"
    ).to_empty(device="cpu")
    group = layer.n_heads // layer.n_kv_heads
    linears = (layer.w_q, layer.w_k, layer.w_v)
    with torch.no_grad():
        rows = [linear.weight.reshape(-1, layer.d_head, d_model) for linear in linears]
        rows[1:] = [each.repeat_interleave(group, dim=0) for each in rows[1:]]
        rows[0] = rows[0] * factor
        module.in_proj_weight.copy_(torch.cat([each.flatten(0, 1) for each in rows]))
        module.out_proj.weight.copy_(layer.w_o.weight)
        if has_bias:
            biases = [linear.bias.reshape(-1, layer.d_head) for linear in linears]
            biases[1:] = [each.repeat_interleave(group, dim=0) for each in biases[1:]]
            biases[0] = biases[0] * factor
            module.in_proj_bias.copy_(torch.cat([each.flatten() for each in biases]))
            module.out_proj.bias.copy_(layer.w_o.bias)
    return module.eval()


def engines(
    loaded: LoadedModel,
    trace: Trace,
    site: AttentionSite,
    head: int,
    *,
    p: float = 0.5,
    training: bool = False,
    scaling: Scaling = "model",
    n_kv_heads: int = 1,
) -> Engines:
    """Run a layer of a Trace with all three implementations, dropout `p`, in eval or training mode.

    `scaling` is the divisor tested with `scale`, `n_kv_heads` the number of shared heads tested
    with `enable_gqa` (the layer's own keys and values, averaged if it has more). Raises ValueError
    for a p outside [0, 1) and for head counts that do not divide evenly.
    """
    if not 0.0 <= p < 1.0:
        raise ValueError(f"p is {p}: dropout must be at least 0 and below 1")
    layer = module_of(loaded, site)
    x, memory = (each[None] for each in site_inputs(loaded, trace, site))
    q, k, v = (torch.tensor(trace.activations[site.hook(what)])[None] for what in ("q", "k", "v"))
    mask = torch.tensor(trace.mask(site.name))[None]
    found = bias_of(trace, site)
    bias = None if found is None else torch.tensor(found)[None]
    told = _additive(mask[0], bias)

    def finish(z: Tensor) -> Tensor:
        return F.linear(z.transpose(1, 2).flatten(2), layer.w_o.weight, layer.w_o.bias)[0]

    def explicit_run(dropout: float) -> tuple[Tensor, Tensor]:
        p_now = dropout if training else 0.0
        z, pattern = attend_as(trace.config)(q, k, v, mask, bias=bias, dropout=p_now)
        return finish(z), pattern[0]

    def fused_run(dropout: float) -> tuple[Tensor, None]:
        return finish(fused(q, k, v, mask, bias, layer.divisor, dropout)), None

    fits = layer.n_heads * layer.d_head == layer.w_q.in_features
    module = module_like(layer) if fits else None

    def module_run(dropout: float) -> tuple[Tensor, Tensor]:
        assert module is not None
        module.dropout = dropout
        module.train(training)
        out, weights = module(x, memory, memory, attn_mask=told, average_attn_weights=False)
        return out[0], weights[0]

    with torch.no_grad(), seeded(0):
        # An ablated head wrote nothing; these implementations support no edits.
        edited = heads_off(trace, site.name)
        own_z = torch.tensor(trace.activations[site.hook("z")])[None]
        right = explicit_run(0.0)[0] if edited else finish(own_z)
        runs = []
        for engine, run in zip(ENGINES, (explicit_run, fused_run, module_run), strict=True):
            lacks = _lacks(engine, trace, site)
            if engine == "module" and module is None:
                runs.append(EngineRun(engine, math.nan, 0, math.nan, None, lacks, fits=False))
                continue
            out, (first, weights), second = run(0.0)[0], run(p), run(p)[0]
            lost = out.isnan().any(-1)
            runs.append(
                EngineRun(
                    engine=engine,
                    difference=_apart(out[~lost], right[~lost]),
                    nan_rows=int(lost.sum()),
                    twice=_apart(first[~lost], second[~lost]),
                    row_sums=None if weights is None else _sums(weights[head], mask[0, head]),
                    lacks=lacks,
                )
            )
        mean = None
        if module is not None:
            mean = module.eval()(x, memory, memory, attn_mask=told)[1][0]
        divisor = divisor_of(scaling, layer.d_head, x.shape[-1])
        options = _options(q, k, v, mask, bias, p, (layer.divisor, divisor), n_kv_heads)
    own = torch.tensor(trace.pattern(site.name)[head])
    told_rows = torch.zeros(len(own), dtype=torch.bool) if mean is None else ~mean.isnan().any(-1)
    return Engines(
        runs=tuple(runs),
        options=options,
        own=own.numpy(),
        mean=None if mean is None else mean.numpy(),
        apart=math.nan if mean is None else _apart(mean[told_rows], own[told_rows]),
    )


def _lacks(engine: Engine, trace: Trace, site: AttentionSite) -> tuple[Lacking, ...]:
    """The features of the layer at a site that an implementation lacks."""
    config = trace.config
    does: dict[Lacking, bool] = {
        "turned": config.position_type.acts == "turns" and site.kind == "self",
        "normed": config.qk_norm,
        "capped": config.score_cap is not None,
    }
    # The fused function receives queries and keys that are already rotated and normalized.
    can: dict[Engine, tuple[Lacking, ...]] = {
        "explicit": ("turned", "normed", "capped"),
        "fused": ("turned", "normed"),
        "module": (),
    }
    return tuple(name for name, needed in does.items() if needed and name not in can[engine])


def _additive(mask: Tensor, bias: Tensor | None) -> Tensor:
    """The module's mask [head, query, key]: True = blocked, or floats including a bias."""
    return ~mask if bias is None else bias[0].masked_fill(~mask, float("-inf"))


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max()) if one.numel() else math.nan


def _sums(weights: Tensor, mask: Tensor) -> tuple[float, float]:
    """The smallest and largest row sum over rows that may attend to at least one key."""
    sums = weights[mask.any(-1)].sum(-1)
    return (float(sums.min()), float(sums.max())) if len(sums) else (math.nan, math.nan)


def _options(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor,
    bias: Tensor | None,
    p: float,
    divisors: tuple[float, float],
    n_kv_heads: int,
) -> tuple[OptionRun, ...]:
    """Compare `scale`, `dropout_p`, `enable_gqa` and `is_causal` with `attend`, without any cap.

    `divisors` are the layer's own divisor and the one tested.
    """
    own, divisor = divisors
    given = mask if bias is None else bias.masked_fill(~mask, float("-inf"))
    whole_k, whole_v = share_heads(q, k), share_heads(q, v)
    plain, by_torch = partial(attend, divisor=own), F.scaled_dot_product_attention
    usual, _ = plain(q, k, v, mask, bias=bias)
    rescaled, _ = attend(q, k, v, mask, bias=bias, divisor=divisor)
    scaled = by_torch(q, whole_k, whole_v, attn_mask=given, scale=1 / divisor)
    dropped = fused(q, k, v, mask, bias, own, p)
    few = n_kv_heads < k.shape[1]
    k, v = (averaged(each, n_kv_heads) if few else each for each in (k, v))
    grouped, _ = plain(q, k, v, mask, bias=bias)
    tile = (1, q.shape[1] // k.shape[1], 1, 1)
    tiled, _ = plain(q, k.repeat(tile), v.repeat(tile), mask, bias=bias)
    shared = by_torch(q, k, v, attn_mask=given, enable_gqa=True, scale=1 / own)
    causal = torch.ones(mask.shape[-2:], dtype=torch.bool).tril()
    triangle = by_torch(q, whole_k, whole_v, is_causal=True, scale=1 / own)
    return (
        OptionRun("scale", _apart(scaled, rescaled), _apart(scaled, usual)),
        OptionRun("dropout_p", math.nan, _apart(dropped, usual)),
        OptionRun("enable_gqa", _apart(shared, grouped), _apart(shared, tiled)),
        OptionRun(
            "is_causal",
            _apart(triangle, plain(q, whole_k, whole_v, causal)[0]),
            _apart(triangle, usual),
        ),
    )


def show(found: Engines, view: View) -> b.Blocks:
    """The switch, dropout and mode, the three runs, the returned weights, and the options."""
    yield b.Prose(view.t("score.engines_lead"))
    choices = view.choices(ScoreChoices)
    chosen = choices.engine
    engine = pick_one(view, "score.engine", ENGINES, chosen, said=partial(_name, view))
    mode = toggle(view, "score.training", choices.training)
    yield b.Row((engine, pick_dropout(view, "score.engine_drop", 220), mode))
    yield _runs(view, found, chosen)
    yield b.Sentence("aside", _reading(view, found))
    yield from _weights(view, found, chosen)
    yield from _option_rows(view, found)
    yield b.Code((attend, fused, module_like), first=True)


def _name(view: View, name: Engine) -> str:
    return NAMES.get(name) or view.t("score.engine_explicit")


def _other_scale(view: View) -> Scaling:
    """The scaling tried with `scale`: the one chosen for the aside on scaling, else the first one
    that is not the model's own."""
    config, chosen = view.loaded.config, view.choices(ScoreChoices).scaling
    tried: tuple[Scaling, ...] = (chosen, "model", "none")
    own = config.divisor
    return next(e for e in tried if divisor_of(e, config.d_head, config.d_model) != own)


def _shared(view: View) -> int:
    """The number of key/value heads tried with `enable_gqa`: two, or the number chosen
    elsewhere."""
    offered = possible_groups(view.site)
    own = view.loaded.config.kv_heads
    chosen = view.choices(PartChoices).kv_heads
    if chosen in offered and chosen <= own:
        return chosen
    return min(own, 2) if 2 in offered else own


def _runs(view: View, found: Engines, chosen: Engine) -> b.Table:
    choices = view.choices(ScoreChoices)
    mode = view.t("score.mode_train" if choices.training else "score.mode_eval")
    head = [
        "",
        view.t("score.engine_difference"),
        view.t("score.engine_twice", p=fixed(choices.drop / 100), mode=mode),
        view.t("score.engine_sums"),
    ]
    rows = []
    for run in found.runs:
        name = _name(view, run.engine)
        sums = view.t("score.engine_none") if run.fits else "–"
        if run.row_sums is not None:
            sums = " … ".join(fixed(each) for each in run.row_sums)
        difference = number(run.difference) if run.fits else view.t("score.engine_unfit")
        if run.nan_rows:
            difference += " · " + view.t("score.engine_nan", count=run.nan_rows)
        cells = [f"**{name}**" if run.engine == chosen else name, difference]
        rows.append([*cells, number(run.twice) if run.fits else "–", sums])
    return b.Table(head, rows)


def _reading(view: View, found: Engines) -> str:
    """Whether the implementations agree, and which dropout is active in which mode."""
    choices = view.choices(ScoreChoices)
    explicit, by_torch, module = found.runs
    differences = [run.difference for run in found.runs if not math.isnan(run.difference)]
    worst = max(differences, default=0.0)
    words = " ".join(_unlike(view, run) for run in (by_torch, module) if _tells(run))
    if words:
        words += " " + view.t("score.engines_rest", worst=number(explicit.difference))
    else:
        key = "agree" if worst < SAME else "differ"
        said = number(worst) if worst < SAME else fixed(worst)
        words = view.t(f"score.engines_{key}", worst=said)
    if choices.drop and not choices.training:
        acts = "on" if by_torch.twice > SAME else "off"
        words += " " + view.t(f"score.engines_{acts}", twice=fixed(by_torch.twice))
    return words


def _tells(run: EngineRun) -> bool:
    """Whether an engine visibly deviates from the layer for this sentence."""
    return not run.fits or bool(run.lacks and run.difference >= SAME)


def _unlike(view: View, run: EngineRun) -> str:
    """The reason why an engine's output differs."""
    if not run.fits:
        config = view.loaded.config
        usual = config.d_model / config.n_heads
        return view.t("score.engines_unfit", usual=f"{usual:g}", d_head=config.d_head)
    why = view.t("heads.and").join(view.t(f"score.engines_lack_{name}") for name in run.lacks)
    return view.t(f"score.engines_{run.engine}", why=why, worst=fixed(run.difference))


def _weights(view: View, found: Engines, chosen: Engine) -> b.Blocks:
    """The weights that an engine returns: this head's, none, or the mean of all heads."""
    if chosen == "fused":
        yield b.Hint(view.t("score.engine_no_weights"), "visibility_off")
        return
    shown = [(view.t("score.engine_own", head=view.head + 1), found.own)]
    if chosen == "module" and found.mean is not None:
        title = view.t("score.engine_mean", heads=view.site.n_heads)
        shown.append((title, found.mean))
    yield patterns(view, "engine_weights", shown)
    if chosen == "module" and found.mean is not None:
        yield b.Prose(view.t("score.engine_averages", apart=percent(found.apart)))


def _option_rows(view: View, found: Engines) -> b.Blocks:
    """The effect of the fused function's options, compared with explicit attention."""
    yield b.Title(view.t("score.options"))
    scale = view.t(f"score.scalings.{_other_scale(view)}")
    p = fixed(drop_of(view))
    values = {"scale": scale, "p": p, "kv": _shared(view), "own": view.divisor}
    yield b.Table(
        ["", *(view.t(f"score.option_{name}") for name in ("same", "other", "meaning"))],
        [
            [
                f"`{each.option}`",
                "–" if math.isnan(each.same) else number(each.same),
                number(each.other),
                view.t(f"score.option_{each.option}", **values),
            ]
            for each in found.options
        ],
        "lrrl",
    )
    if view.loaded.config.score_cap is not None:
        yield b.Note(view.t("score.options_uncapped"))


INPUTS = {"p": drop_of, "scaling": _other_scale, "n_kv_heads": _shared}
EXHIBIT = Exhibit(engines, show, inputs=INPUTS, open=partial(is_open, "engines"))
