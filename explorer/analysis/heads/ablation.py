"""Head ablation: the change of the written tokens' log-probability with each head off.

Each copy of a batch has another head ablated. The heads of a block share a pass, which starts at
their own block, and two passes run in parallel. Michel et al. 2019, "Are Sixteen Heads Really
Better than One?", §3.2.
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
from explorer.once import once
from explorer.runs import rerun
from explorer.runs.passes import Steps, walked
from explorer.runs.trace import Trace
from models.hooks import NO_EDITS, ROLES, AttentionSite, Edits, Role, visiting
from models.rows import Rows, Stream
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

    @once
    def delta_logprob(self) -> dict[Role, Float[np.ndarray, "layer head"]]:
        """The change for all tokens together: a map of layers x heads for each existing role."""
        return {
            role: np.stack([self.token_deltas[site.name].sum(1) for site in of_role])
            for role in ROLES
            if (of_role := [site for site in self.sites if site.role == role])
        }

    @property
    def totals(self) -> Float[np.ndarray, " head"]:
        """The change for all tokens together, head by head in the order of the sites."""
        return np.concatenate([self.token_deltas[site.name].sum(1) for site in self.sites])

    def most_needed(self) -> tuple[AttentionSite, int]:
        """The site and head whose ablation costs the most; the first of equal ones."""
        heads = [(site, head) for site in self.sites for head in range(site.n_heads)]
        return heads[int(self.totals.argmin())]


def ablate(loaded: LoadedModel, traced: Trace, tokens: Sequence[int] | None = None) -> Ablation:
    """Ablate every head, one at a time, and measure the effect on the log-probability.

    `tokens` are the output tokens to measure; None: the Trace's own. Raises ValueError for another
    model's Trace and for more tokens than positions.
    """
    return walked(ablating(loaded, traced, tokens))


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
    blocks = _by_block(traced.sites)
    done, total = 0, sum(map(len, blocks))
    size = max(1, min(MAX_ROWS, MAX_LOGITS // traced.logits.size))
    reading = Rereading(loaded, rerun.rows_of(traced), rerun.edits_of(traced))
    passes = [off[start : start + size] for off in blocks for start in range(0, len(off), size)]
    for start in range(0, len(passes), AT_ONCE):
        step = passes[start : start + AT_ONCE]
        ablated = pool().map(partial(_logprobs, reading, wanted), step)
        for off, rows in zip(step, ablated, strict=True):
            for (site, head), row in zip(off, rows, strict=True):
                deltas[site.name][head] = row - logprobs
            done += len(off)
        yield done, total
    return Ablation(traced.sites, wanted, logprobs, deltas)


Off = Sequence[tuple[AttentionSite, int]]
"""Heads of one block, each ablated in a copy of the batch."""


def _by_block(sites: Sequence[AttentionSite]) -> list[Off]:
    """Every head of each block."""
    blocks: dict[tuple[Stream, int], list[tuple[AttentionSite, int]]] = {}
    for site in sites:
        heads = [(site, head) for head in range(site.n_heads)]
        blocks.setdefault((site.query_stream, site.layer), []).extend(heads)
    return [*blocks.values()]


@cache
def pool() -> ThreadPoolExecutor:
    """The shared thread pool: a new thread would first have to allocate memory for its tensors."""
    return ThreadPoolExecutor(AT_ONCE, "ablation")


def _logprobs(
    reading: "Rereading", tokens: Sequence[int], off: Off
) -> Float[np.ndarray, "row written"]:
    """ln p of each token at its position, without each of these heads; float32 rounds it by about
    1e-7 of its size."""
    with torch.inference_mode():
        logits = reading.model.logits_of(reading.without(off)[:, : len(tokens)])
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
        return wide[:, torch.arange(len(tokens)), list(tokens)].double().cpu().numpy()


class Rereading:
    """A batch read once under `edits`; then again with heads ablated, from their own block on.

    `output` is what the LM head reads, [batch, pos, d_model].
    """

    def __init__(self, loaded: LoadedModel, rows: Rows, edits: Edits = NO_EDITS) -> None:
        self.model, self.edits = loaded.model, edits
        self.rows = rows.to(next(self.model.parameters()).device)
        self._stacks = {
            site.stream: cast(Stack, self.model.get_submodule(site.name)) for site in loaded.stacks
        }
        self._before: dict[Stream, list[Tensor]] = {}  # the input of each block
        with torch.inference_mode(), visiting(edits):
            self.memory = self._first("src", None) if "src" in self._stacks else None
            self.output = self._first("tgt", self.memory)

    def _first(self, stream: Stream, memory: Tensor | None) -> Tensor:
        """The output of a stack; its block inputs are kept."""
        stack = self._stacks[stream]
        x, inputs = stack.enter(self.rows, memory)
        kept = self._before[stream] = [x]
        for layer, block in enumerate(stack.blocks):
            kept.append(block(kept[-1], *inputs(layer)))
        return stack.final_norm(stack.hook_resid_final(kept[-1]))

    def without(self, off: Off) -> Float[Tensor, "row pos d_model"]:
        """`output` of one copy of the batch after the other, each without one of these heads."""
        n_rows, stream, layer = len(self.rows), off[0][0].query_stream, off[0][0].layer
        ablated: dict[str, list[tuple[int, int]]] = {}
        for copy, (site, head) in enumerate(off):
            ablated.setdefault(site.hook("z"), []).append((copy, head))
        silence = {
            hook: partial(_silenced, heads=heads, n_rows=n_rows) for hook, heads in ablated.items()
        }
        copies = torch.arange(n_rows).repeat(len(off))
        rows, stack = self.rows.select(copies), self._stacks[stream]
        memory = None if stream == "src" or self.memory is None else self.memory[copies]
        with torch.inference_mode(), visiting(self.edits.then(Edits(silence))):
            _, inputs = stack.enter(rows, memory)
            x = self._before[stream][layer][copies]
            for after in range(layer, len(stack.blocks)):
                x = stack.blocks[after](x, *inputs(after))
            x = stack.final_norm(stack.hook_resid_final(x))
            return x if stream == "tgt" else self._stacks["tgt"].run(rows, x)


def _silenced(z: Tensor, heads: Sequence[tuple[int, int]], n_rows: int) -> Tensor:
    """z [batch, head, query, d_head] with one head set to zero in each (copy, head)."""
    z = z.clone()
    for copy, head in heads:
        z[copy * n_rows : (copy + 1) * n_rows, head] = 0.0
    return z
