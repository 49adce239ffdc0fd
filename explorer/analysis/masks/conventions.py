"""One mask as different libraries write it, and what happens when one is given to another's code.

The renderings and the readers are those that tutorials and torch use; each pair of them is run on
the scores of a head, so what a wrong pair does is measured, not remembered.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from explorer.analysis.masks.softmax import masked_softmax
from explorer.runs.trace import Trace
from models.hooks import AttentionSite
from models.masks import causal_mask

RenderingName = Literal["ones", "keep", "blocked", "infinite", "billion"]
ReaderName = Literal["equals_zero", "true_hides", "added", "sdpa", "mha"]
Outcome = Literal["right", "inverted", "unmasked", "wrong", "nan", "refused"]
RENDERINGS: tuple[RenderingName, ...] = get_args(RenderingName)
READERS: tuple[ReaderName, ...] = get_args(ReaderName)
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
ROUNDING = 1e-5
"""Weights closer than this differ by the rounding of float32."""


# The causal mask of n tokens, as it is written.


def causal_ones(n: int) -> Float[Tensor, "query key"]:
    """1 = may attend, 0 = blocked."""
    return torch.tril(torch.ones(n, n))


def causal_keep(n: int) -> Bool[Tensor, "query key"]:
    """True = may attend."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def causal_blocked(n: int) -> Bool[Tensor, "query key"]:
    """True = blocked."""
    return torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)


def causal_infinite(n: int) -> Float[Tensor, "query key"]:
    """0 = may attend, -inf = blocked: to be added."""
    return torch.triu(torch.full((n, n), float("-inf")), diagonal=1)


def causal_billion(n: int) -> Float[Tensor, "query key"]:
    """0 = may attend, -1e9 = blocked: to be added."""
    return torch.triu(torch.full((n, n), -1e9), diagonal=1)


@dataclass(frozen=True)
class Rendering:
    """One way to write a mask: a causal one, any of ours, and back to ours."""

    causal: Callable[[int], Tensor]
    write: Callable[[Tensor], Tensor]
    read: Callable[[Tensor], Tensor]


def _added(keep: Tensor, fill: float) -> Tensor:
    return torch.zeros(keep.shape).masked_fill(~keep, fill)


WRITTEN: dict[RenderingName, Rendering] = {
    "ones": Rendering(causal_ones, lambda keep: keep.float(), lambda mask: mask != 0),
    "keep": Rendering(causal_keep, lambda keep: keep, lambda mask: mask),
    "blocked": Rendering(causal_blocked, lambda keep: ~keep, lambda mask: ~mask),
    "infinite": Rendering(
        causal_infinite, lambda keep: _added(keep, -math.inf), lambda mask: mask == 0
    ),
    "billion": Rendering(causal_billion, lambda keep: _added(keep, -1e9), lambda mask: mask == 0),
}


# What reads a mask: (scores, mask), both [query, key] -> pattern [query, key].


def equals_zero(scores: Tensor, mask: Tensor) -> Tensor:
    """Hides where the mask is 0."""
    return scores.masked_fill(mask == 0, -1e9).softmax(-1)


def true_hides(scores: Tensor, mask: Tensor) -> Tensor:
    """Hides where the mask is True."""
    return scores.masked_fill(mask, float("-inf")).softmax(-1)


def added(scores: Tensor, mask: Tensor) -> Tensor:
    """Adds the mask to the scores."""
    return (scores + mask).softmax(-1)


def sdpa(scores: Tensor, mask: Tensor) -> Tensor:
    """torch's fused function: Bool True = may attend; floats are added.

    It is given queries and keys whose scaled product is `scores`, and one-hot values, so that its
    output is the pattern.
    """
    n_key = scores.shape[-1]
    q, eye = (scores * math.sqrt(n_key))[None, None], torch.eye(n_key)[None, None]
    return F.scaled_dot_product_attention(q, eye, eye, attn_mask=mask[None, None])[0, 0]


def mha(scores: Tensor, mask: Tensor) -> Tensor:
    """torch's module: Bool True = blocked; floats are added. Fed as `sdpa` is."""
    n_key = scores.shape[-1]
    module = nn.MultiheadAttention(n_key, 1, bias=False, device="meta").to_empty(device="cpu")
    eye = torch.eye(n_key)
    with torch.no_grad():
        module.in_proj_weight.copy_(eye.repeat(3, 1))
        module.out_proj.weight.copy_(eye)
        _, weights = module(scores * math.sqrt(n_key), eye, eye, attn_mask=mask)
    return weights


READ_BY: dict[ReaderName, Callable[[Tensor, Tensor], Tensor]] = {
    "equals_zero": equals_zero,
    "true_hides": true_hides,
    "added": added,
    "sdpa": sdpa,
    "mha": mha,
}


