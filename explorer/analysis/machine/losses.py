"""Forms of the loss that are easily confused, on the same logits, each with its minimum."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from explorer.runs.rerun import written_tokens
from explorer.runs.trace import Trace

SMOOTHING = 0.1


@dataclass(frozen=True)
class LossForm:
    """The mean loss of the written tokens in nats, and the minimum over all possible logits."""

    name: str
    loss: float
    floor: float


def loss_forms(traced: Trace) -> tuple[LossForm, ...]:
    """Each form on the Trace's logits; empty if nothing is predicted after a token.

    plain      - ln p of the next token
    smoothed   1 - e on the token, e spread over all V tokens, including itself (torch's form)
    others     1 - e on the token, e spread over the V - 1 others
    softmax    probabilities passed to a loss that expects logits: the softmax of a softmax
    unshifted  labels not shifted by one: each token must predict itself
    """
    tokens = list(written_tokens(traced))
    if traced.predicts != "next" or not tokens:
        return ()
    logits = traced.logits[: len(tokens)].astype(np.float64)
    n, vocab = logits.shape
    logprobs = _log_softmax(logits)
    at, own = np.arange(n), list(traced.tgt_tokens[:n])
    right, mean = float(logprobs[at, tokens].mean()), float(logprobs.mean())
    again = float(_log_softmax(np.exp(logprobs))[at, tokens].mean())
    e, rest = SMOOTHING, SMOOTHING / (vocab - 1)
    spread = e / vocab
    return (
        LossForm("plain", -right, 0.0),
        LossForm(
            "smoothed",
            -(1 - e) * right - e * mean,
            _entropy(1 - e + spread) + (vocab - 1) * _entropy(spread),
        ),
        LossForm(
            "others",
            -(1 - e - rest) * right - rest * vocab * mean,
            _entropy(1 - e) + (vocab - 1) * _entropy(rest),
        ),
        LossForm("softmax", -again, math.log(math.e + vocab - 1) - 1),
        LossForm("unshifted", -float(logprobs[at, own].mean()), 0.0),
    )


def _log_softmax(x: Float[np.ndarray, "row vocab"]) -> Float[np.ndarray, "row vocab"]:
    shifted = x - x.max(1, keepdims=True)
    logprobs: np.ndarray = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return logprobs


def _entropy(p: float) -> float:
    return -p * math.log(p)
