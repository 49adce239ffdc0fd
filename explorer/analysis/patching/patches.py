"""Patches: activations of one run put into another, many at once.

Each row of a batch is the second text under patches of its own, so a whole map takes a few passes.
Vig et al. 2020, "Investigating Gender Bias in Language Models Using Causal Mediation Analysis";
Meng et al. 2022, "Locating and Editing Factual Associations in GPT", §2; Zhang & Nanda 2024,
"Towards Best Practices of Activation Patching in Language Models".
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.patching.pair import Pair
from explorer.library import LoadedModel
from explorer.runs.interventions import edit_functions
from explorer.runs.passes import Steps
from explorer.runs.run import run
from models.hooks import Edits, visiting
from models.rows import Rows

MAX_ROWS = 48  # patches per pass: few enough to report progress
MAX_TOKENS = 2048  # of all rows of a pass together


@dataclass(frozen=True, eq=False)
class Patch:
    """`value` replaces the contents at `index` in one row of the tensor of a hook point.

    `index` is without the batch axis: (positions,) in the stream, (head, positions) of q, k, v and
    z, (head, queries, keys) of a pattern.
    """

    hook: str
    index: tuple[Any, ...]
    value: Tensor


def activations(loaded: LoadedModel, pair: Pair, hooks: Collection[str]) -> dict[str, Tensor]:
    """The tensors of the first run at these hook points, without a batch axis."""
    seen = run(loaded.model, pair.rows[0], set(hooks), edit_functions(loaded.sites, pair.edits))
    return {name: tensor[0] for name, tensor in seen.items()}


def patching(rows: Sequence[Sequence[Patch]]) -> Edits:
    """A visitor of a batch that applies the patches `rows[i]` to row i."""
    of_hook: dict[str, list[tuple[int, Patch]]] = {}
    for row, patches in enumerate(rows):
        for patch in patches:
            of_hook.setdefault(patch.hook, []).append((row, patch))
    return Edits({hook: partial(_patched, patches=patches) for hook, patches in of_hook.items()})


def _patched(tensor: Tensor, patches: Sequence[tuple[int, Patch]]) -> Tensor:
    tensor = tensor.clone()
    for row, patch in patches:
        tensor[(row, *patch.index)] = patch.value
    return tensor


def gaps(
    loaded: LoadedModel, pair: Pair, rows: Sequence[Sequence[Patch]]
) -> Steps[Float[np.ndarray, " row"]]:
    """Run the second text once for each of `rows`, under its patches. Returns the logit differences
    of the two answers.

    There is a step after every pass. Rows that do not patch the source share one encoder pass.
    """
    differences = np.zeros(len(rows))
    model, second = loaded.model, pair.rows[1]
    own, place = edit_functions(loaded.sites, pair.edits), pair.question.places[1]
    sources = tuple(stack.name for stack in model.stacks() if stack.stream == "src")
    in_source = [any(patch.hook.startswith(sources) for patch in patches) for patches in rows]
    size, done = batch_size(loaded, pair), 0
    for of_source in (True, False):
        which = [at for at, is_in in enumerate(in_source) if is_in == of_source]
        memory = None
        if not of_source and which:
            with torch.inference_mode(), visiting(own):
                memory = model.memory_of(second)
        for start in range(0, len(which), size):
            batch = which[start : start + size]
            visitor = own.then(patching([rows[at] for at in batch]))
            logits = _logits(loaded, second.select([0] * len(batch)), visitor, memory, place)
            for at, row in zip(batch, logits, strict=True):
                differences[at] = pair.gap(row.numpy())
            done += len(batch)
            yield done, len(rows)
    return differences


def patched_logits(
    loaded: LoadedModel, pair: Pair, patches: Sequence[Patch]
) -> Float[np.ndarray, " vocab"]:
    """The logits at the question of the second text under these patches."""
    visitor = edit_functions(loaded.sites, pair.edits).then(patching([patches]))
    return _logits(loaded, pair.rows[1], visitor, None, pair.question.places[1])[0].numpy()


def batch_size(loaded: LoadedModel, pair: Pair) -> int:
    """The number of copies of the second text per pass."""
    n_tokens = sum(pair.rows[1].tokens(stream).shape[1] for stream in loaded.model.reads)
    return max(1, min(MAX_ROWS, MAX_TOKENS // n_tokens))


def _logits(
    loaded: LoadedModel, rows: Rows, visitor: Edits, memory: Tensor | None, place: int
) -> Float[Tensor, "row vocab"]:
    """One pass; keep the logits of one position only: the unembedding dominates the cost."""
    model, n_rows = loaded.model, len(rows)
    rows = rows.to(next(model.parameters()).device)
    with torch.inference_mode(), visiting(visitor):
        memory = model.memory_of(rows) if memory is None else memory.expand(n_rows, -1, -1)
        x = model.last_stack.run(rows, memory)
        return model.logits_of(x[:, place : place + 1])[:, 0]
