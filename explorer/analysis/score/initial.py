"""Scores before training: how the initialization scales q . k, and why the layout of W matters.

A fresh model of the same shape reads the same rows. If the entries of W_Q and W_K are drawn
independently around 0 with variances v_q and v_k, q_i . k_j has mean 0 and variance d_head v_q v_k
|x_i|^2 |x_j|^2, so the scaled score has variance v_q v_k |x_i|^2 |x_j|^2. Xavier's variance is 2 /
(fan_in + fan_out), and fan_out is the height of the matrix *as it is stored*: one W_qkv of 3 d rows
gets a smaller variance than three matrices of d rows each. Glorot & Bengio 2010; torch's own
default (He et al. 2015 with a = sqrt 5) depends on fan_in only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from explorer.analysis.heads.measures import entropy
from explorer.analysis.score.steps import mean_of
from explorer.runs.passes import Steps, seeded
from explorer.runs.rerun import rows_of
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.attention import Attention
from models.config import ModelConfig
from models.hooks import AttentionSite
from models.transformer import Model, build_model

Init = Literal["ours", "xavier", "torch", "gpt2", "unit"]
INITS: tuple[Init, ...] = get_args(Init)
Storage = Literal["one", "fused", "per_head"]
STORAGES: tuple[Storage, ...] = get_args(Storage)
SEEDS = (0, 1, 2)
OTHERS, PROJECTIONS = 1000, 2000  # seeds of their own: W_Q must not repeat the embeddings' numbers
GPT2_STD = 0.02


@dataclass(frozen=True, eq=False)
class Fresh:
    """The scores of one site in fresh models, over all heads and seeds, for one layout of W.

    `shape` (rows, columns) is the shape of the stored matrix that contains W_Q; `weight_formula`
    and `weight_std` are the standard deviation of its entries, by formula and measured. `spread` is
    the root mean square of the allowed scores, whose mean is 0 in theory; `theory` is the
    prediction of the formula, from the measured norms of the site's input. `entropy` is in bits,
    `most` is its maximum for rows of that many keys, and `top` is the largest weight of a row, 0 to
    1: means over rows with more than one allowed key, NaN if there are none.
    """

    storage: Storage
    shape: tuple[int, int]
    weight_formula: float
    weight_std: float
    scores: Float[np.ndarray, " allowed"] = field(repr=False)
    spread: float
    theory: float
    entropy: float
    most: float
    top: float


def weight_std(init: Init, fan_in: int, fan_out: int) -> float:
    """The standard deviation of a matrix's entries under an initialization, by formula."""
    match init:
        case "torch":
            return 1 / math.sqrt(3 * fan_in)
        case "gpt2":
            return GPT2_STD
    return math.sqrt(2 / (fan_in + fan_out))


def bias_std(init: Init, fan_in: int) -> float:
    """The standard deviation of a bias: U(+-1 / sqrt(fan_in)) in `nn.Linear`, and under Xavier."""
    return 1 / math.sqrt(3 * fan_in) if init in ("xavier", "torch") else 0.0


def stored_rows(config: ModelConfig, storage: Storage) -> tuple[int, int]:
    """The number of rows of the stored matrices that contain W_Q and W_K."""
    n_q, n_kv = config.n_heads * config.d_head, config.kv_heads * config.d_head
    if storage == "one":
        return n_q, n_kv
    return (n_q + 2 * n_kv,) * 2 if storage == "fused" else (config.d_head,) * 2


def fresh_model(config: ModelConfig, init: Init, seed: int, storage: Storage = "one") -> Model:
    """A fresh model of this config, initialized as `init` says; in eval mode, without gradients.

    ours: this library's initialization (see `models.transformer`). xavier: every parameter with
    more than one axis, embeddings included. torch: the defaults of `nn.Linear` and `nn.Embedding`,
    N(0, 1) for the latter. gpt2: everything N(0, 0.02^2), biases 0. unit: ours, but with embeddings
    N(0, 1). W_Q, W_K and W_V are drawn as described in `draw_projections`.
    """
    with seeded(seed):
        model = build_model(config).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(OTHERS + seed)
    tied = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for module in model.modules():
        if isinstance(module, nn.Linear):
            if id(module.weight) not in tied:
                _draw(module.weight, init, generator)
            if module.bias is not None and (width := bias_std(init, module.in_features)):
                limit = width * math.sqrt(3)
                nn.init.uniform_(module.bias, -limit, limit, generator=generator)
        elif isinstance(module, nn.Embedding) and init in ("xavier", "gpt2"):
            _draw(module.weight, init, generator)
        elif isinstance(module, nn.Embedding) and init in ("torch", "unit"):
            nn.init.normal_(module.weight, generator=generator)
    for name, parameter in model.named_parameters():
        if name.endswith("positions.weight") and init in ("xavier", "gpt2"):
            _draw(parameter, init, generator)
    draw_projections(model, init, storage, seed)
    return model


