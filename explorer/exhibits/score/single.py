"""A single head of any width: W_Q, W_K, W_V from d_in to d_out, and W_O from d_out back to d_in."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from explorer.analysis.heads.measures import entropy
from explorer.analysis.score.scaling import mean_of
from explorer.analysis.score.steps import bias_of, module_of, site_inputs
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.saying import in_a_row
from explorer.exhibits.score.choices import ScoreChoices
from explorer.exhibits.score.place import is_open, key_of, patterns, tokens
from explorer.library import LoadedModel
from explorer.numbers import fixed, number, percent
from explorer.runs.trace import Trace
from models.attention import attend
from models.hooks import AttentionSite

ROUNDING = 1e-4
"""Smallest weight difference that is shown in percent."""


class SingleHead(nn.Module):
    """softmax(Q K^T / sqrt(d_out)) V W_O with d_out != d_in allowed. Vaswani et al. 2017, §3.2.

    Everything after the three projections has d_out dimensions: the divisor is sqrt(d_out), unless
    another one is given, and W_O reads d_out, not d_in.
    """

    def __init__(self, d_in: int, d_out: int, bias: bool = True, **scaling: Any) -> None:
        super().__init__()
        self.scaled_so: Callable[..., tuple[Tensor, Tensor]] = partial(attend, **scaling)
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_in, d_out, bias=bias) for _ in range(3))
        self.w_o = nn.Linear(d_out, d_in, bias=False)

    def forward(
        self,
        x: Float[Tensor, "query d_in"],
        memory: Float[Tensor, "key d_in"],
        mask: Bool[Tensor, "query key"],
    ) -> dict[str, Tensor]:
        """Every intermediate tensor, by name; `memory` is `x` in self-attention."""
        q, k, v = self.w_q(x), self.w_k(memory), self.w_v(memory)
        both = self.scaled_so(q[None, None], k[None, None], v[None, None], mask)
        z, pattern = (tensor[0, 0] for tensor in both)
        return {"q": q, "k": k, "v": v, "pattern": pattern, "z": z, "out": self.w_o(z)}


Beyond = Literal["positions", "normed"]
"""What a model may do to queries, keys or scores that a single head does not."""


@dataclass(frozen=True, eq=False)
class Single:
    """A head of width `d_out`, cut from the weights of a layer and run on the layer's input.

    `tensors` are x, memory, q, k, v, pattern, z and out by name. `apart` is the largest difference
    of a weight from the selected head's in the model. `entropy` is the mean row entropy in bits and
    `entropy_wide` the same with scores divided by sqrt(d_in) instead, both over rows with more than
    one visible key; both are NaN in a model with a custom divisor. `lacks` lists what the model
    does to queries, keys or scores and a single head does not. `refused` is torch's error message
    for a W_O that expects d_in, "" if d_in = d_out.
    """

    d_in: int
    d_out: int
    tensors: dict[str, np.ndarray] = field(repr=False)
    parameters: int
    apart: float
    entropy: float
    entropy_wide: float
    lacks: tuple[Beyond, ...]
    refused: str


def widths(loaded: LoadedModel, site: AttentionSite) -> tuple[int, ...]:
    """The widths offered: powers of two, a head's own width, and all rows of the layer's keys."""
    module = module_of(loaded, site)
    most = module.n_kv_heads * module.d_head
    powers = (2**power for power in range(most.bit_length()))
    return tuple(sorted({module.d_head, most, *(width for width in powers if width <= most)}))


def single(loaded: LoadedModel, trace: Trace, site: AttentionSite, head: int, d_out: int) -> Single:
    """One head of width `d_out` with consecutive rows of the layer's weights.

    The rows start at this head's first row and wrap around after the layer's last one. With
    d_out = d_head this is the head itself, except for what positions and norms do to queries, keys
    or scores, which a single head lacks. Raises ValueError for a width that is not in `widths`.
    """
    if d_out not in widths(loaded, site):
        raise ValueError(f"d_out is {d_out}: this layer allows {widths(loaded, site)}")
    x, memory = site_inputs(loaded, trace, site)
    mask = torch.tensor(trace.mask(site.name)[head])
    alone = cut_head(loaded, site, head, d_out)
    with torch.inference_mode():
        tensors = alone(x, memory, mask)
        q, k, v = (tensors[name][None, None] for name in ("q", "k", "v"))
        root, cap = math.sqrt(x.shape[-1]), trace.config.score_cap
        wide = attend(q, k, v, mask, divisor=root, cap=cap)[1][0, 0]
    pattern, choice = tensors["pattern"].numpy(), (mask.sum(-1) > 1).numpy()
    roots = trace.config.score_divisor is None
    return Single(
        d_in=x.shape[-1],
        d_out=d_out,
        tensors={
            name: tensor.numpy() for name, tensor in {"x": x, "memory": memory, **tensors}.items()
        },
        parameters=sum(tensor.numel() for tensor in alone.parameters()),
        apart=float(np.abs(pattern - trace.pattern(site.name)[head]).max()),
        entropy=mean_of(entropy(pattern[choice])) if roots else math.nan,
        entropy_wide=mean_of(entropy(wide.numpy()[choice])) if roots else math.nan,
        lacks=tuple(_lacks(trace, site)),
        refused=_refused(tensors["z"], x.shape[-1]),
    )


def _lacks(trace: Trace, site: AttentionSite) -> Iterator[Beyond]:
    config = trace.config
    turned = config.position_type.acts == "turns" and site.kind == "self"
    if turned or bias_of(trace, site) is not None:
        yield "positions"
    if config.qk_norm:
        yield "normed"


def cut_head(loaded: LoadedModel, site: AttentionSite, head: int, d_out: int) -> SingleHead:
    """A `SingleHead` with rows of a layer's W_Q, W_K, W_V and columns of its W_O."""
    module = module_of(loaded, site)
    has_bias = module.w_q.bias is not None
    d_model = module.w_q.in_features
    scaling = {"divisor": loaded.config.score_divisor, "cap": loaded.config.score_cap}
    alone = SingleHead(d_model, d_out, has_bias, **scaling).eval().requires_grad_(False)
    kv_head = head * module.n_kv_heads // module.n_heads
    for name, first in (("w_q", head), ("w_k", kv_head), ("w_v", kv_head)):
        source, target = getattr(module, name), getattr(alone, name)
        rows = (first * module.d_head + torch.arange(d_out)) % source.out_features
        target.weight.copy_(source.weight[rows])
        if has_bias:
            target.bias.copy_(source.bias[rows])
    columns = (head * module.d_head + torch.arange(d_out)) % module.w_o.in_features
    alone.w_o.weight.copy_(module.w_o.weight[:, columns])
    return alone


