"""One mask in the notations of different libraries, and the effect of mixing them up.

The renderings (ways to write a mask) and the readers (code that a mask is passed to) are those of
tutorials and torch. Each pair runs on the scores of a head, so its effect is measured.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from explorer.analysis.cases.case import Case, Measured, Result, ResultRow
from explorer.numerics import masked_softmax
from explorer.runs.trace import Trace
from models.hooks import AttentionSite

SILENT, LOUD = ("inverted", "unmasked", "wrong"), ("nan", "refused")
"""Wrong outcomes, without an error and with one."""
ROUNDING = 1e-5
"""Differences between weights up to this are float32 rounding."""
SHOWN = 5e-4
"""The weight on blocked keys above which it is mentioned."""


# A mask as it is written, from a mask with True = may attend.


def ones(keep: Tensor) -> Tensor:
    """1 = may attend, 0 = blocked; causal: `torch.tril(torch.ones(n, n))`."""
    return keep.float()


def may_attend(keep: Tensor) -> Tensor:
    """True = may attend; causal: `torch.ones(n, n, dtype=torch.bool).tril()`."""
    return keep


def blocked(keep: Tensor) -> Tensor:
    """True = blocked; causal: `torch.ones(n, n, dtype=torch.bool).triu(diagonal=1)`."""
    return ~keep


def infinite(keep: Tensor) -> Tensor:
    """0 = may attend, -inf = blocked; causal: `torch.full((n, n), -inf).triu(diagonal=1)`."""
    return torch.zeros(keep.shape).masked_fill(~keep, -math.inf)


def billion(keep: Tensor) -> Tensor:
    """0 = may attend, -1e9 = blocked; causal: `torch.full((n, n), -1e9).triu(diagonal=1)`."""
    return torch.zeros(keep.shape).masked_fill(~keep, -1e9)


WRITTEN: dict[str, Callable[[Tensor], Tensor]] = {
    "ones": ones,
    "keep": may_attend,
    "blocked": blocked,
    "infinite": infinite,
    "billion": billion,
}


# What reads a mask: (scores, mask), both [query, key] -> pattern [query, key].


def equals_zero(scores: Tensor, mask: Tensor) -> Tensor:
    """Blocks cells whose mask is 0."""
    return scores.masked_fill(mask == 0, -1e9).softmax(-1)


def true_hides(scores: Tensor, mask: Tensor) -> Tensor:
    """Blocks cells whose mask is True."""
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


READ_BY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "equals_zero": equals_zero,
    "true_hides": true_hides,
    "added": added,
    "sdpa": sdpa,
    "mha": mha,
}


@dataclass(frozen=True)
class Judged:
    """A pattern compared with the right one, for the queries that may attend to a key.

    `hidden` is the largest weight (0 to 1) that a row puts on blocked keys, `rounding` the largest
    distance of a visible weight from the right one; NaN if every row is NaN. `lost` counts the rows
    with NaN.
    """

    hidden: float
    rounding: float
    lost: int


def judge(pattern: Tensor, right: Tensor, keep: Tensor) -> Judged:
    """Compare a pattern [query, key] with the right one under a mask (True = may attend)."""
    lost, something = pattern.isnan().any(-1), keep.any(-1)
    told = ~lost & something
    n_lost = int((lost & something).sum())
    if not told.any():
        return Judged(math.nan, math.nan, n_lost)
    weights, mask = pattern[told], keep[told]
    hidden = min(1.0, float((weights * ~mask).sum(-1).max()))
    return Judged(hidden, float(((weights - right[told]).abs() * mask).max()), n_lost)


def notation(trace: Trace, site: AttentionSite, head: int, rendering: str, reader: str) -> Result:
    """Pass every rendering of a head's mask to every reader, with the head's own scores; the pair
    of `rendering` and `reader` is open."""
    scores = torch.tensor(trace.activations[site.hook("scores")][head])
    return pairs(scores, torch.tensor(trace.mask(site.name)[head]), rendering, reader, site.name)


def pairs(
    scores: Float[Tensor, "query key"],
    keep: Bool[Tensor, "query key"],
    rendering: str = "keep",
    reader: str = "mha",
    site: str = "",
) -> Result:
    """Pass a mask (True = may attend), in every rendering, to every reader with these scores."""
    right, rows = masked_softmax(scores, keep), []
    numbers: dict[str, float | str] = {}
    shown = Measured()
    for name, read in product(WRITTEN, READ_BY):
        pattern, outcome, error = None, "refused", ""
        judged = Judged(math.nan, math.nan, 0)
        try:
            pattern = READ_BY[read](scores, WRITTEN[name](keep))
            judged, outcome = judge(pattern, right, keep), _outcome(pattern, right, scores, keep)
        except (RuntimeError, AssertionError) as refused:  # torch rejects the dtype of the mask
            error = str(refused).splitlines()[0]
        pair = {
            "rendering": f"masks.renderings.{name}",
            "reader": f"masks.readers.{read}",
            "outcome": f"cases.outcomes.{outcome}",
        }
        share = judged.hidden if judged.hidden > SHOWN else math.nan
        values = (judged.hidden, float(judged.lost))
        rows.append(
            ResultRow(pair["rendering"], values, pair["reader"], ((outcome, share),), error)
        )
        if (name, read) == (rendering, reader):
            numbers |= pair | {"hidden": 100 * judged.hidden, "lost": judged.lost}
            shown = Measured(picture=pattern, site=site, error=error)
    kinds = {"right": ("right",), "silent": SILENT, "loud": LOUD}
    for kind, words in kinds.items():
        numbers[kind] = sum(row.outcomes[0][0] in words for row in rows)
    return Result(
        verdict="",
        columns=("hidden_mass", "nan_rows"),
        rows=rows,
        why=("reading",),
        numbers=numbers | {"count": len(rows)},
        ways=(shown, Measured(picture=right, site=site, keep=keep)),
        opened=("open",) if math.isnan(float(numbers["hidden"])) else ("open", "weights"),
        grids=("outcome",),
        code=(WRITTEN[rendering], READ_BY[reader]),
    )


def _outcome(pattern: Tensor, right: Tensor, scores: Tensor, keep: Tensor) -> str:
    """The outcome for queries with visible keys."""
    something = keep.any(-1)
    told = ~pattern.isnan().any(-1) & something
    if not told.any():
        return "nan" if something.any() else "right"
    mine, mask = pattern[told], keep[told]
    if (mine - right[told]).abs().max() < ROUNDING:
        return "right" if bool((told == something).all()) else "nan"
    mixed = ~mask.all(-1)
    if mixed.any() and ((mine * ~mask).sum(-1)[mixed] > 1 - ROUNDING).all():
        return "inverted"
    return "unmasked" if (mine - scores[told].softmax(-1)).abs().max() < ROUNDING else "wrong"


NOTATION = Case("notation", "notation", notation)
