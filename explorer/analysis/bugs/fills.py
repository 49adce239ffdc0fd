"""Fill values of a mask: -1e4, -1e9, -inf, the lowest value of the dtype; and fully masked rows."""

import math

import numpy as np
import torch
from torch import Tensor

from explorer.analysis.bugs import card
from explorer.analysis.bugs.senses import pattern_fault
from explorer.numerics import masked_softmax, stored
from explorer.runs.trace import Trace

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
FILLS = (-1e4, -1e9, -math.inf)


def hidden_with_ten_thousand(scores: Tensor, keep: Tensor) -> Tensor:
    """-1e4 is an ordinary score: an actual score may be lower."""
    return scores.masked_fill(~keep, -1e4).softmax(-1)


def ten_thousand_added(scores: Tensor, keep: Tensor) -> Tensor:
    """-1e4 added to every hidden key; in a fully masked row, softmax cancels it."""
    return (scores + (~keep).to(scores.dtype) * -1e4).softmax(-1)


def hidden_with_a_billion(scores: Tensor, keep: Tensor) -> Tensor:
    """-1e9: a fully masked row has equal scores, hence equal weights."""
    return scores.masked_fill(~keep, -1e9).softmax(-1)


def hidden_with_infinity(scores: Tensor, keep: Tensor) -> Tensor:
    """-inf: a fully masked row is 0 / 0."""
    return scores.masked_fill(~keep, float("-inf")).softmax(-1)


def a_billion_in_half_precision(scores: Tensor, keep: Tensor) -> Tensor:
    """The lowest float16 is -65504, so -1e9 cannot be used as a fill value."""
    return scores.half().masked_fill(~keep, -1e9).softmax(-1)


def lowest_of_the_type(scores: Tensor, keep: Tensor) -> Tensor:
    """The lowest value of the dtype, whichever it is."""
    half = scores.half()
    return half.masked_fill(~keep, torch.finfo(half.dtype).min).softmax(-1)


def fill_table() -> np.ndarray:
    """[fill, dtype]: -1e4, -1e9, -inf and the lowest value, in float32, bfloat16, float16.

    NaN if `masked_fill` rejects the value.
    """
    rows = [[stored(fill, dtype) for dtype in DTYPES] for fill in FILLS]
    lowest = [stored(torch.finfo(dtype).min, dtype) for dtype in DTYPES]
    return np.array([*rows, lowest])


def nan_rows(layers: int, pattern_of: card.Pattern = hidden_with_infinity) -> int:
    """How many of 4 rows contain a NaN after each attention layer, if row 0 is fully masked."""
    return int(_through_layers(layers, pattern_of)[0].isnan().any(-1).sum())


def _through_layers(layers: int, pattern_of: card.Pattern) -> tuple[Tensor, Tensor]:
    """x [pos, d] after layers x + pattern v, and the weight matrix that all of them share."""
    x, w = card.fixed_scores(1, 1, 4, 6)[0, 0], card.fixed_scores(1, 1, 6, 6, seed=1)[0, 0] / 3
    w.requires_grad_()
    keep = torch.ones(4, 4, dtype=torch.bool)
    keep[0] = False
    for _ in range(layers):
        values = x @ w
        x = x + pattern_of(values @ x.T / math.sqrt(6), keep) @ values
    return x, w


def _nan_gradients(pattern_of: card.Pattern) -> float:
    """The share of NaN in the gradient of w, for a loss that excludes the fully masked row."""
    x, w = _through_layers(1, pattern_of)
    (grad,) = torch.autograd.grad(x[1:].square().sum(), [w])
    return float(grad.isnan().double().mean())


