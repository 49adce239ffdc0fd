"""Before training: the scores of untrained models, by initialization and layout of weights."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from explorer.analysis.heads.measures import entropy
from explorer.analysis.score.initial import (
    GPT2_STD,
    INITS,
    STORAGES,
    Init,
    Storage,
    bias_std,
    draw_projections,
    fresh_model,
)
from explorer.analysis.score.steps import mean_of
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.picking import pick_one
from explorer.exhibits.score.choices import ScoreChoices
from explorer.exhibits.score.place import is_open
from explorer.figures.curves import histograms
from explorer.numbers import fixed, percent, tabled
from explorer.runs.passes import Steps
from explorer.runs.rerun import rows_of
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.attention import Attention
from models.config import ModelConfig
from models.hooks import AttentionSite
from models.transformer import Model


def weight_std(init: Init, fan_in: int, fan_out: int) -> float:
    """The standard deviation of a matrix's entries under an initialization, by formula."""
    match init:
        case "torch":
            return 1 / math.sqrt(3 * fan_in)
        case "gpt2":
            return GPT2_STD
    return math.sqrt(2 / (fan_in + fan_out))


def stored_rows(config: ModelConfig, storage: Storage) -> tuple[int, int]:
    """The number of rows of the stored matrices that contain W_Q and W_K."""
    n_q, n_kv = config.n_heads * config.d_head, config.kv_heads * config.d_head
    if storage == "one":
        return n_q, n_kv
    return (n_q + 2 * n_kv,) * 2 if storage == "fused" else (config.d_head,) * 2


SEEDS = (0, 1, 2)


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


def show(layouts: tuple[Fresh, ...], view: View) -> b.Blocks:
    """The histogram of the three layouts, their table, and the conclusion."""
    yield b.Prose(view.t("score.initial_lead", seeds=len(SEEDS)))
    init, title = view.choices(ScoreChoices).init, "score.asides.initial"
    yield pick_one(view, "score.init", INITS, init, label=title, quiet=True)
    yield b.Note(view.t("score.init_notes", init))
    names = [view.t("score.layout", layout.storage) for layout in layouts]
    draw = partial(
        histograms,
        [layout.scores for layout in layouts],
        names,
        max(1e-3, 3.5 * max(layout.spread for layout in layouts)),
        **view.axes("score.initial_score", "score.initial_share"),
    )
    yield b.Chart("score.initial", draw, view.t(title))
    yield _table(view, names, layouts)
    yield b.Sentence("aside", _of_layouts(view, layouts))
    wide = ""
    if view.loaded.config.score_divisor is not None:  # the default one cancels the root
        wide = rf"\,\frac{{\sqrt{{d_\mathrm{{head}}}}}}{{{view.latex_divisor}}}"
    line = (
        r"\sigma_W = \sqrt{\tfrac{2}{\mathrm{fan_{in}} + \mathrm{fan_{out}}}}, \qquad "
        r"\sigma_s = \sigma_{W_Q}\,\sigma_{W_K}\,\lVert x_i\rVert\,\lVert x_j\rVert"
    )
    yield b.Formula((line + wide,), view.t("score.initial_formula"))
    yield b.Code((fresh_scores,), first=True)


def _table(view: View, names: list[str], layouts: tuple[Fresh, ...]) -> b.Table:
    columns = ("weights", "scores", "bits", "most")
    rows = [
        [
            f"{name}, {layout.shape[0]}\u00a0×\u00a0{layout.shape[1]}",
            f"{layout.weight_formula:.4f} / {layout.weight_std:.4f}",
            f"{tabled(layout.theory)} / {layout.spread:.3g}",
            "–"
            if math.isnan(layout.entropy)
            else f"{fixed(layout.entropy)} / {fixed(layout.most)}",
            "–" if math.isnan(layout.top) else percent(layout.top),
        ]
        for name, layout in zip(names, layouts, strict=True)
    ]
    return b.Table(["", *(view.t("score.initial", name) for name in columns)], rows)


def _of_layouts(view: View, layouts: tuple[Fresh, ...]) -> str:
    """Whether the layout matters here: separate matrices compared with the fused one."""
    by_storage = {layout.storage: layout for layout in layouts}
    one, fused = by_storage["one"], by_storage["fused"]
    ratio = fused.spread / one.spread
    by_rule = one.weight_formula == fused.weight_formula
    if by_rule or (view.loaded.config.qk_norm and abs(ratio - 1) < 0.01):
        reason = "score.initial_why_rule" if by_rule else "score.initial_why_normed"
        return view.t("score.initial_same", why=view.t(reason))
    return view.t("score.initial_differs", ratio=fixed(ratio), rows=fused.shape[0])


EXHIBIT = Exhibit(
    fresh_scores,
    show,
    inputs={"seeds": lambda view: SEEDS},
    open=partial(is_open, "initial"),
    wait=Wait("score.initial_working"),
)
