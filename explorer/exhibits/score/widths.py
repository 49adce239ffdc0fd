"""Other widths: a single head that is wider or narrower, and fewer heads of keys and values."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from explorer.analysis.heads.measures import entropy
from explorer.analysis.score.steps import (
    attended,
    averaged,
    bias_of,
    mean_of,
    module_of,
    site_inputs,
)
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.score.place import is_open
from explorer.library import LoadedModel
from explorer.numbers import fixed, number, percent
from explorer.runs.trace import Trace
from models.attention import attend
from models.hooks import AttentionSite

ROUNDING = 1e-4
"""Smallest weight difference that is shown in percent."""


@dataclass(frozen=True)
class Width:
    """A head of width `d_out`, cut from a layer's weights and run on its input.

    `apart` is the largest difference of a weight from the model's head. `entropy` is the mean row
    entropy in bits and `entropy_wide` the same with scores divided by sqrt(d_in), a common bug,
    both over rows with more than one visible key, and NaN in a model with a divisor of its own.
    """

    d_out: int
    parameters: int
    apart: float
    entropy: float
    entropy_wide: float


@dataclass(frozen=True)
class Sharing:
    """The query heads of a layer sharing `n_kv_heads` keys and values.

    `cache_bytes` is the KV-cache size per token in all layers of this kind of attention, in
    float32. `moved` is the largest change of a weight if the model's own keys are averaged into
    that many heads, `tiled` the same if the heads are then repeated in the wrong order (`repeat`
    instead of `repeat_interleave`); both are NaN if the model has no more of them than that.
    """

    n_kv_heads: int
    cache_bytes: int
    moved: float
    tiled: float


@dataclass(frozen=True)
class OtherWidths:
    """Heads of other widths, and layers that share keys and values. `lacks` is what the model does
    to queries, keys or scores and a single head does not; `refused` is torch's error message for a
    W_O that expects d_in."""

    heads: tuple[Width, ...]
    sharings: tuple[Sharing, ...]
    lacks: tuple[str, ...]
    refused: str


def compute(loaded: LoadedModel, trace: Trace, site: AttentionSite, head: int) -> OtherWidths:
    """All widths up to the layer's keys, and all even numbers of key/value heads."""
    layer, config = module_of(loaded, site), loaded.config
    most = layer.n_kv_heads * layer.d_head
    powers = (2**power for power in range(most.bit_length()))
    widths = sorted({layer.d_head, most, *(width for width in powers if width <= most)})
    turned = config.position_type.acts == "turns" and site.kind == "self"
    does = {"positions": turned or bias_of(trace, site) is not None, "normed": config.qk_norm}
    even = [n for n in range(1, site.n_heads + 1) if site.n_heads % n == 0]
    return OtherWidths(
        tuple(single(loaded, trace, site, head, width) for width in widths),
        tuple(shared(trace, site, n) for n in even),
        tuple(name for name, here in does.items() if here),
        _refused(layer.d_head, layer.w_q.in_features),
    )


def single(loaded: LoadedModel, trace: Trace, site: AttentionSite, head: int, d_out: int) -> Width:
    """softmax(Q K^T / sqrt(d_out)) V W_O with d_out != d_in allowed. Vaswani et al. 2017, §3.2.

    The rows of the layer's weights start at this head's first row and wrap around after the
    layer's last one. With d_out = d_head this is the head itself, except for what positions and
    norms do to queries, keys or scores.
    """
    layer, config = module_of(loaded, site), loaded.config
    x, memory = site_inputs(loaded, trace, site)
    mask = torch.tensor(trace.mask(site.name)[head])
    kv_head = head * layer.n_kv_heads // layer.n_heads

    def projected(read: Tensor, name: str, first: int) -> Tensor:
        linear = getattr(layer, name)
        rows = (first * layer.d_head + torch.arange(d_out)) % linear.out_features
        return F.linear(
            read, linear.weight[rows], None if linear.bias is None else linear.bias[rows]
        )

    def pattern(divisor: float | None) -> Float[np.ndarray, "query key"]:
        weights: Tensor = attend(q, k, k, mask, divisor=divisor, cap=config.score_cap)[1]
        return weights[0, 0].numpy()

    with torch.inference_mode():
        q = projected(x, "w_q", head)[None, None]
        k = projected(memory, "w_k", kv_head)[None, None]
        own, wide = pattern(config.score_divisor), pattern(math.sqrt(x.shape[-1]))
    choice, roots = (mask.sum(-1) > 1).numpy(), config.score_divisor is None
    biases = 0 if layer.w_q.bias is None else 3 * d_out
    return Width(
        d_out,
        4 * d_out * x.shape[-1] + biases,
        float(np.abs(own - trace.pattern(site.name)[head]).max()),
        mean_of(entropy(own[choice])) if roots else math.nan,
        mean_of(entropy(wide[choice])) if roots else math.nan,
    )


