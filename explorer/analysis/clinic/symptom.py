"""A fault planted into the reader's model, on the reader's sentence: before and after."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.clinic.card import Pitfall, Plant
from explorer.analysis.heads.compare import Status, token_diff
from explorer.library import LoadedModel
from explorer.runs.inputs import limit
from explorer.runs.rerun import (
    require_same_model,
    rows_of,
    token_logprobs,
    written_tokens,
)
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.cache import KVCache
from models.hooks import LOGITS, NO_EDITS, Edits, visiting
from models.rows import Rows

MAX_NEW_TOKENS = 40


@dataclass(frozen=True, eq=False)
class Symptom:
    """What a fault does to one run. `before` is the model without it, `after` the model with it.

    `logprobs` are of the written tokens under teacher forcing, natural log; `tokens` are those
    that were written. `output` is what the model then writes by itself (greedy), and `words` both
    outputs as one row, as `token_diff` has it. `patterns_after[site]` is [head, query, key].
    NaN stays NaN: a fault may destroy every number, and then `output_after` is "".
    """

    tokens: tuple[str, ...]

    logprobs_before: Float[np.ndarray, " written"]
    logprobs_after: Float[np.ndarray, " written"]
    output_before: str
    output_after: str
    words: tuple[tuple[str, Status], ...]
    patterns_after: dict[str, np.ndarray] = field(repr=False)

    @property
    def changed(self) -> bool:
        """Whether anything changed that a reader could see."""
        moved = np.abs(self.logprobs_after - self.logprobs_before).max(initial=0.0)
        return self.output_before != self.output_after or not moved < 1e-4

    @property
    def loss_before(self) -> float:
        """Mean negative log-probability of the written tokens."""
        return float(-self.logprobs_before.mean()) if len(self.logprobs_before) else float("nan")

    @property
    def loss_after(self) -> float:
        return float(-self.logprobs_after.mean()) if len(self.logprobs_after) else float("nan")


def symptom(loaded: LoadedModel, traced: Trace, pitfall: Pitfall) -> Symptom:
    """Plant a fault into every run over the Trace's rows. The shared model is not changed.

    The Trace's own edits are left out: the fault is compared with the model as it is. Raises
    ValueError for a pitfall that cannot be planted, and for a Trace of another model.
    """
    require_same_model(loaded, traced)
    if pitfall.plant is None:
        raise ValueError(f"{pitfall.id} does not live in a forward pass")
    written = written_tokens(traced)
    logprobs: list[np.ndarray] = []
    outputs: list[list[int]] = []
    patterns: dict[str, np.ndarray] = {}
    for plant in (None, pitfall.plant):
        logits, patterns = _forced(loaded, traced, plant, pitfall)
        logprobs.append(token_logprobs(logits, written))
        outputs.append(_output(loaded, traced, plant, pitfall))
    shown = [loaded.tokenizer.str_tokens(output) for output in outputs]
    return Symptom(
        tokens=tuple(loaded.tokenizer.str_tokens(written)),
        logprobs_before=logprobs[0],
        logprobs_after=logprobs[1],
        output_before=loaded.tokenizer.decode(outputs[0]),
        output_after=loaded.tokenizer.decode(outputs[1]),
        words=token_diff(*shown),
        patterns_after=patterns,
    )


def _rows(traced: Trace, pitfall: Pitfall) -> Rows:
    """The Trace's sentence; twice, the last examined, where a fault leaves the first one intact."""
    return rows_of(traced).times(2) if pitfall.batched else rows_of(traced)


def _edits(loaded: LoadedModel, plant: Plant | None, rows: Rows) -> Edits:
    return plant(loaded.model, rows) if plant else NO_EDITS


def _forced(
    loaded: LoadedModel, traced: Trace, plant: Plant | None, pitfall: Pitfall
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Logits [tgt, vocab] and patterns of one teacher-forced pass over the Trace's rows."""
    rows = _rows(traced, pitfall)
    hooks = {site.hook("pattern"): site.name for site in loaded.sites}
    seen = run(loaded.model, rows, {LOGITS, *hooks}, _edits(loaded, plant, rows))
    patterns = {site: seen[hook][-1].numpy() for hook, site in hooks.items()}
    return seen[LOGITS][-1].numpy(), patterns


def _output(loaded: LoadedModel, traced: Trace, plant: Plant | None, pitfall: Pitfall) -> list[int]:
    """What the model writes by itself, greedily; a new visitor each step, as rows grow."""
    model, rows = loaded.model, _rows(traced, pitfall)
    if model.predicts != "next":
        return []
    given = traced.src_tokens or traced.tgt_tokens
    row = model.begin(torch.tensor([[t for t in given if t != loaded.marks.pad]])).tgt[0].tolist()
    n_given, cache = len(row), KVCache(loaded.config.n_layers) if pitfall.cached else None
    while len(row) < min(limit(loaded), n_given + MAX_NEW_TOKENS):
        tgt = torch.tensor([row] * len(rows))
        rows = replace(rows, tgt=tgt, tgt_valid=torch.ones_like(tgt, dtype=torch.bool))
        new = replace(rows, tgt=tgt[:, cache.length :]) if cache else rows
        with torch.inference_mode(), visiting(_edits(loaded, plant, rows)):
            last = model.read(new, cache=cache)[-1, -1]
        if last.isnan().any() or int(last.argmax()) == loaded.marks.end:
            break
        row.append(int(last.argmax()))
    return row[n_given:]
