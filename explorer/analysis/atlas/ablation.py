"""The cost of ablating each head, over a sample of sentences.

The cost is the mean loss in log-probability per token of the sentence, in nats, when one head
outputs nothing; Michel et al. 2019, §3.2.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.atlas.reading import CorpusBatch
from explorer.library import LoadedModel
from models.hooks import AttentionSite, Edits, visiting
from models.rows import Rows, Stream
from models.transformer import Stack

SENTENCES = 96
"""Sentences of the sample: those with the smallest hashes, a pseudo-random choice."""
GROUP = 16
"""Sentences that are read at a time; one file of results."""
EVERY = 6
"""An encoder fills in every sixth word; in shorter texts, the middle one."""


def cost_sums(loaded: LoadedModel, batch: CorpusBatch) -> Float[np.ndarray, "head 3"]:
    """The number of sentences, the sum of their costs and of the squared costs, for each head.

    A token of a translation or a text is scored given the tokens before it, not counting the end
    token; in an encoder, the masked tokens are scored. Zeros for a model without logits.
    """
    total = np.zeros((sum(site.n_heads for site in loaded.sites), 3))
    rows, labels, scored = _task(loaded, batch.rows)
    if not loaded.config.lm_head or not bool(scored.any()):
        return total
    some = scored.any(1)
    head = 0
    with torch.inference_mode():
        reading = _Reading(loaded, rows, labels, scored)
        for site in loaded.sites:
            for off in range(site.n_heads):
                with visiting(Edits({site.hook("z"): partial(_silenced, head=off)})):
                    costs = (reading.plain - reading.again(site))[some].numpy()
                total[head] = len(costs), costs.sum(), np.square(costs).sum()
                head += 1
    return total


class _Reading:
    """One batch, read unmodified; then again from one block on, reusing earlier blocks' output."""

    def __init__(self, loaded: LoadedModel, rows: Rows, labels: Tensor, scored: Tensor) -> None:
        self.model = loaded.model
        self.rows = rows.to(next(self.model.parameters()).device)
        self.labels, self.scored = labels[scored], scored
        self.stacks: dict[Stream, Stack] = {}
        for stack in self.model.stacks():
            part = self.model.get_submodule(stack.name)
            assert isinstance(part, Stack)
            self.stacks[stack.stream] = part
        self.before: dict[Stream, list[Tensor]] = {}  # the input of each block
        self.memory = self._read("src", None) if "src" in self.stacks else None
        self.plain = self._scores(self._read("tgt", self.memory))

    def again(self, site: AttentionSite) -> Float[Tensor, " batch"]:
        """The sentences' scores in a pass that changes something at this site."""
        if site.query_stream == "src":
            memory = self._read("src", None, site.layer)
            return self._scores(self._read("tgt", memory))
        return self._scores(self._read("tgt", self.memory, site.layer))

    def _read(self, stream: Stream, memory: Tensor | None, start: int | None = None) -> Tensor:
        """The output of one stack; block inputs are recorded in the first pass."""
        stack = self.stacks[stream]
        x, inputs = stack.enter(self.rows, memory)
        kept = self.before.setdefault(stream, [])
        first = not kept
        if start is not None:
            x = kept[start]
        for layer in range(start or 0, len(stack.blocks)):
            if first:
                kept.append(x)
            x = stack.blocks[layer](x, *inputs(layer))
        return stack.final_norm(stack.hook_resid_final(x))

    def _scores(self, x: Tensor) -> Float[Tensor, " batch"]:
        """The mean log-probability of each sentence's scored tokens; computes logits only there."""
        logits = self.model.logits_of(x[self.scored.to(x.device)][None])[0]
        chosen = logits.gather(1, self.labels[:, None])[:, 0].double()
        found = torch.zeros(self.scored.shape, dtype=torch.float64)
        found[self.scored] = chosen - logits.logsumexp(-1).double()
        return found.sum(1) / self.scored.sum(1).clamp_min(1)


def _task(loaded: LoadedModel, rows: Rows) -> tuple[Rows, Tensor, Tensor]:
    """The input rows, the label at each position, and the mask of scored positions."""
    tokens, valid = rows.tgt, rows.valid("tgt")
    words = valid & ~_marks(loaded, tokens)
    if loaded.config.generates:
        labels = torch.zeros_like(tokens)
        labels[:, :-1] = tokens[:, 1:]
        scored = torch.zeros_like(valid)
        scored[:, :-1] = words[:, 1:]
        return rows, labels, scored
    place = words.cumsum(1)
    middle = (words.sum(1, keepdim=True) + 1) // 2
    every = torch.where(middle < EVERY, place == middle, place % EVERY == 0)
    scored = words & every
    if loaded.marks.mask is None:
        return rows, tokens, torch.zeros_like(scored)
    masked = tokens.masked_fill(scored, loaded.marks.mask)
    return Rows(masked, rows.tgt_valid), tokens, scored


def _marks(loaded: LoadedModel, tokens: Tensor) -> Tensor:
    special = [
        token for token in set(tokens.flatten().tolist()) if loaded.tokenizer.is_special(token)
    ]
    return torch.isin(tokens, torch.tensor(special, dtype=tokens.dtype))


def _silenced(z: Tensor, head: int) -> Tensor:
    z = z.clone()
    z[:, head] = 0.0
    return z


def groups(sample: Sequence[int], most: int = SENTENCES) -> tuple[tuple[int, ...], ...]:
    """The sample's first `most` lines, in groups of GROUP, each in file order."""
    chosen = sample[:most]
    return tuple(
        tuple(sorted(chosen[start : start + GROUP])) for start in range(0, len(chosen), GROUP)
    )
