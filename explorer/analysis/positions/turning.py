"""Rotary positions in detail: one query and one key, pair by pair, rotated by their positions.

Both layouts of pairs: interleaved, (0, 1), (2, 3), ..., as in `models.positions`; and half-split,
(0, d/2), (1, d/2 + 1), ..., as in other code. They differ by a fixed permutation of the features.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from explorer.analysis.positions.changes import stack_module
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from models.positions import Rotation, frequencies, rotate

Layout = Literal["interleaved", "half"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
Angles = Float[np.ndarray, " pair"]


@dataclass(frozen=True, eq=False)
class Turned:
    """A query and a key of one head as arrows, one for each pair of features.

    `q`, `k` [pair, 2] are before the rotation, `q_turned`, `k_turned` after it; `angles` are in
    radians per position; `contributions` [pair] add up to `score` = q . k / divisor after the
    rotation, before any cap.
    """

    q: Float[np.ndarray, "pair 2"]
    k: Float[np.ndarray, "pair 2"]
    q_turned: Float[np.ndarray, "pair 2"]
    k_turned: Float[np.ndarray, "pair 2"]
    angles: Float[np.ndarray, " pair"]
    contributions: Float[np.ndarray, " pair"]

    @property
    def score(self) -> float:
        return float(self.contributions.sum())


def pairs_of(d_head: int, layout: Layout) -> Int[np.ndarray, "pair 2"]:
    """The two features of each pair."""
    if layout == "interleaved":
        return np.arange(d_head).reshape(-1, 2)
    return np.stack((np.arange(d_head // 2), np.arange(d_head // 2, d_head)), axis=1)


def rotate_as(
    x: Float[Tensor, "batch head pos d_head"],
    positions: Int[Tensor, "pos"],
    angles: Angles,
    layout: Layout,
) -> Float[Tensor, "batch head pos d_head"]:
    """`models.positions.rotate` for either layout: half-split features are paired, rotated
    and put back. Raises ValueError for an odd d_head."""
    order = torch.from_numpy(pairs_of(x.shape[-1] // 2 * 2, layout).reshape(-1))
    if x.shape[-1] % 2:
        raise ValueError(f"rotary positions need pairs of features: {x.shape[-1]} is odd")
    return rotate(x[..., order], _rotation(positions, angles))[..., order.argsort()]


def _rotation(positions: Int[Tensor, "pos"], angles: Angles) -> Rotation:
    turned = positions.double()[:, None] * torch.from_numpy(angles)
    return turned.cos()[None, None], turned.sin()[None, None]


def bare(
    loaded: LoadedModel, traced: Trace, site: str, head: int, what: Literal["q", "k"]
) -> Float[np.ndarray, "pos d_head"]:
    """The queries or keys of a query head before any rotation, float64.

    A rotary model's hook points come after the rotation, so it is undone.
    """
    activations = traced.activations[traced.site(site).hook(what)]
    group = loaded.config.n_heads // loaded.config.kv_heads
    vectors = torch.from_numpy(activations[head // group if what == "k" else head].copy()).double()
    if not turns(loaded, site):
        return vectors.numpy()
    back = _rotation(-torch.arange(len(vectors)), angles_of(loaded, traced, site))
    return rotate(vectors[None, None], back)[0, 0].numpy()


def angles_of(loaded: LoadedModel, traced: Trace, site: str) -> Angles:
    """Radians per position by which each pair of a head's features is rotated at a site of this
    run, 0 for features that are not rotated. A model that rotates nothing gets RoPE's angles."""
    config, at = loaded.config, loaded.site(site)
    rates = frequencies(config.n_turned, config.rope_base)
    stack = stack_module(loaded, at.query_stream)
    if stack is not None and turns(loaded, site):
        valid = traced.src_valid if at.query_stream == "src" else traced.tgt_valid
        first, last = torch.tensor([[1]]), torch.tensor([[int(valid.sum()) - 1]])
        placement = stack.positions.place(first, last)
        if config.looks_near(at.layer) and placement.near is not None:
            placement = placement.near
        assert placement.rotation is not None
        cos, sin = placement.rotation
        rates = torch.atan2(sin, cos)[0, 0, 0]
    angles = np.zeros(config.d_head // 2)
    angles[: len(rates)] = rates.numpy()
    return angles


def turns(loaded: LoadedModel, site: str) -> bool:
    """Whether the model itself rotates the queries and keys of this site."""
    at = loaded.site(site)
    return at.kind == "self" and loaded.config.turns(at.layer)


def turned(
    loaded: LoadedModel,
    traced: Trace,
    site: str,
    head: int,
    query: int,
    key: int,
    layout: Layout = "interleaved",
) -> Turned:
    """The query and key at two positions of a head, pair by pair, before and after rotation."""
    angles = angles_of(loaded, traced, site)
    at = pairs_of(loaded.config.d_head, layout)
    q = bare(loaded, traced, site, head, "q")[query]
    k = bare(loaded, traced, site, head, "k")[key]
    q_turned, k_turned = (turn(q, [query], angles, layout)[0], turn(k, [key], angles, layout)[0])
    return Turned(
        q=q[at],
        k=k[at],
        q_turned=q_turned[at],
        k_turned=k_turned[at],
        angles=angles,
        contributions=(q_turned[at] * k_turned[at]).sum(1) / loaded.config.divisor,
    )


def score_by_offset(
    q: Float[np.ndarray, " d_head"],
    k: Float[np.ndarray, " d_head"],
    offsets: Int[np.ndarray, " offset"],
    angles: Angles,
    divisor: float,
    layout: Layout = "interleaved",
) -> Float[np.ndarray, " offset"]:
    """q . k / divisor if the query were `offset` positions after the key; nothing else
    changes, so this is the effect of position alone."""
    return turn(q, offsets.tolist(), angles, layout) @ k / divisor


def turn(
    x: Float[np.ndarray, "... d_head"], positions: list[int], angles: Angles, layout: Layout
) -> Float[np.ndarray, "pos d_head"]:
    """Vectors rotated to these positions; a single one is rotated to each of them."""
    at = torch.tensor(positions)
    wide = torch.from_numpy(np.broadcast_to(x, (len(positions), x.shape[-1])).copy())
    return rotate_as(wide[None, None], at, angles, layout)[0, 0].numpy()