def _small_fill(traced: Trace | None = None) -> card.Demonstration:
    """Scores below the fill value, where the hidden key wins; and the user's lowest score."""
    scores = torch.tensor([-12000.0, -12001.0, 3.0])[None, None, None]
    keep = torch.tensor([True, True, False])[None, None, None]
    bad, good = hidden_with_ten_thousand(scores, keep), masked_softmax(scores, keep)
    figures = [
        card.Figure("hidden_mass", card.hidden_mass(bad, keep), card.hidden_mass(good, keep))
    ]
    own = card.own_case(traced, card.decoder_self)
    if own is not None:  # the user's lowest score, for comparison with the fill value
        lowest = float(own[0].min())
        figures.append(card.Figure("lowest_score", lowest, lowest))
    return card.Demonstration(tuple(figures), bad[0].numpy(), good[0].numpy())


def _added_fill(traced: Trace | None = None) -> card.Demonstration:
    """A fully masked row: adding the same number to all scores changes nothing."""
    scores = torch.tensor([1.0, -1.0, 0.0])[None, None, None]
    keep = torch.zeros(1, 1, 1, 3, dtype=torch.bool)
    bad, good = ten_thousand_added(scores, keep), masked_softmax(scores, keep)
    return card.Demonstration(
        (card.Figure("hidden_mass", float(bad.sum()), float(good.sum())),),
        bad[0].numpy(),
        good[0].numpy(),
    )


def _empty_row_nan(traced: Trace | None = None) -> card.Demonstration:
    """A fully masked row, filled with minus infinity."""
    return _empty_row(hidden_with_infinity)


def _empty_row_uniform(traced: Trace | None = None) -> card.Demonstration:
    """A fully masked row, filled with minus a billion."""
    return _empty_row(hidden_with_a_billion)


def _empty_row(wrong: card.Pattern) -> card.Demonstration:
    scores, keep = card.fixed_scores(1, 1, 4, 4), torch.ones(1, 1, 4, 4).tril(-1).bool()
    bad, good = wrong(scores, keep), masked_softmax(scores, keep)
    return card.Demonstration(
        figures=(
            card.Figure("empty_row_weight", float(bad[0, 0, 0, 0]), float(good[0, 0, 0, 0])),
            card.Figure("nan_rows", nan_rows(1, wrong), nan_rows(1, masked_softmax), of="1"),
            card.Figure("nan_rows", nan_rows(2, wrong), nan_rows(2, masked_softmax), of="2"),
            card.Figure("nan_gradients", _nan_gradients(wrong), _nan_gradients(masked_softmax)),
        ),
        wrong=bad[0].numpy(),
        right=good[0].numpy(),
    )


def _mass(pattern_of: card.Pattern) -> float:
    """The weight on hidden keys in a row of fixed scores; NaN if the lines raise an error."""
    scores = card.fixed_scores()
    keep = card.causal_keep(scores)
    try:
        return card.hidden_mass(pattern_of(scores, keep), keep)
    except RuntimeError:
        return math.nan


def _half(traced: Trace | None = None) -> card.Demonstration:
    """The stored value of some fills per dtype; the dtype's lowest value can always be stored."""
    table = fill_table()
    lowest = table[-1]
    return card.Demonstration(
        figures=(
            *(
                card.Figure("stored_fill", float(table[1, column]), float(lowest[column]), of=name)
                for column, name in enumerate(("float32", "bfloat16", "float16"))
            ),
            card.Figure(
                "hidden_mass", _mass(a_billion_in_half_precision), _mass(lowest_of_the_type)
            ),
        ),
        wrong=table[:3],
        right=np.broadcast_to(lowest, (3, 3)),
    )


FILL_PITFALLS = (
    pattern_fault("small_fill", hidden_with_ten_thousand, _small_fill, group="fills"),
    pattern_fault("added_fill", ten_thousand_added, _added_fill, group="fills"),
    card.Pitfall(
        id="half_fill",
        group="fills",
        wrong=a_billion_in_half_precision,
        right=lowest_of_the_type,
        demonstrate=_half,
    ),
    pattern_fault("empty_row_nan", hidden_with_infinity, _empty_row_nan, group="fills"),
    pattern_fault("empty_row_uniform", hidden_with_a_billion, _empty_row_uniform, group="fills"),
)
