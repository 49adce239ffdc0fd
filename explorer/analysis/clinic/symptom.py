"""A fault planted into the model of the reader, on the reader's sentence: before and after."""

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.certificate.probe import Rows
from explorer.analysis.clinic.card import Pitfall, Plant
from explorer.analysis.heads.compare import Status, token_diff
from explorer.library import LoadedModel
from explorer.runs.rerun import (
    require_same_model,
    rows_of,
    token_logprobs,
    written_tokens,
)
from explorer.runs.rows import limit
from explorer.runs.trace import Trace
from models.cache import KVCache
from models.hooks import Edits, Record, visiting
from models.transformer import DecoderOnly, EncoderDecoder

MAX_NEW_TOKENS = 40


@dataclass(frozen=True, eq=False)
class Symptom:
    """What a fault does to one run. `before` and `after` stand for the model without and with it.

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
        """Whether anything moved that a reader could see."""
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

    The Trace's own edits play no part: the fault is held against the model as it is. Raises
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
    """The Trace's sentence; twice where a fault spares the first one, and the last is looked at."""
    src, src_valid, tgt, tgt_valid = rows_of(traced)
    rows = Rows(tgt, tgt_valid, src, src_valid) if traced.src_tokens else Rows(tgt, tgt_valid)
    return rows.times(2) if pitfall.batched else rows


def _edits(loaded: LoadedModel, plant: Plant | None, rows: Rows) -> Edits:
    return plant(loaded.model, rows) if plant else Edits({})


def _forced(
    loaded: LoadedModel, traced: Trace, plant: Plant | None, pitfall: Pitfall
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Logits [tgt, vocab] and patterns of one teacher-forced pass over the Trace's rows."""
    rows = _rows(traced, pitfall)
    hooks = {site.hook("pattern"): site.name for site in loaded.sites}
    record = Record(hooks.__contains__, _edits(loaded, plant, rows))
    with torch.inference_mode(), visiting(record):
        logits = _logits(loaded, rows, None, None)
    patterns = {site: record.activations[hook][-1].numpy() for hook, site in hooks.items()}
    return logits[-1].numpy(), patterns


def _logits(
    loaded: LoadedModel, rows: Rows, memory: Tensor | None, cache: KVCache | None
) -> Tensor:
    """One pass over the target (over its last token only, once there is something in the cache)."""
    new = rows.tgt[:, cache.length :] if cache else rows.tgt
    if isinstance(loaded.model, DecoderOnly):
        return loaded.model(new, rows.tgt_valid, cache)
    assert rows.src is not None
    memory = loaded.model.encode(rows.src, rows.src_valid) if memory is None else memory
    return loaded.model.decode(new, memory, rows.src_valid, rows.tgt_valid, cache)


def _output(loaded: LoadedModel, traced: Trace, plant: Plant | None, pitfall: Pitfall) -> list[int]:
    """What the model writes by itself, greedily; a new visitor each step, as rows grow."""
    config, rows = loaded.config, _rows(traced, pitfall)
    is_translator = isinstance(loaded.model, EncoderDecoder)
    row = [config.bos_id] if is_translator else list(traced.tgt_tokens)
    row = [token for token in row if token != config.pad_id]
    n_given, cache = len(row), KVCache(config.n_layers) if pitfall.cached else None
    while len(row) < min(limit(loaded), n_given + MAX_NEW_TOKENS):
        tgt = torch.tensor([row] * len(rows))
        valid = torch.ones_like(tgt, dtype=torch.bool)
        rows = Rows(tgt, valid, rows.src, rows.src_valid)
        with torch.inference_mode(), visiting(_edits(loaded, plant, rows)):
            last = _logits(loaded, rows, None, cache)[-1, -1]
        if last.isnan().any() or int(last.argmax()) == config.eos_id:
            break
        row.append(int(last.argmax()))
    return row[n_given:]
