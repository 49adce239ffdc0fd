"""Tracing a written word back: how vectors flow into each other, sublayer by sublayer.

The nodes are the positions of both streams. Every attention sublayer mixes the nodes of the stream
that it writes to; cross-attention also mixes in those of the source. Feed-forward nets mix no
positions, so they leave a node unchanged. A network gives, for every sublayer, the share of a
vector that came from each vector below, and the product of shares along a path is the share that
the path carried. The shares are assumed (rollout) or measured (contribution):

rollout       half of a vector is the residual connection, the other half the mean of the heads'
              weights. Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", §3
contribution  the proximity of the vector to each of the vectors that it is the sum of, in the
              1-norm: max(0, ||y|| - ||y - part||), scaled to add up to 1. Ferrando et al. 2022,
              "Measuring the Mixing of Contextual Information in the Transformer", eq. 10; for
              translators Ferrando et al. 2022, "Towards Opening the Black Box of Neural Machine
              Translation"
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from explorer.analysis.causes.ledger import FrozenNorm, array
from explorer.analysis.heads.flow import MAX_FLOW_TOKENS, max_flow
from explorer.analysis.heads.rollout import RESIDUAL, mean_head
from explorer.analysis.patching.patches import Progress
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.rerun import heads_off, require_same_model
from explorer.runs.trace import Trace
from models.hooks import AttentionSite
from models.rows import Stream

Shares = Float[np.ndarray, "query key"]
MOST_NODES = 400
"""Positions of both streams together: a network stores one square matrix per sublayer."""
MOST_CELLS = 4_000_000  # vector components processed at once, over some queries
_OPEN = 1e6  # unlimited capacity, for a vector that a sublayer does not change


@dataclass(frozen=True, eq=False)
class Edge:
    """The share of the written word that one sublayer carried from one node up to another."""

    sublayer: int
    upper: int
    lower: int
    share: float


@dataclass(frozen=True, eq=False)
class Network:
    """`mixes[sublayer]` gives, for each node above a sublayer, the share of each node below;
    its rows add up to 1. Nodes are the positions of the source, then those of the target; `n_src`
    is 0 for a model of one text. `sites` are the sublayers, first the encoder's."""

    sites: tuple[AttentionSite, ...]
    mixes: Float[np.ndarray, "sublayer upper lower"]
    n_src: int

    def node(self, stream: Stream, position: int) -> int:
        """The node of a position of one stream."""
        return position if stream == "src" else self.n_src + position

    def reached(self, node: int) -> Float[np.ndarray, "level node"]:
        """The share of each node, below the last n sublayers, in `node` above all of them.

        The first level are the shares of the words themselves, the last one `node` alone; each
        adds up to 1.
        """
        levels = [np.eye(self.mixes.shape[1])[node]]
        for mix in self.mixes[::-1]:
            levels.append(levels[-1] @ mix)
        return np.stack(levels[::-1])

    def edges(self, node: int, least: float = 0.0) -> tuple[Edge, ...]:
        """The flow to `node` along every edge that carried at least `least` of it.

        An edge from a node to itself is included if its sublayer mixes that stream.
        """
        reached = self.reached(node)
        found = []
        for sublayer, (site, mix) in enumerate(zip(self.sites, self.mixes, strict=True)):
            flow = reached[sublayer + 1][:, None] * mix
            for upper, lower in np.argwhere((flow >= least) & (flow > 0)).tolist():
                if (upper < self.n_src) == (site.query_stream == "src") or not self.n_src:
                    found.append(Edge(sublayer, upper, lower, float(flow[upper, lower])))
        return tuple(found)

    def flow(self, node: int) -> Float[np.ndarray, " node"]:
        """Attention flow: the maximum flow through all sublayers from `node` to each word.

        The capacities are the shares; a vector that a sublayer leaves unchanged has no limit. Abnar
        & Zuidema 2020, §3. Raises InputProblem `too_many_tokens` above `MAX_FLOW_TOKENS` nodes.
        """
        n_nodes = self.mixes.shape[1]
        if n_nodes > MAX_FLOW_TOKENS:
            raise InputProblem("too_many_tokens", limit=MAX_FLOW_TOKENS, length=n_nodes)
        pipes = self.mixes.copy()
        for site, mix in zip(self.sites, pipes, strict=True):
            if self.n_src:
                ends = (0, self.n_src) if site.query_stream == "tgt" else (self.n_src, n_nodes)
                mix[range(*ends), range(*ends)] = _OPEN
        return np.array([max_flow(pipes[::-1], node, word) for word in range(n_nodes)])


def rollout_network(traced: Trace) -> Network:
    """Shares as assumed by rollout: half the residual connection, half the mean of the heads.

    Raises InputProblem as `contribution_network`.
    """

    def shares(site: AttentionSite) -> tuple[Shares, Float[np.ndarray, " query"]]:
        heads = mean_head(traced, site.name)
        return (1 - RESIDUAL) * heads, np.full(len(heads), RESIDUAL)

    return _network(traced, shares)


def contribution_network(
    loaded: LoadedModel, traced: Trace, progress: Progress | None = None
) -> Network:
    """Shares measured from the vectors; `progress(done, total)` counts sublayers.

    Raises InputProblem `too_many_tokens` above `MOST_NODES`, ValueError for another model's Trace.
    """
    require_same_model(loaded, traced)
    return _network(traced, lambda site: nearness(loaded, traced, site), progress)


