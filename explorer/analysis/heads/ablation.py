"""Head ablation: the change of the written tokens' log-probability with each head off.

One row of a batch is the whole sentence with one head ablated. All heads of a layer share a pass,
which starts at their own block, and two passes run in parallel. Michel et al. 2019, "Are Sixteen
Heads Really Better than One?", §3.2.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.library import LoadedModel
from explorer.runs import rerun
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace
from models.foreign.placing import inside
from models.hooks import ROLES, AttentionSite, Edits, Role, StackSite, visiting
from models.transformer import Stack

MAX_ROWS = 24  # heads per pass: few enough that progress is seen
MAX_LOGITS = 1 << 23  # logits per pass, 32 MB in float32
AT_ONCE = min(2, os.cpu_count() or 1)
"""Passes in parallel, one per thread: their matrix products are large enough to release the GIL."""


@dataclass(frozen=True, eq=False)
class Ablation:
    """The effect of ablating each single head on given tokens; all in nats.

    `tokens` follow the first positions of the decoder's input, `logprobs` are theirs in the
    unchanged Trace. `token_deltas[site name]` is log p(head off) - log p: below 0 if the head was
    needed. The Trace's own edits stay in force, so a head that is already off has 0.
    """

    sites: tuple[AttentionSite, ...]
    tokens: tuple[int, ...]
    logprobs: Float[np.ndarray, " written"]
    token_deltas: dict[str, Float[np.ndarray, "head written"]] = field(repr=False)

    @property
    def logprob(self) -> float:
        """The log-probability of all tokens together, with the heads as in the Trace."""
        return float(self.logprobs.sum())

    @property
    def delta_logprob(self) -> dict[Role, Float[np.ndarray, "layer head"]]:
        """The change for all tokens together: a map of layers x heads for each existing role."""
        return {
            role: np.stack([self.token_deltas[site.name].sum(1) for site in of_role])
            for role in ROLES
            if (of_role := [site for site in self.sites if site.role == role])
        }

    def most_needed(self) -> tuple[str, int]:
        """Site name and head whose ablation costs the most; the first of equal ones."""
        worst = min(
            (float(deltas[head].sum()), order, head)
            for order, deltas in enumerate(self.token_deltas[site.name] for site in self.sites)
            for head in range(len(deltas))
        )
        return self.sites[worst[1]].name, worst[2]


def ablate(loaded: LoadedModel, traced: Trace, tokens: Sequence[int] | None = None) -> Ablation:
    """Ablate every head, one at a time, and measure the effect on the log-probability.

    `tokens` are the output tokens to measure; None: the Trace's own. Raises ValueError for another
    model's Trace and for more tokens than positions.
    """
    steps = ablating(loaded, traced, tokens)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


def ablating(
    loaded: LoadedModel, traced: Trace, tokens: Sequence[int] | None = None
) -> Steps[Ablation]:
    """Ablate every head of every site, one at a time; yields (heads done, total heads).

    The generator returns the Ablation. `tokens` are scored after the first len(tokens)
    positions of the decoder's input; None: the written tokens. Between two steps neither the
    visitor nor the gradient mode of the run is active. Raises ValueError for another model's Trace
    and for more tokens than positions.
    """
    rerun.require_same_model(loaded, traced)
    wanted = rerun.written_tokens(traced) if tokens is None else tuple(tokens)
    if not 0 < len(wanted) <= int(traced.tgt_valid.sum()):
        raise ValueError(f"{len(wanted)} tokens do not follow {traced.tgt_str_tokens}")
    logprobs = rerun.token_logprobs(traced.logits, wanted)
    deltas = {site.name: np.zeros((site.n_heads, len(wanted))) for site in traced.sites}
    total = sum(site.n_heads for site in traced.sites)
    size = max(1, min(MAX_ROWS, MAX_LOGITS // traced.logits.size))
    readings: list[_StackReading] = []
    for stack in loaded.model.stacks():
        memory = readings[-1].output if readings else None
        readings.append(_StackReading(loaded, traced, stack, memory))
    passes = [
        (reading, some)
        for reading in readings
        for off in reading.layers()
        for some in (off[start : start + size] for start in range(0, len(off), size))
    ]
    done = 0
    for start in range(0, len(passes), AT_ONCE):
        step = passes[start : start + AT_ONCE]
        rows = pool().map(lambda some: some[0].without(some[1], wanted), step)
        for (_, off), ablated in zip(step, rows, strict=True):
            for (site, head), row in zip(off, ablated, strict=True):
                deltas[site.name][head] = row - logprobs
            done += len(off)
        yield done, total
    return Ablation(traced.sites, wanted, logprobs, deltas)


Off = Sequence[tuple[AttentionSite, int]]
"""Heads of one layer, each ablated in a row of its own."""


@cache
def pool() -> ThreadPoolExecutor:
    """The shared thread pool: a new thread would first have to allocate memory for its tensors."""
    return ThreadPoolExecutor(AT_ONCE, "ablation")


class _StackReading:
    """A Trace's input in one stack, under the Trace's edits: the input and output of each block, so
    that ablating a head only recomputes from its own block on."""

    def __init__(
        self, loaded: LoadedModel, traced: Trace, site: StackSite, memory: Tensor | None
    ) -> None:
        self.model, self.memory, self.edits = loaded.model, memory, rerun.edits_of(traced)
        self.sites = [each for each in traced.sites if each.query_stream == site.stream]
        self.stack = cast(Stack, loaded.model.get_submodule(site.name))
        self.rows = rerun.rows_of(traced).to(next(loaded.model.parameters()).device)
        seen = (
            *(site.block_hook(layer, "resid_pre") for layer in range(site.n_layers)),
            site.hook("resid_final"),
        )
        kept = [torch.tensor(traced.activations[name])[None] for name in seen]
        *self.before, last = (inside(loaded.model, each) for each in kept)  # each [1, pos, d_model]
        with torch.inference_mode():
            self.output = self.stack.final_norm(last)

    def layers(self) -> list[Off]:
        """Every head of each layer."""
        return [
            [
                (site, head)
                for site in self.sites
                if site.layer == layer
                for head in range(site.n_heads)
            ]
            for layer in range(len(self.stack.blocks))
        ]

    def without(self, off: Off, tokens: Sequence[int]) -> Float[np.ndarray, "row written"]:
        """The tokens' log-probabilities; each row ablates another of these heads."""
        layer = off[0][0].layer
        silence = {}
        for site in dict.fromkeys(site for site, _ in off):
            rows = [row for row, (of_row, _) in enumerate(off) if of_row == site]
            heads = [off[row][1] for row in rows]
            silence[site.hook("z")] = partial(_silenced, rows=rows, heads=heads)
        batch = self.rows.select([0] * len(off))
        memory = None if self.memory is None else self.memory.expand(len(off), -1, -1)
        with torch.inference_mode(), visiting(self.edits.then(Edits(silence))):
            _, inputs = self.stack.enter(batch, memory)
            x = self.before[layer].expand(len(off), -1, -1)
            for after in range(layer, len(self.stack.blocks)):
                x = self.stack.blocks[after](x, *inputs(after))
            x = self.stack.final_norm(self.stack.hook_resid_final(x))
            if self.stack is not self.model.last_stack:
                x = self.model.last_stack.run(batch, x)
            return _logprobs(self.model.logits_of(x[:, : len(tokens)]), tokens)


def _logprobs(
    logits: Float[Tensor, "row written vocab"], tokens: Sequence[int]
) -> Float[np.ndarray, "row written"]:
    """ln p of each token at its position; float32 rounds it by about 1e-7 of its size."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    return wide[:, torch.arange(len(tokens)), list(tokens)].double().cpu().numpy()


def _silenced(z: Tensor, rows: list[int], heads: list[int]) -> Tensor:
    """z [batch, head, query, d_head] with one head set to zero in each of these rows."""
    z = z.clone()
    z[rows, heads] = 0.0
    return z