def shared(trace: Trace, site: AttentionSite, n_kv_heads: int) -> Sharing:
    """What sharing keys and values would change here.

    Averaging the heads of a group is the first step of Ainslie et al. 2023 (§2.1) for turning a
    trained model into one with fewer kv heads; they then continue training, which is not done here.
    """
    n_layers = sum(layer.kind == site.kind and layer.stack == site.stack for layer in trace.sites)
    k = torch.tensor(trace.activations[site.hook("k")])
    own = torch.tensor(trace.pattern(site.name))
    moved = tiled = math.nan
    if len(k) > n_kv_heads:
        keys = averaged(k[None], n_kv_heads)
        in_turn = keys.repeat(1, site.n_heads // n_kv_heads, 1, 1)
        moved, tiled = (
            float((attended(trace, site, k=heads, v=heads)[1][0] - own).abs().max())
            for heads in (keys, in_turn)
        )
    return Sharing(n_kv_heads, 8 * n_layers * n_kv_heads * trace.config.d_head, moved, tiled)


def _refused(d_out: int, d_in: int) -> str:
    """The error message of a W_O [d_in, d_in] applied to a head's output; "" if it works."""
    try:
        F.linear(torch.zeros(1, d_out), torch.zeros(()).expand(d_in, d_in))
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return ""


def show(answer: OtherWidths, view: View) -> b.Blocks:
    """A table of heads, a table of shared keys and values, and the shapes."""
    d_in = view.loaded.config.d_model
    yield b.Prose(view.t("score.single_lead", d_in=d_in))
    titles = ["d_out", view.t("score.parameters"), view.t("score.single_apart")]
    titles += [view.t("score.entropy"), view.t("score.single_wide", d_in=d_in)]
    rows = [
        (
            _marked(head.d_out, view.loaded.config.d_head),
            f"{head.parameters:,}",
            _share(head.apart),
            *(
                "–" if math.isnan(bits) else fixed(bits)
                for bits in (head.entropy, head.entropy_wide)
            ),
        )
        for head in answer.heads
    ]
    yield b.Table(titles, rows, "rrrrr")
    if answer.lacks:
        lacks = (view.t(f"score.lack_{name}") for name in answer.lacks)
        yield b.Note(view.t("score.single_lacks", more=view.t("heads.and").join(lacks)))
    if answer.refused:
        yield b.Prose(view.t("score.single_refused", d_in=d_in))
        yield b.Verbatim(answer.refused)
    yield b.Prose(view.t("score.groups_lead"))
    titles = [view.t(f"score.{name}") for name in ("kv_heads", "bytes", "moved", "tiled")]
    rows = [
        (
            _marked(sharing.n_kv_heads, view.loaded.config.kv_heads),
            f"{sharing.cache_bytes:,}",
            *map(_share, (sharing.moved, sharing.tiled)),
        )
        for sharing in answer.sharings
    ]
    yield b.Table(titles, rows, "rrrr")
    yield b.Note(view.t("score.bold"))
    divisor = view.loaded.config.score_divisor
    scores = r"\frac{Q K^\top}{\sqrt{d'}}" if divisor is None else view.scaled(r"Q K^\top")
    line = (
        r"Q = X W_Q,\quad K = M W_K,\quad V = M W_V \in \mathbb{R}^{n\times d'},\qquad "
        rf"Y = \mathrm{{softmax}}\Big({scores}\Big) V\, W_O,\quad "
        r"W_O \in \mathbb{R}^{d'\times d}"
    )
    yield b.Formula((line,), view.t("score.single_formula"))
    yield b.Code((single, shared), first=True)


def _marked(size: int, own: int) -> str:
    return f"**{size}**" if size == own else str(size)


def _share(apart: float) -> str:
    if math.isnan(apart):
        return "–"
    return percent(apart) if apart >= ROUNDING else number(apart)


EXHIBIT = Exhibit(compute, show, open=partial(is_open, "widths"))
