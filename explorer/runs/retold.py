"""The steps of greedy decoding, read from a Trace of the translation instead of computed again."""

import numpy as np
import torch

from explorer.library import LoadedModel
from explorer.runs.generation import Recorded
from explorer.runs.trace import Trace
from models.decoding import DecodeStep
from models.strategies import Greedy, Hypothesis


def greedy_steps(loaded: LoadedModel, trace: Trace, most: int) -> list[Recorded]:
    """The first `most` steps of the translation that `trace` has read, for `generate`.

    If no query attends to a later token, the one pass has the logits and weights of every step, up
    to rounding. Empty if it does, or if this Trace holds no greedy translation or a part of it.
    """
    begun = len(loaded.model.with_marks("tgt", ()))
    tokens = _tokens(loaded, trace, begun, most)
    if not tokens:
        return []
    logits = torch.tensor(trace.logits[begun - 1 :])
    if loaded.marks.pad is not None and loaded.marks.pad == loaded.marks.start:
        logits[:, loaded.marks.pad] = -torch.inf  # as in `models.decoding`
    if logits.isnan().any() or logits.argmax(-1).tolist()[: len(tokens)] != tokens:
        return []
    log_probs, row = logits.log_softmax(-1), torch.tensor([trace.tgt_tokens])
    gains = log_probs[range(len(tokens)), tokens].tolist()
    steps: list[Recorded] = []
    for at, end in enumerate(range(begun, begun + len(tokens))):
        total = sum(gains[: at + 1])
        ends, rows = loaded.marks.ends(tokens[at]), (0,) * (at + 1)
        hypotheses = (Hypothesis(tuple(tokens[: at + 1]), total, total, rows, ends, total),)
        step = DecodeStep(
            index=at,
            forced=False,
            sentences=(0,),
            input_tokens=row[:, :end],
            positions=(-1,),
            log_probs=log_probs[at : at + 1],
            probs=Greedy().probs(log_probs[at : at + 1]),
            live=((),) if ends else (hypotheses,),
            ended=(hypotheses,) if ends else ((),),
            ruled=log_probs[at : at + 1],
        )
        steps.append((step, _weights(trace, end)))
    return steps


def _tokens(loaded: LoadedModel, trace: Trace, begun: int, most: int) -> list[int]:
    """The generated tokens with the end token, at most `most`; empty if they cannot be read."""
    whole = trace.config.generates and not trace.edits and bool(trace.tgt_valid.all())
    sites = [site for site in trace.sites if site.query_stream == site.key_stream == "tgt"]
    if not whole or not trace.src_tokens or not trace.patterns_kept:
        return []
    if len(trace.tgt_tokens) > loaded.model.config.cacheable:
        return []
    if any(np.triu(trace.mask(site.name), 1).any() for site in sites):
        return []
    tokens = [*trace.tgt_tokens[begun:], *trace.predicted_tokens[-1:]]
    ended = trace.finished and loaded.marks.ends(tokens[-1])
    return tokens[:most] if ended or len(tokens) >= most else []


def _weights(trace: Trace, end: int) -> dict[str, np.ndarray]:
    """The attention [row, head, key] of the query that predicts after `end` tokens, by site."""
    rows = {}
    for site in trace.sites:
        if site.query_stream == "tgt":
            weights = trace.pattern(site.name)[None, :, end - 1]
            rows[site.name] = weights[..., :end] if site.key_stream == "tgt" else weights
    return rows