@dataclass(frozen=True, eq=False)
class Handed:
    """One rendering given to one reader.

    `hidden` is the most weight (0 to 1) that a row puts on blocked keys, `nan_rows` how many rows
    that may attend to something are NaN, `difference` the largest distance of any weight from the
    right one, among rows that are numbers. `pattern` [query, key] is what came out, None where it
    was `refused` with that message.
    """

    rendering: RenderingName
    reader: ReaderName
    outcome: Outcome
    hidden: float = math.nan
    nan_rows: int = 0
    difference: float = math.nan
    refused: str = ""
    pattern: Float[np.ndarray, "query key"] | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Conventions:
    """The mask of a head in every rendering, each given to every reader.

    `keep` is the mask that the model applied, `right` the pattern that belongs to it (both
    [query, key]); `alike` is how many cells of all renderings, converted back, equal `keep`, of
    `cells`. `causal` is whether `keep` is the causal mask, made as tutorials make it.
    """

    keep: Bool[np.ndarray, "query key"]
    right: Float[np.ndarray, "query key"] = field(repr=False)
    renderings: dict[RenderingName, np.ndarray] = field(repr=False)
    handed: tuple[Handed, ...] = field(repr=False)
    alike: int
    cells: int
    causal: bool

    def of(self, rendering: RenderingName, reader: ReaderName) -> Handed:
        """What came of one pair."""
        return self.handed[RENDERINGS.index(rendering) * len(READERS) + READERS.index(reader)]

    @property
    def readers_of_all(self) -> int:
        """How many readers give the right weights for every rendering."""
        return sum(
            all(self.of(one, other).outcome == "right" for one in RENDERINGS) for other in READERS
        )

    def count(self, *outcomes: Outcome) -> int:
        """How many pairs ended so."""
        return sum(each.outcome in outcomes for each in self.handed)


def conventions(traced: Trace, site: AttentionSite, head: int) -> Conventions:
    """Every rendering of a head's mask given to every reader, on the head's own scores."""
    scores = torch.tensor(traced.activations[site.hook("scores")][head])
    return compared(scores, torch.tensor(traced.mask(site.name)[head]))


def compared(scores: Float[Tensor, "query key"], keep: Bool[Tensor, "query key"]) -> Conventions:
    """The same for any scores and any mask of ours, True = may attend."""
    n_query, n_key = keep.shape
    is_causal = n_query == n_key and bool((keep == causal_mask(n_query)).all())
    written = {
        name: way.causal(n_query) if is_causal else way.write(keep) for name, way in WRITTEN.items()
    }
    back = [WRITTEN[name].read(mask) for name, mask in written.items()]
    right = masked_softmax(scores, keep)
    return Conventions(
        keep=keep.numpy(),
        right=right.numpy(),
        renderings={name: mask.numpy() for name, mask in written.items()},
        handed=tuple(
            _handed(rendering, reader, scores, keep, written[rendering], right)
            for rendering in RENDERINGS
            for reader in READERS
        ),
        alike=sum(int((mask == keep).sum()) for mask in back),
        cells=len(back) * keep.numel(),
        causal=is_causal,
    )


def _handed(
    rendering: RenderingName,
    reader: ReaderName,
    scores: Tensor,
    keep: Tensor,
    mask: Tensor,
    right: Tensor,
) -> Handed:
    try:
        pattern = READ_BY[reader](scores, mask)
    except (RuntimeError, AssertionError) as error:  # what torch refuses a mask's type with
        return Handed(rendering, reader, "refused", refused=str(error).splitlines()[0])
    lost = pattern.isnan().any(-1)
    something = keep.any(-1)
    told = ~lost & something
    hidden = float((pattern * ~keep)[told].sum(-1).max()) if told.any() else 0.0
    apart = float((pattern - right)[told].abs().max()) if told.any() else 0.0
    return Handed(
        rendering=rendering,
        reader=reader,
        outcome=_outcome(pattern, right, scores, keep, told),
        hidden=hidden,
        nan_rows=int((lost & something).sum()),
        difference=apart,
        pattern=pattern.numpy(),
    )


def _outcome(pattern: Tensor, right: Tensor, scores: Tensor, keep: Tensor, told: Tensor) -> Outcome:
    """What became of the rows that may attend to something; `told` are those without NaN."""
    if not told.any():
        return "nan" if keep.any() else "right"
    mine, whole = pattern[told], bool((told == keep.any(-1)).all())
    if (mine - right[told]).abs().max() < ROUNDING:
        return "right" if whole else "nan"
    mixed = ~keep[told].all(-1)
    if mixed.any() and ((mine * ~keep[told]).sum(-1)[mixed] > 1 - ROUNDING).all():
        return "inverted"
    if (mine - scores[told].softmax(-1)).abs().max() < ROUNDING:
        return "unmasked"
    return "wrong"
