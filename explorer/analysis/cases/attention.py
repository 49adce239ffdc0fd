"""Claims about attention: variance and saturation."""

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.cases.case import Result, ResultRow, curve_of, judged
from explorer.analysis.heads.measures import entropy
from explorer.analysis.score.steps import Scaling, scaled, softmax_gradient
from explorer.runs.trace import Trace

WIDTHS = (4, 16, 64, 256, 1024)
Draw = Callable[[tuple[int, ...], torch.Generator], Tensor]


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Independent standard normal entries."""
    return torch.randn(shape, generator=generator)


def variance(traced: Trace, draw: Draw = _normal) -> Result:
    """Var(q . k) of entries drawn by `draw`, compared with q = k and with the user's head.

    10 % is five times the error of 8,000 samples.
    """
    generator = torch.Generator().manual_seed(0)
    rows = []
    for width in WIDTHS:
        q, k = draw((2, 8000, width), generator)
        rows.append(_variances("independent", (q * k).sum(-1), width))
    q = torch.randn(8000, 64, generator=generator)
    same = _variances("equal_vectors", (q * q).sum(-1), 64)
    site = traced.sites[0]
    q, k = (torch.tensor(traced.activations[site.hook(what)])[0] for what in ("q", "k"))
    own = _variances("own_head", q @ k.T, traced.config.d_head)
    holds = [abs(row.values[1] - 1) < 0.1 for row in rows]
    verdict = judged(all(holds), false=not any(holds))
    columns = ("variance", "variance_scaled")
    curve = curve_of(rows, columns, "features", "variance")
    return Result(verdict, columns, (*rows, same, own), curve)


def _variances(name: str, dots: Tensor, width: int) -> ResultRow:
    spread = float(dots.double().var())
    return ResultRow(name, (spread, spread / width), of=str(width))


def saturation(traced: Trace, width: int = 1024) -> Result:
    """Softmax with and without division by sqrt(d): random queries and keys of `width` features,
    and the user's heads."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 400, 16, width, generator=generator)
    dots = (q[:, :1] @ k.transpose(1, 2))[:, 0]
    rows = [
        _softness(name, (dots / divisor).softmax(-1).numpy())
        for name, divisor in (("random_none", 1.0), ("random_head", math.sqrt(width)))
    ]
    scalings: tuple[tuple[str, Scaling], ...] = (("own_none", "none"), ("own_scaled", "head"))
    for name, scaling in scalings:
        heads = [
            scaled(traced, site, head, scaling)
            for site in traced.sites
            for head in range(site.n_heads)
        ]
        seen = [head for head in heads if not math.isnan(head.top)]
        means = [np.mean([getattr(h, what) for h in seen] or [math.nan]) for what in _SOFT]
        rows.append(ResultRow(name, tuple(float(mean) for mean in means)))
    gradients = [row.values[2] for row in rows]
    gone = [2 * gradients[0] < gradients[1], 2 * gradients[2] < gradients[3]]
    verdict = judged(all(gone), false=not any(gone))
    return Result(verdict, _SOFT, rows, bars="gradient")


_SOFT = ("top", "entropy", "gradient")


def _softness(name: str, pattern: Float[np.ndarray, "row key"]) -> ResultRow:
    values = (pattern.max(1), entropy(pattern), softmax_gradient(pattern))
    return ResultRow(name, tuple(float(value.mean()) for value in values))
