"""Which heads matter: the change of the written tokens' log-probability with each head off.

One row of a batch is the whole sentence with one head silenced, so that all heads of a model need
a few forward passes. Michel et al. 2019, "Are Sixteen Heads Really Better than One?", §3.2.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.library import LoadedModel
from explorer.runs.rerun import (
    edits_of,
    require_same_model,
    rows_of,
    token_logprobs,
    written_tokens,
)
from explorer.runs.trace import Trace
from models.hooks import ROLES, AttentionSite, Edits, Role, visiting

MAX_ROWS = 24  # heads per pass: few enough that progress is seen
MAX_LOGITS = 1 << 23  # logits per pass, 64 MB in float64


@dataclass(frozen=True, eq=False)
class Ablation:
    """What switching off each single head does to given tokens; all in nats.

    `tokens` are those after the first positions of the decoder's row, `logprobs` theirs in the
    Trace as it is. `token_deltas[site name]` is log p(head off) - log p: below 0 where the head was
    needed. The Trace's own edits stay in force, so a head that is off already has 0.
    """

    sites: tuple[AttentionSite, ...]
    tokens: tuple[int, ...]
    logprobs: Float[np.ndarray, " written"]
    token_deltas: dict[str, Float[np.ndarray, "head written"]] = field(repr=False)

    @property
    def logprob(self) -> float:
        """The log-probability of all tokens together, with every head as in the Trace."""
        return float(self.logprobs.sum())

    @property
    def delta_logprob(self) -> dict[Role, Float[np.ndarray, "layer head"]]:
        """The change for all tokens together, a map of layers x heads for each role there is."""
        return {
            role: np.stack([self.token_deltas[site.name].sum(1) for site in of_role])
            for role in ROLES
            if (of_role := [site for site in self.sites if site.role == role])
        }

    def most_needed(self) -> tuple[str, int]:
        """Site name and head whose absence costs the most, the first among equals."""
        worst = min(
            (float(deltas[head].sum()), order, head)
            for order, deltas in enumerate(self.token_deltas[site.name] for site in self.sites)
            for head in range(len(deltas))
        )
        return self.sites[worst[1]].name, worst[2]


def ablate(
    loaded: LoadedModel,
    traced: Trace,
    tokens: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ablation:
    """`ablating` run to its end; `progress(done, total)` is called after every pass."""
    steps = ablating(loaded, traced, tokens)
    while True:
        try:
            done, total = next(steps)
        except StopIteration as stop:
            return stop.value
        if progress is not None:
            progress(done, total)


def ablating(
    loaded: LoadedModel, traced: Trace, tokens: Sequence[int] | None = None
) -> Generator[tuple[int, int], None, Ablation]:
    """Switch off every head of every site, one at a time; yields (heads done, heads in all).

    The Ablation is the generator's return value. `tokens` are scored after the first len(tokens)
    positions of the decoder's row; None: those that were written. Between two steps neither the
    visitor nor the gradient mode of the run is active. Raises ValueError for another model's Trace
    and for more tokens than positions.
    """
    require_same_model(loaded, traced)
    wanted = written_tokens(traced) if tokens is None else tuple(tokens)
    if not 0 < len(wanted) <= int(traced.tgt_valid.sum()):
        raise ValueError(f"{len(wanted)} tokens do not stand after {traced.tgt_str_tokens}")
    logprobs = token_logprobs(traced.logits, wanted)
    deltas = {site.name: np.zeros((site.n_heads, len(wanted))) for site in traced.sites}
    total = sum(site.n_heads for site in traced.sites)
    size = max(1, min(MAX_ROWS, MAX_LOGITS // traced.logits.size))
    done = 0
    memory: Tensor | None = None
    for of_source in (True, False):
        off = [
            (site, head)
            for site in traced.sites
            if (site.query_stream == "src") == of_source
            for head in range(site.n_heads)
        ]
        if off and not of_source:
            memory = _memory(loaded, traced)
        for start in range(0, len(off), size):
            batch = off[start : start + size]
            found = _logprobs(loaded, traced, batch, wanted, memory)
            for (site, head), row in zip(batch, found, strict=True):
                deltas[site.name][head] = row - logprobs
            done += len(batch)
            yield done, total
    return Ablation(traced.sites, wanted, logprobs, deltas)


def _memory(loaded: LoadedModel, traced: Trace) -> Tensor | None:
    """The encoder's output [1, src, d_model] under the Trace's edits: one for all decoder heads."""
    with torch.inference_mode(), visiting(edits_of(traced)):
        return loaded.model.memory_of(rows_of(traced))


def _logprobs(
    loaded: LoadedModel,
    traced: Trace,
    off: Sequence[tuple[AttentionSite, int]],
    tokens: Sequence[int],
    memory: Tensor | None,
) -> Float[np.ndarray, "row written"]:
    """The tokens' log-probabilities, each row with another head off; `memory` saves encoding."""
    silence = {}
    for site in dict.fromkeys(site for site, _ in off):
        rows = [row for row, (of_row, _) in enumerate(off) if of_row == site]
        heads = [off[row][1] for row in rows]
        silence[site.hook("z")] = partial(_silenced, rows=rows, heads=heads)
    if memory is not None:
        memory = memory.expand(len(off), -1, -1)
    with torch.inference_mode(), visiting(edits_of(traced).then(Edits(silence))):
        logits = loaded.model.read(rows_of(traced).select([0] * len(off)), memory)
        wide = logits[:, : len(tokens)].double()
        chosen = wide[:, torch.arange(len(tokens)), list(tokens)]
        return (chosen - wide.logsumexp(-1)).numpy()


def _silenced(z: Tensor, rows: list[int], heads: list[int]) -> Tensor:
    """z [batch, head, query, d_head] with nothing in one head of each of these rows."""
    z = z.clone()
    z[rows, heads] = 0.0
    return z