def _draw(weight: Tensor, init: Init, generator: torch.Generator) -> None:
    """Redraw one stored matrix [out, in] in place."""
    if init == "torch":
        nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
    elif init == "gpt2":
        nn.init.normal_(weight, std=GPT2_STD, generator=generator)
    else:
        nn.init.xavier_uniform_(weight, generator=generator)


def draw_projections(model: Model, init: Init, storage: Storage, seed: int) -> None:
    """Redraw every W_Q, W_K and W_V of a model in place, as matrices of the given storage layout.

    They are copied into the model's own three matrices. The fused W_qkv contains all three, also in
    cross-attention, as in `nn.MultiheadAttention`. Nothing else is changed.
    """
    generator = torch.Generator().manual_seed(PROJECTIONS + seed)
    for module in model.modules():
        if not isinstance(module, Attention):
            continue
        weights = [linear.weight for linear in (module.w_q, module.w_k, module.w_v)]
        stacked = torch.empty(sum(map(len, weights)), weights[0].shape[1])
        heights = {
            "one": [len(weight) for weight in weights],
            "fused": [len(stacked)],
            "per_head": [module.d_head] * (len(stacked) // module.d_head),
        }
        for part in torch.split(stacked, heights[storage]):
            _draw(part, init, generator)
        for weight, drawn in zip(weights, torch.split(stacked, heights["one"]), strict=True):
            weight.copy_(drawn)


def fresh_scores(
    trace: Trace, site: AttentionSite, init: Init, seeds: Sequence[int] = SEEDS
) -> Steps[tuple[Fresh, ...]]:
    """One site of fresh models that read a Trace's rows, for every layout of the weights.

    The Trace's edits are ignored, since they apply to the trained model. Raises KeyError for a
    site that the Trace does not have.
    """
    trace.site(site.name)
    runs: dict[Storage, list[_Draw]] = {storage: [] for storage in STORAGES}
    for turn, seed in enumerate(seeds):
        yield turn, len(seeds)
        # Without a cap: the theory describes scores before capping.
        model = fresh_model(replace(trace.config, score_cap=None), init, seed)
        for storage in STORAGES:  # all else stays equal, so only the layouts differ
            draw_projections(model, init, storage, seed)
            runs[storage].append(_run(model, trace, site, init, storage))
    return tuple(_together(trace.config, init, *item) for item in runs.items())


_Draw = tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""One fresh model: the mean square of W_Q, the allowed scores, their theoretical variances, rows of
weights, and the number of allowed keys of each of these rows."""


def _run(model: Model, traced: Trace, site: AttentionSite, init: Init, storage: Storage) -> _Draw:
    module = model.get_submodule(site.name)
    assert isinstance(module, Attention)
    read: list[tuple[Tensor, Tensor]] = []

    def note(_: nn.Module, inputs: tuple[Tensor, ...], named: dict[str, Any]) -> None:
        read.append((inputs[0], named.get("memory", inputs[0])))

    names = {site.hook(what) for what in ("scores", "bias", "mask", "pattern")}
    handle = module.register_forward_pre_hook(note, with_kwargs=True)  # this model is not shared
    seen = run(model, rows_of(traced), names)
    handle.remove()
    kept = {name: tensor[0].numpy() for name, tensor in seen.items()}
    valid = traced.src_valid if site.query_stream == "src" else traced.tgt_valid
    allowed = kept[site.hook("mask")] & valid[:, None]
    (x, memory), config = read[0], traced.config
    # A score sums d_head products; with a query/key norm there is no such formula.
    share = math.nan if config.qk_norm else config.d_head / config.divisor**2
    variances = [
        x_or_memory[0].double().pow(2).sum(-1).numpy() * weight_std(init, config.d_model, rows) ** 2
        + bias_std(init, config.d_model) ** 2 * config.bias
        for x_or_memory, rows in zip((x, memory), stored_rows(config, storage), strict=True)
    ]
    n_allowed = allowed.sum(-1)
    return (
        float(module.w_q.weight.double().pow(2).mean()),
        (kept[site.hook("scores")] - kept.get(site.hook("bias"), 0.0))[allowed],
        np.broadcast_to(share * np.outer(*variances), allowed.shape)[allowed],
        kept[site.hook("pattern")][n_allowed > 1],
        n_allowed[n_allowed > 1],
    )


def _together(config: ModelConfig, init: Init, storage: Storage, runs: Sequence[_Draw]) -> Fresh:
    weights, *arrays = zip(*runs, strict=True)
    scores, variances, rows, n_allowed = map(np.concatenate, arrays)
    height, _ = stored_rows(config, storage)
    return Fresh(
        storage=storage,
        shape=(height, config.d_model),
        weight_formula=weight_std(init, config.d_model, height),
        weight_std=math.sqrt(np.mean(weights)),
        scores=scores,
        spread=math.sqrt(np.mean(scores.astype(np.float64) ** 2)),
        theory=math.sqrt(variances.mean()),
        entropy=mean_of(entropy(rows)),
        most=mean_of(np.log2(n_allowed)),
        top=mean_of(rows.max(1, initial=0.0)),
    )
