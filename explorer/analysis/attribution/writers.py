"""Any point of a stream as a sum over everything written to it before: token and position
embedding, every head, every feed-forward network, and the biases.

The scales of norms are frozen (see `ledger`). Their placement matters:

pre       pieces join the stream as they are written; the norm before a sublayer (and the final
          norm) acts on all pieces at once, with the scale of the stream that it reads
post      the 2017 design: after each sum all pieces so far go through that sum's norm, so the
          output of a head of the first layer passes a chain of norms, each with its own scale
sublayer  the norm acts on a sublayer's output before it joins the stream; so do the additional
          norms of Gemma ("out norms")

Everything is computed in float64 from the tensors of a Trace and the model's weights, position by
position, so that the cost depends only on the positions requested.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from torch import nn

from explorer.analysis.attribution.ledger import FrozenNorm, Ledger, Writer, array
from explorer.library import LoadedModel
from explorer.runs.passes import Steps
from explorer.runs.rerun import heads_off, require_same_model
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, StackSite
from models.transformer import HeadNet

Side = Literal["query", "key"]
Detail = Literal["sublayers", "heads"] | tuple[str, int]
"""How attention is split: each sublayer as one component, each head as one, or in addition one head
(the name of its site, its index) as one component per key that it read from."""


@dataclass(frozen=True)
class _Sublayer:
    """One sublayer of a block: the stream after it, and its norms."""

    after: str  # the hook point of the stream after it
    norm: str  # the path of its norm
    out_norm: str  # the path of the norm on its output alone; "" without one
    site: AttentionSite | None  # None: the feed-forward net
    layer: int


def writers_at(
    loaded: LoadedModel,
    traced: Trace,
    hook: str,
    positions: Sequence[int],
    detail: Detail = "heads",
) -> Steps[Ledger]:
    """The residual stream at a hook point, at these positions, as a sum over components.

    There is a step per sublayer. `hook` is one of a block's resid_pre, resid_mid, resid_mid_cross
    or resid_post, or a stack's resid_final. Raises KeyError for any
    other hook point, ValueError for another model's Trace.
    """
    require_same_model(loaded, traced)
    for stack in traced.stacks:
        before_blocks = [stack.block_hook(layer, "resid_pre") for layer in range(stack.n_layers)]
        if hook not in (*points(loaded, stack), *before_blocks, stack.hook("resid_final")):
            continue
        ledger = _embedded(loaded, traced, stack, positions)
        if hook == stack.block_hook(0, "resid_pre"):
            return ledger
        sublayers = [*_sublayers(loaded, stack)]
        for done, sublayer in enumerate(sublayers):
            yield done, len(sublayers)
            if hook == stack.block_hook(sublayer.layer, "resid_pre"):
                return ledger
            _through(loaded, traced, stack, sublayer, ledger, positions, detail)
            if hook == sublayer.after:
                return ledger
        return ledger
    raise KeyError(f"{hook} is not a position in the residual stream")


def read_by(
    loaded: LoadedModel,
    traced: Trace,
    site: AttentionSite,
    side: Side,
    positions: Sequence[int],
    detail: Detail = "heads",
) -> Steps[Ledger]:
    """The input of W_Q ("query") or W_K ("key") of a site at these positions, as a sum.

    With a norm before the sublayer, its scale is frozen too. The keys of cross-attention come from
    the encoder's output.
    """
    if side == "key" and site.kind == "cross":
        stack = traced.stack(site.key_stream)
        return (yield from _finished(loaded, traced, stack, positions, detail))
    ledger = yield from writers_at(loaded, traced, before(traced, site), positions, detail)
    if loaded.config.norm_placement == "pre":
        norm = "attn_norm" if site.kind == "self" else "cross_attn_norm"
        _norm(loaded, ledger, f"{site.block}.{norm}")
    return ledger


def output(
    loaded: LoadedModel, traced: Trace, positions: Sequence[int], detail: Detail = "heads"
) -> Steps[Ledger]:
    """The input of the unembedding at these positions of the sequence that the logits belong to.

    If a small network precedes it (BERT), its activation is frozen as a gate.
    """
    ledger = yield from _finished(loaded, traced, traced.stacks[-1], positions, detail)
    head = loaded.part("head") if loaded.config.lm_head else None
    if isinstance(head, HeadNet):
        ledger.linear(array(head.linear.weight), array(head.linear.bias))
        ledger.gate(head.activation)
        ledger.norm(FrozenNorm(head.norm))
    return ledger


def before(traced: Trace, site: AttentionSite) -> str:
    """The hook point of the stream that a site's queries are computed from, before any norm."""
    return site.block_hook("resid_pre" if site.kind == "self" else "resid_mid")


def _finished(
    loaded: LoadedModel, traced: Trace, stack: StackSite, positions: Sequence[int], detail: Detail
) -> Steps[Ledger]:
    """A stack's output: its last stream after the final norm, if there is one."""
    ledger = yield from writers_at(loaded, traced, stack.hook("resid_final"), positions, detail)
    _norm(loaded, ledger, stack.path("final_norm"))
    return ledger


def _embedded(
    loaded: LoadedModel, traced: Trace, stack: StackSite, positions: Sequence[int]
) -> Ledger:
    """The input of the first block: the scaled embedding, and what positions add to it."""
    at = list(positions)
    token = traced.activations[stack.hook("embed")][at].astype(np.float64)
    writers = [Writer("bias", stack.stream), Writer("embedding", stack.stream)]
    pieces = [np.zeros_like(token), token]
    if stack.hook("pos_embed") in traced.activations:
        # Learned and computed positions are equal in all texts: the batch shares one row.
        added = traced.activations[stack.hook("pos_embed")][at].astype(np.float64)
        writers.append(Writer("position", stack.stream))
        pieces.append(added)
    ledger = Ledger.of(writers, np.stack(pieces))
    _norm(loaded, ledger, stack.path("embed_norm"))
    if loaded.config.d_embed is not None:
        weight, bias = loaded.part(stack.path("embed_map")).parameters()
        ledger.linear(array(weight), array(bias))
    return ledger