def _refused(z: Tensor, d_in: int) -> str:
    """The error message of a W_O [d_in, d_in] applied to z [query, d_out]; "" if it works."""
    try:
        F.linear(z, torch.zeros(()).expand(d_in, d_in))
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return ""


def width_of(view: View) -> int:
    """The chosen width if this layer allows it, else the width of the model's heads."""
    chosen = view.choices(ScoreChoices).d_out
    return chosen if chosen in widths(view.loaded, view.site) else view.loaded.config.d_head


def show(variant: Single, view: View) -> b.Blocks:
    """The width, the shapes from x to the output, both patterns, and the conclusion."""
    yield b.Prose(view.t("score.single_lead", d_in=view.loaded.config.d_model))
    offered = widths(view.loaded, view.site)
    if len(offered) > 1:
        change, display = b.sets("d_out"), b.Display(420)
        yield b.Slider("score.d_out", "d_out", offered, variant.d_out, change, display=display)
    yield _shapes(view, variant)
    this = view.t("score.single_this", d_out=variant.d_out), variant.tensors["pattern"]
    own = view.trace.pattern(view.site.name)[view.head]
    sides = this, (view.t("score.single_own", head=view.head + 1), own)
    yield patterns(view, "single_weights", sides)
    yield b.Sentence("aside", _reading(view, variant))
    if variant.refused:
        yield b.Prose(view.t("score.single_refused", d_in=variant.d_in))
        yield b.Verbatim(variant.refused)
    divisor = view.loaded.config.score_divisor
    scores = r"\frac{Q K^\top}{\sqrt{d'}}" if divisor is None else view.scaled(r"Q K^\top")
    line = (
        r"Q = X W_Q,\quad K = M W_K,\quad V = M W_V \in \mathbb{R}^{n\times d'},\qquad "
        rf"Y = \mathrm{{softmax}}\Big({scores}\Big) V\, W_O,\quad "
        r"W_O \in \mathbb{R}^{d'\times d}"
    )
    yield b.Formula((line,), view.t("score.single_formula"))
    yield b.Code((SingleHead, cut_head), first=True)


def _shapes(view: View, variant: Single) -> b.Table:
    """Each tensor with its formula, its shape, and its norm at the query or key."""
    wide, narrow = variant.d_in, variant.d_out
    divisor = f"√{narrow}" if view.loaded.config.score_divisor is None else view.divisor
    rows: tuple[tuple[str, str, str, int], ...] = (
        ("X", "x", view.t("score.single_stream"), view.row),
        ("M", "memory", view.t("score.single_memory"), key_of(view)),
        ("Q", "q", f"X W_Q · {wide} → {narrow}", view.row),
        ("K", "k", f"M W_K · {wide} → {narrow}", key_of(view)),
        ("V", "v", f"M W_V · {wide} → {narrow}", key_of(view)),
        ("A", "pattern", f"softmax(Q Kᵀ ÷ {divisor})", view.row),
        ("Z", "z", "A V", view.row),
        ("Y", "out", f"Z W_O · {narrow} → {wide}", view.row),
    )
    if view.site.kind == "self":
        rows = (
            rows[0],
            *((a, b, formula.replace("M W", "X W"), at) for a, b, formula, at in rows[2:]),
        )
    query, key = tokens(view).values()
    return b.Table(
        ["", *(view.t(f"score.single_{name}") for name in ("made", "shape", "norm"))],
        [
            [
                f"**{name}**",
                formula,
                " × ".join(map(str, variant.tensors[tensor].shape)),
                f"{fixed(float(np.linalg.norm(variant.tensors[tensor][at])))} · "
                f"{key if name in 'MKV' else query}",
            ]
            for name, tensor, formula, at in rows
        ],
        "llrr",
    )


def _reading(view: View, variant: Single) -> str:
    """The distance to the model's head, its reasons, and the effect of dividing by √d_in."""
    apart = percent(variant.apart) if variant.apart >= ROUNDING else number(variant.apart)
    values = {"apart": apart, "parameters": f"{variant.parameters:,}"}
    words = [view.t("score.single_reading", **values)]
    if variant.lacks:
        lacks = (view.t(f"score.lack_{name}") for name in variant.lacks)
        words.append(view.t("score.single_lacks", more=view.t("heads.and").join(lacks)))
    if not math.isnan(variant.entropy) and variant.d_in != variant.d_out:
        bits = {"entropy": fixed(variant.entropy), "wide": fixed(variant.entropy_wide)}
        words.append(view.t("score.single_wide", d_in=variant.d_in, **bits))
    return in_a_row(words)


EXHIBIT = Exhibit(single, show, inputs={"d_out": width_of}, open=partial(is_open, "single"))
