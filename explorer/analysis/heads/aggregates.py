"""Aggregated patterns shown like heads: the mean of each layer, and rollout."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float

from explorer.analysis.heads.rollout import cross_rollout, mean_head, rollout
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, Role

MAX_ROWS = 256
"""Longer sequences have no aggregates: for 30 layers they would take 160 MB at 1,024 tokens."""


@dataclass(frozen=True, eq=False)
class Aggregate:
    """One aggregate: its `name` for links, the `layer` that it is the mean of (None: all layers).

    `mask` False = no open cell of the model leads from this query to this key.
    """

    name: str
    layer: int | None
    pattern: Float[np.ndarray, "query key"] = field(repr=False)
    mask: Bool[np.ndarray, "query key"] = field(repr=False)


def aggregates_of(traced: Trace, kind: Role) -> tuple[Aggregate, ...]:
    """The aggregates of one kind: "mean-1" … per layer, and "rollout" through all layers; that of
    cross-attention goes through the encoder too.

    Sequences of more than `MAX_ROWS` tokens have none.
    Raises ValueError for a kind that the model does not have.
    """
    sites = traced.sites_of(kind)
    if not sites:
        raise ValueError(f"{traced.model} has no attention of the kind {kind!r}")
    rows = (traced.query_tokens(sites[0].name), traced.key_tokens(sites[0].name))
    if max(map(len, rows)) > MAX_ROWS:
        return ()
    means = [
        Aggregate(
            f"mean-{site.layer + 1}",
            site.layer,
            mean_head(traced, site.name).astype(np.float32),
            _seen(traced, site),
        )
        for site in sites
    ]
    open_cells = _open_cells(traced, kind)
    rolled = cross_rollout(traced).aligned[-1] if kind == "cross" else rollout(traced, kind)[-1]
    return (*means, Aggregate("rollout", None, rolled.astype(np.float32), open_cells))


def _seen(traced: Trace, site: AttentionSite) -> Bool[np.ndarray, "query key"]:
    """The cells that at least one head of a site may attend to."""
    return np.asarray(traced.mask(site.name).any(axis=0))


def _open_cells(traced: Trace, kind: Role) -> Bool[np.ndarray, "query key"]:
    """The keys that can influence a query through all layers, by the masks that were applied."""
    if kind != "cross":
        return _reach(traced, kind)[-1]
    encoded = _reach(traced, "encoder")[-1]
    known = np.zeros((len(traced.tgt_tokens), len(traced.src_tokens)), np.bool_)
    for own, crossing in zip(traced.sites_of("decoder"), traced.sites_of("cross"), strict=True):
        known = known | _seen(traced, own) @ known | _seen(traced, crossing) @ encoded
    return known


def _reach(traced: Trace, kind: Role) -> Bool[np.ndarray, "layer query key"]:
    """Keys that self-attention can reach up to each layer; the residual keeps the diagonal open."""
    reach = np.eye(len(traced.query_tokens(traced.sites_of(kind)[0].name)), dtype=np.bool_)
    layers = []
    for site in traced.sites_of(kind):
        reach = reach | _seen(traced, site) @ reach
        layers.append(reach)
    return np.stack(layers)