def _norm(loaded: LoadedModel, ledger: Ledger, path: str) -> None:
    """Apply the norm at this path to a ledger; does nothing if the model has none there."""
    module = loaded.part(path)
    if not isinstance(module, nn.Identity):
        ledger.norm(FrozenNorm(module))


def _through(
    loaded: LoadedModel,
    traced: Trace,
    stack: StackSite,
    sublayer: _Sublayer,
    ledger: Ledger,
    positions: Sequence[int],
    detail: Detail,
) -> None:
    """Add one sublayer's output, and apply its norm to the sum in a post-norm model."""
    at, placement = list(positions), loaded.config.norm_placement
    if loaded.config.parallel and sublayer.site is None:
        placement = "pre"  # a parallel network is added without a norm after it
    norms = [sublayer.out_norm] if sublayer.out_norm else []
    norms += [sublayer.norm] if placement == "sublayer" else []
    if sublayer.site is not None:
        branch = _heads(loaded, traced, sublayer.site, at, detail)
        for norm in norms:
            _norm(loaded, branch, norm)
    else:
        branch = _net(loaded, traced, stack, sublayer, at, norms)
    ledger.join(branch)
    if placement == "post":
        _norm(loaded, ledger, sublayer.norm)


def _heads(
    loaded: LoadedModel, traced: Trace, site: AttentionSite, at: list[int], detail: Detail
) -> Ledger:
    """The output of each head of a site, z W_O, and the bias of W_O."""
    w_o = loaded.part(f"{site.name}.w_o")
    weight = array(w_o.get_parameter("weight"))
    slices = weight.reshape(len(weight), site.n_heads, -1).transpose(1, 2, 0)  # [head, d, d_model]
    z = traced.activations[site.hook("z")][:, at].astype(np.float64)
    written = z @ slices  # [head, pos, d_model]
    constant = np.zeros(written.shape[1:])
    if getattr(w_o, "bias", None) is not None:
        constant = constant + array(w_o.get_parameter("bias"))
    writers, pieces = [Writer("bias", site.query_stream)], [constant[None]]
    if detail == "sublayers":
        whole = Writer("head", site.query_stream, site.layer, site.name)
        return Ledger.of([*writers, whole], np.concatenate((*pieces, written.sum(0)[None])))
    for head in range(site.n_heads):
        named = Writer("head", site.query_stream, site.layer, site.name, head)
        if detail == (site.name, head):
            by_key = per_key(traced, site, head, at) @ slices[head]
            pieces.append(by_key)
            writers += [
                Writer("head", site.query_stream, site.layer, site.name, head, key)
                for key in range(len(by_key))
            ]
        else:
            pieces.append(written[head : head + 1])
            writers.append(named)
    return Ledger.of(writers, np.concatenate(pieces))


def per_key(
    traced: Trace, site: AttentionSite, head: int, positions: Sequence[int]
) -> Float[np.ndarray, "key pos d_head"]:
    """Weight x value: what a head reads from each key at these queries; the sum over keys is z.

    All 0 for a head ablated by an edit of the Trace.
    """
    values = traced.activations[site.hook("v")].astype(np.float64)
    group = site.n_heads // len(values)  # query heads per value head
    weights = traced.pattern(site.name)[head][list(positions)].astype(np.float64)
    taken = weights.T[:, :, None] * values[head // group][:, None]
    return np.zeros_like(taken) if head in heads_off(traced, site.name) else taken


def _net(
    loaded: LoadedModel,
    traced: Trace,
    stack: StackSite,
    sublayer: _Sublayer,
    at: list[int],
    norms: Sequence[str],
) -> Ledger:
    """The feed-forward network's output, with its own bias but not that of a norm after it."""
    written = traced.activations[stack.block_hook(sublayer.layer, "ffn_out")][at].astype(np.float64)
    constant = np.zeros_like(written)
    if norms:
        constant = constant + FrozenNorm(loaded.part(norms[-1])).bias
    writers = [Writer("bias", stack.stream), Writer("ffn", stack.stream, sublayer.layer)]
    return Ledger.of(writers, np.stack([constant, written - constant]))


def _sublayers(loaded: LoadedModel, stack: StackSite) -> Iterator[_Sublayer]:
    """The sublayers of a stack, in execution order."""
    sites = {(s.layer, s.kind): s for s in loaded.sites if s.query_stream == stack.stream}
    outer = loaded.config.out_norms
    for layer in range(stack.n_layers):
        block = stack.path("blocks", layer)
        own, cross = sites[layer, "self"], sites.get((layer, "cross"))
        yield _Sublayer(
            own.block_hook("resid_mid"),
            f"{block}.attn_norm",
            f"{block}.attn_out_norm" if outer else "",
            own,
            layer,
        )
        if cross is not None:
            after = cross.block_hook("resid_mid_cross")
            yield _Sublayer(after, f"{block}.cross_attn_norm", "", cross, layer)
        yield _Sublayer(
            own.block_hook("resid_post"),
            f"{block}.ffn_norm",
            f"{block}.ffn_out_norm" if outer and not loaded.config.parallel else "",
            None,
            layer,
        )


def points(loaded: LoadedModel, stack: StackSite) -> tuple[str, ...]:
    """The hook points of a stack's stream: before the first block, then after each sublayer."""
    behind = [sublayer.after for sublayer in _sublayers(loaded, stack)]
    return stack.block_hook(0, "resid_pre"), *behind
