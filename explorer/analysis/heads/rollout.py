"""Attention over several layers as one matrix: rollout, and the mean of a layer's heads.

Rollout (Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", §3) averages a layer's
heads, gives the residual connection half of each row, and multiplies the layers.
Its limits: all heads count alike whatever the norm of their output, feed-forward nets and norms are
assumed to mix no positions and change no norms, and the half is an assumption, not a measurement.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from explorer.runs.rerun import heads_off
from explorer.runs.trace import Trace
from models.hooks import Role

RESIDUAL = 0.5  # the share of a row that Abnar & Zuidema give to the residual connection


@dataclass(frozen=True, eq=False)
class CrossRollout:
    """The sources of a decoder position's state after each layer; a row of both adds up to 1.

    `source[layer, tgt, src]` is the share of each source token, `target[layer, tgt, tgt]` the share
    of each token of the decoder's own input.
    """

    source: Float[np.ndarray, "layer tgt src"]
    target: Float[np.ndarray, "layer tgt tgt"]

    @property
    def aligned(self) -> Float[np.ndarray, "layer tgt src"]:
        """`source` with every row scaled to add up to 1; an all-zero row stays 0."""
        whole = self.source.sum(-1, keepdims=True)
        return np.divide(self.source, whole, out=np.zeros_like(self.source), where=whole > 0)


def mean_head(traced: Trace, site: str) -> Float[np.ndarray, "query key"]:
    """The mean over a site's heads, in float64. A head that an edit switched off counts as zeros.

    A blocked cell is exactly 0. Raises KeyError.
    """
    pattern = traced.pattern(site).astype(np.float64)
    pattern[heads_off(traced, site)] = 0.0
    return pattern.mean(0)


def layer_mixes(traced: Trace, kind: Role) -> Float[np.ndarray, "layer query key"]:
    """Per layer of a kind of self-attention: (mean head + identity) / 2, rows scaled to 1.

    A fully masked row is the residual alone. Raises ValueError for cross-attention, which has no
    residual from its keys, and for a kind that the model lacks.
    """
    sites = traced.sites_of(kind)
    if kind == "cross" or not sites:
        raise ValueError(f"{traced.model} has no self-attention of the kind {kind!r}")
    means = np.stack([mean_head(traced, site.name) for site in sites])
    mixed = RESIDUAL * np.eye(means.shape[1]) + (1 - RESIDUAL) * means
    return mixed / mixed.sum(-1, keepdims=True)


def rollout(traced: Trace, kind: Role) -> Float[np.ndarray, "layer query key"]:
    """Attention rollout up to each layer: mix(l) ... mix(2) mix(1); every row adds up to 1.

    A cell that no path of open cells reaches is exactly 0, so causality and padding hold
    here too; the diagonal is always open, by the residual. In a decoder with cross-attention this
    covers its self-attention only; `cross_rollout` covers both. Raises ValueError as `layer_mixes`.
    """
    mixes = layer_mixes(traced, kind)
    rolled = [mixes[0]]
    for mix in mixes[1:]:
        rolled.append(mix @ rolled[-1])
    return np.stack(rolled)


def cross_rollout(traced: Trace) -> CrossRollout:
    """Rollout through a whole translator, from decoder positions to both streams' tokens.

    With E the encoder's rollout, D(l) and C(l) the mean heads of decoder layer l, T(0) = I and
    S(0) = 0, and mix as in `layer_mixes`:

        after self-attention    T = mix(D(l)) T(l-1)        S = mix(D(l)) S(l-1)
        after cross-attention   T(l) = T / 2                S(l) = S / 2 + C(l) E / 2

    So S is decoder rollout · cross-attention · encoder rollout, summed over the layers in which
    the decoder reads the source. It has rollout's limits, and one more: the source's share is
    the assumed half at each layer, so only its distribution over the source is informative
    (`aligned`), not its total. A row that cross-attention masks fully keeps its whole residual.
    Raises ValueError for a model without cross-attention.
    """
    crossings = traced.sites_of("cross")
    if not crossings:
        raise ValueError(f"{traced.model} has no cross-attention")
    encoded = rollout(traced, "encoder")[-1]
    n_tgt = len(traced.tgt_tokens)
    target, source = np.eye(n_tgt), np.zeros((n_tgt, len(traced.src_tokens)))
    targets, sources = [], []
    for mix, site in zip(layer_mixes(traced, "decoder"), crossings, strict=True):
        crossed = mean_head(traced, site.name)
        whole = RESIDUAL + (1 - RESIDUAL) * crossed.sum(1, keepdims=True)
        target = RESIDUAL * (mix @ target) / whole
        source = (RESIDUAL * (mix @ source) + (1 - RESIDUAL) * crossed @ encoded) / whole
        targets.append(target)
        sources.append(source)
    return CrossRollout(np.stack(sources), np.stack(targets))
