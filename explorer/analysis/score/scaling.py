"""Scores divided by nothing, by sqrt(d_head) or by sqrt(d_model), and the softmax of each.

q . k of d_head independent features has the variance d_head. Undivided, softmax saturates: one key
takes all the weight and the gradient vanishes. Divided by sqrt(d_model), a common mistake, it is
too flat. Vaswani et al. 2017, §3.2.1.
"""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.heads.measures import entropy
from explorer.analysis.score.steps import attended, bias_of
from explorer.runs.trace import Trace
from models.attention import capped
from models.hooks import AttentionSite

Scaling = Literal["none", "head", "model"]
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)


@dataclass(frozen=True, eq=False)
class ScaledHead:
    """One head under one scaling: its allowed scores, and means over its rows of real tokens.

    `entropy` is in bits; `top` is the largest weight of a row, 0 to 1; `gradient` is the Frobenius
    norm of the softmax Jacobian diag(p) - p p^T. Rows with fewer than two allowed keys are not
    counted, since softmax has no choice there; NaN if there are no other rows.
    """

    scaling: Scaling
    divisor: float
    scores: Float[np.ndarray, " allowed"] = field(repr=False)
    pattern: Float[np.ndarray, "query key"] = field(repr=False)
    entropy: float
    top: float
    gradient: float


def divisor_of(scaling: Scaling, d_head: int, d_model: int) -> float:
    """The divisor of q . k."""
    return {"none": 1.0, "head": math.sqrt(d_head), "model": math.sqrt(d_model)}[scaling]


def scaled(traced: Trace, site: AttentionSite, head: int, scaling: Scaling) -> ScaledHead:
    """One head of a Trace with its scores scaled differently. Raises KeyError, IndexError."""
    q, k = (torch.tensor(traced.activations[site.hook(what)]) for what in "qk")
    config, mask, biases = traced.config, traced.mask(site.name), bias_of(traced, site)
    divisor = divisor_of(scaling, config.d_head, config.d_model)
    weights = attended(traced, site, divisor=divisor)[1][0, head].numpy()
    valid = traced.src_valid if site.query_stream == "src" else traced.tgt_valid
    allowed = mask[head] & valid[:, None]
    rows = weights[allowed.sum(1) > 1]
    dots = q[head] @ k[head * len(k) // len(q)].T
    scores = capped(dots / divisor, config.score_cap).numpy()
    scores = scores if biases is None else scores + biases[head]  # which are not divided
    return ScaledHead(
        scaling=scaling,
        divisor=divisor,
        scores=scores[allowed],
        pattern=weights,
        entropy=mean_of(entropy(rows)),
        top=mean_of(rows.max(1, initial=0.0)),
        gradient=mean_of(softmax_gradient(rows)),
    )


def softmax_gradient(pattern: Float[np.ndarray, "*rows key"]) -> Float[np.ndarray, "*rows"]:
    """||diag(p) - p p^T|| (Frobenius) of each row p: how much softmax lets a gradient through."""
    p = np.asarray(pattern, np.float64)
    square = (p**2).sum(-1)
    return np.asarray(np.sqrt(np.maximum(square - 2 * (p**3).sum(-1) + square**2, 0.0)))


def mean_of(values: Float[np.ndarray, " row"]) -> float:
    """The mean; NaN for an empty array."""
    return float(values.mean()) if len(values) else math.nan