def _network(
    traced: Trace,
    shares: Callable[[AttentionSite], tuple[Shares, Float[np.ndarray, " query"]]],
    progress: Progress | None = None,
) -> Network:
    """The sublayers in running order; `shares` returns the shares of keys and of the residual."""
    n_src, n_tgt = len(traced.src_tokens), len(traced.tgt_tokens)
    if n_src + n_tgt > MOST_NODES:
        raise InputProblem("too_many_tokens", limit=MOST_NODES, length=n_src + n_tgt)
    own = {"src": slice(0, n_src), "tgt": slice(n_src, n_src + n_tgt)}
    order = {stack.stream: at for at, stack in enumerate(traced.stacks)}
    sites = sorted(traced.sites, key=lambda s: (order[s.query_stream], s.layer, s.kind == "cross"))
    mixes = np.tile(np.eye(n_src + n_tgt), (len(sites), 1, 1))
    for done, (mix, site) in enumerate(zip(mixes, sites, strict=True)):
        if progress is not None:
            progress(done, len(sites))
        rows, keys = own[site.query_stream], own[site.key_stream]
        from_keys, kept = shares(site)
        mix[rows] = 0.0
        mix[rows, keys] += from_keys
        mix[rows, rows] += np.diag(kept)
        mix[rows] /= mix[rows].sum(1, keepdims=True)
    return Network(tuple(sites), mixes, n_src)


@dataclass(frozen=True, eq=False)
class Parts:
    """The stream after an attention sublayer as a sum: `whole` [query, d_model] is `keys` summed
    over its axis of keys, plus `residual`, plus `constant` (the biases of W_O and of norms). Norms
    in between use the scale that they had in the run."""

    whole: Float[np.ndarray, "query d_model"]
    keys: Float[np.ndarray, "query key d_model"]
    residual: Float[np.ndarray, "query d_model"]
    constant: Float[np.ndarray, "query d_model"]


def nearness(
    loaded: LoadedModel, traced: Trace, site: AttentionSite
) -> tuple[Shares, Float[np.ndarray, " query"]]:
    """The proximity of a sublayer's output to its parts, keys [query, key] and residual [query],
    unscaled. In self-attention the residual and the contribution of the token's own key are one
    part. A vector that is near none of its parts counts as the residual alone."""
    n_query, n_key = traced.pattern(site.name).shape[1:]
    near, own = np.zeros((n_query, n_key)), np.zeros(n_query)
    some = max(1, MOST_CELLS // (n_key * loaded.config.d_model))
    for start in range(0, n_query, some):
        queries = slice(start, start + some)
        found = parts_of(loaded, traced, site, queries)
        keys, kept, whole = found.keys, found.residual, found.whole
        at = np.arange(len(whole))
        if site.kind == "self":
            kept = kept + keys[at, start + at]
        length = np.abs(whole).sum(-1)
        near[queries] = np.maximum(0, length[:, None] - np.abs(whole[:, None] - keys).sum(-1))
        own[queries] = np.maximum(0, length - np.abs(whole - kept).sum(-1))
        if site.kind == "self":
            near[start + at, start + at] = 0.0
    own[near.sum(1) + own == 0] = 1.0
    return near, own


def parts_of(
    loaded: LoadedModel, traced: Trace, site: AttentionSite, queries: slice = slice(None)
) -> Parts:
    """The contribution of every key and of the residual to a sublayer's output, at some queries."""
    activations, own = traced.activations, site.kind == "self"
    before, after = ("resid_pre", "resid_mid") if own else ("resid_mid", "resid_mid_cross")
    joining = f"{site.block}.{'attn' if own else 'cross_attn'}_norm"
    w_o = loaded.part(f"{site.name}.w_o")
    matrix = array(w_o.get_parameter("weight"))  # [d_model, head * d_head]
    slices = matrix.reshape(len(matrix), site.n_heads, -1)
    pattern = traced.pattern(site.name)[:, queries].astype(np.float64)
    pattern[heads_off(traced, site.name)] = 0.0
    v = activations[site.hook("v")].astype(np.float64)
    v = np.repeat(v, site.n_heads // len(v), axis=0)  # heads that share values get a copy each
    keys = np.einsum("hqk,hkm->qkm", pattern, np.einsum("hkd,mhd->hkm", v, slices))
    residual = activations[site.block_hook(before)][queries].astype(np.float64)
    bias = getattr(w_o, "bias", None)
    constant = np.zeros_like(residual) + (0.0 if bias is None else array(bias))
    kept = np.zeros_like(residual)  # of the residual: it joins before a norm, or after all of them
    placement = loaded.config.norm_placement
    norms = [joining] if placement != "pre" else []
    if own and loaded.config.out_norms:
        norms = [f"{site.block}.attn_out_norm", *norms]
    for path in norms:
        norm = FrozenNorm(loaded.part(path))
        if placement == "post" and path == joining:
            kept = residual
        scale = norm.scale(keys.sum(1) + kept + constant)
        keys = norm.divided(keys, scale[:, None])
        kept, constant = norm.divided(kept, scale), norm.divided(constant, scale) + norm.bias
    residual = kept if placement == "post" else residual
    whole = activations[site.block_hook(after)][queries].astype(np.float64)
    return Parts(whole, keys, residual, constant)
