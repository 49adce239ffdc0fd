"""Forms of the loss that are easily confused, on the same logits, each with its minimum."""

import math
from dataclasses import dataclass

import numpy as np

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.machine.further import is_open
from explorer.library import SMALL
from explorer.numbers import fixed
from explorer.numerics import log_softmax
from explorer.runs.rerun import written_tokens
from explorer.runs.trace import Trace

SMOOTHING = 0.1


@dataclass(frozen=True)
class LossForm:
    """The mean loss of the written tokens in nats, and the minimum over all possible logits."""

    name: str
    loss: float
    floor: float


def loss_forms(trace: Trace) -> tuple[LossForm, ...]:
    """Each form on the Trace's logits; empty if nothing is predicted after a token.

    plain      - ln p of the next token
    smoothed   1 - e on the token, e spread over all V tokens, including itself (torch's form)
    others     1 - e on the token, e spread over the V - 1 others
    softmax    probabilities passed to a loss that expects logits: the softmax of a softmax
    unshifted  labels not shifted by one: each token must predict itself
    """
    tokens = list(written_tokens(trace))
    if not trace.config.generates or not tokens:
        return ()
    logits = trace.logits[: len(tokens)].astype(np.float64)
    n, vocab = logits.shape
    logprobs = log_softmax(logits)
    at, own = np.arange(n), list(trace.tgt_tokens[:n])
    right, mean = float(logprobs[at, tokens].mean()), float(logprobs.mean())
    again = float(log_softmax(np.exp(logprobs))[at, tokens].mean())
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


def _entropy(p: float) -> float:
    return -p * math.log(p)


def show(found: tuple[LossForm, ...], view: View) -> b.Blocks:
    """The forms in a table; nothing for a model that fills in masks."""
    if not found:
        return
    yield b.Title(view.t("swaps.losses"))
    head = [view.t(f"swaps.{name}") for name in ("form", "value", "floor")]
    rows = [
        (view.t(f"swaps.{each.name}"), fixed(each.loss, 4), fixed(each.floor, 4)) for each in found
    ]
    yield b.Table(head, rows)
    by_name = {each.name: each for each in found}
    values = {
        "apart": fixed(abs(by_name["others"].loss - by_name["smoothed"].loss), 4),
        "floor": fixed(by_name["softmax"].floor),
        "chance": fixed(float(np.log(view.loaded.config.vocab_size))),
    }
    yield b.Sentence("losses", view.t("swaps.losses_reading", **values))
    yield b.Code((loss_forms,), first=True)


def _is_open(view: View) -> bool:
    """Below the differences, which large models do not have."""
    return is_open("differences", view) and view.loaded.n_parameters <= SMALL


EXHIBIT = Exhibit(loss_forms, show, open=_is_open)
