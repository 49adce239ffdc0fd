"""The cost of ablating each head, over a sample of sentences.

The cost is the mean loss in log-probability per token of the sentence, in nats, when one head
outputs nothing; Michel et al. 2019, §3.2.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from explorer.analysis.atlas.reading import CorpusBatch
from explorer.analysis.heads.ablation import Rereading
from explorer.library import LoadedModel
from models.rows import Rows

SENTENCES = 96
"""Sentences of the sample: those with the smallest hashes, a pseudo-random choice."""
GROUP = 16
"""Sentences that are read at a time."""
EVERY = 6
"""An encoder fills in every sixth word; in shorter texts, the middle one."""


def cost_sums(loaded: LoadedModel, batch: CorpusBatch) -> Float[np.ndarray, "head 3"]:
    """The number of sentences, the sum of their costs and of the squared costs, for each head.

    A token of a translation or a text is scored given the tokens before it, not counting the end
    token; in an encoder, the masked tokens are scored. Zeros for a model without logits.
    """
    heads = [(site, head) for site in loaded.sites for head in range(site.n_heads)]
    total = np.zeros((len(heads), 3))
    rows, labels, scored = _task(loaded, batch.rows)
    if not loaded.config.lm_head or not bool(scored.any()):
        return total
    reading = Rereading(loaded, rows)
    scores = partial(_scores, loaded, labels=labels, scored=scored)
    plain, some = scores(reading.output), scored.any(1)
    for number, head in enumerate(heads):
        costs = (plain - scores(reading.without([head])))[some].numpy()
        total[number] = len(costs), costs.sum(), np.square(costs).sum()
    return total


@torch.inference_mode()
def _scores(
    loaded: LoadedModel,
    x: Float[Tensor, "batch pos d_model"],
    labels: Int[Tensor, "batch pos"],
    scored: Bool[Tensor, "batch pos"],
) -> Float[Tensor, " batch"]:
    """The mean log-probability of each sentence's scored tokens; computes logits only there."""
    logits = loaded.model.logits_of(x[scored.to(x.device)][None])[0]
    chosen = logits.gather(1, labels[scored][:, None])[:, 0].double()
    logprobs = torch.zeros(scored.shape, dtype=torch.float64)
    logprobs[scored] = chosen - logits.logsumexp(-1).double()
    return logprobs.sum(1) / scored.sum(1).clamp_min(1)


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


def groups(sample: Sequence[int], most: int = SENTENCES) -> tuple[tuple[int, ...], ...]:
    """The sample's first `most` lines, in groups of GROUP, each in file order."""
    chosen = sample[:most]
    return tuple(
        tuple(sorted(chosen[start : start + GROUP])) for start in range(0, len(chosen), GROUP)
    )
