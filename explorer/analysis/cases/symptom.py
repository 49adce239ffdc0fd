"""The effect of a bug injected into the user's model, for the user's sentence: before and after."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.cases.case import Case, Plant
from explorer.analysis.heads.compare import Status, token_diff
from explorer.library import LoadedModel
from explorer.runs.inputs import limit
from explorer.runs.passes import Steps
from explorer.runs.rerun import require_same_model, rows_of, token_logprobs, written_tokens
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.cache import KVCache
from models.hooks import LOGITS, NO_EDITS, Edits, visiting
from models.rows import Rows, as_tensor

MAX_NEW_TOKENS = 40


@dataclass(frozen=True, eq=False)
class TokenLosses:
    """The same tokens read by a model without a change of its run (`before`) and with it (`after`).

    `logprobs` are of these tokens under teacher forcing, natural log.
    """

    tokens: tuple[str, ...]
    logprobs_before: Float[np.ndarray, " written"]
    logprobs_after: Float[np.ndarray, " written"]

    @property
    def loss_before(self) -> float:
        """Mean negative log-probability of the tokens; NaN without any."""
        return _loss(self.logprobs_before)

    @property
    def loss_after(self) -> float:
        return _loss(self.logprobs_after)


@dataclass(frozen=True, eq=False)
class Symptom(TokenLosses):
    """The effect of a bug on one run. `before` is the model without it, `after` the model with it.

    The tokens are generated. A bug of cached decoding is measured in cached steps of one token,
    others in one pass.
    `output` is the free-running output (greedy, at most `MAX_NEW_TOKENS`), and `words` both outputs
    as one sequence, as returned by `token_diff`. `moved` is the change of the last block's output
    relative to its size (both root mean squares over all real tokens): the only measure for a model
    without logits. NaN stays NaN: a bug may turn every number into NaN, and `output_after` is then
    "". `left` is the number of left PADs on every row; 0 if the bug needs none, or if the model has
    no room for any.
    """

    output_before: str
    output_after: str
    words: tuple[tuple[str, Status], ...]
    moved: float
    left: int = 0

    @property
    def changed(self) -> bool:
        """Whether a user would see a change: in the words or their log-probabilities, or, in a
        model without logits, in its vectors."""
        if not len(self.logprobs_before) and not self.output_before:
            return not self.moved < 1e-4
        moved = np.abs(self.logprobs_after - self.logprobs_before).max(initial=0.0)
        return self.output_before != self.output_after or not moved < 1e-4


def _loss(logprobs: np.ndarray) -> float:
    return float(-logprobs.mean()) if len(logprobs) else float("nan")


def symptom(loaded: LoadedModel, traced: Trace, case: Case) -> Steps[Symptom]:
    """Inject a bug into every run over the Trace's rows. The shared model is not changed.

    Yields the tokens generated and their maximum. The Trace's own edits are ignored: the bug is
    compared with the unmodified model. Raises ValueError for a case that cannot be injected, and
    for another model's Trace.
    """
    require_same_model(loaded, traced)
    if case.plant is None:
        raise ValueError(f"{case.id} does not occur in a forward pass")
    written = written_tokens(traced)
    left = min(case.left, room(loaded, traced))
    rows = _rows(traced, case, left)
    logprobs: list[np.ndarray] = []
    outputs: list[list[int]] = []
    streams: list[np.ndarray] = []
    for plant in (None, case.plant):
        logits, stream = _forced(loaded, rows, plant, left, case.cached)
        streams.append(stream[: int(traced.tgt_valid.sum())])
        logprobs.append(token_logprobs(logits, written))
        before = 0 if plant is None else MAX_NEW_TOKENS
        outputs.append((yield from _output(loaded, traced, plant, case, left, before)))
    shown = [loaded.str_tokens(output) for output in outputs]
    return Symptom(
        tokens=tuple(loaded.str_tokens(written)),
        logprobs_before=logprobs[0],
        logprobs_after=logprobs[1],
        output_before=loaded.tokenizer.decode(outputs[0]),
        output_after=loaded.tokenizer.decode(outputs[1]),
        words=token_diff(*shown),
        moved=float(np.linalg.norm(streams[1] - streams[0]) / np.linalg.norm(streams[0])),
        left=left,
    )


def room(loaded: LoadedModel, traced: Trace) -> int:
    """How many PADs fit on the left of a Trace's rows, which may have right padding."""
    return max(0, limit(loaded) - max(len(traced.src_tokens), len(traced.tgt_tokens)))


def _rows(traced: Trace, case: Case, left: int) -> Rows:
    """The Trace's sentence; twice, with the last examined, if the bug leaves the first intact."""
    rows = padded_on_the_left(rows_of(traced), left, traced.marks.pad or 0)
    return rows.select([0, 0]) if case.batched else rows


def padded_on_the_left(rows: Rows, n: int, pad_id: int) -> Rows:
    """Rows with `n` more PADs on the left of each row of each sequence."""

    def after(tensor: Tensor, value: int) -> Tensor:
        return torch.cat([tensor.new_full((len(tensor), n, *tensor.shape[2:]), value), tensor], 1)

    tgt, tgt_valid = after(rows.tgt, pad_id), after(rows.valid("tgt"), False)
    if rows.src is None:
        return Rows(tgt, tgt_valid)
    return Rows(tgt, tgt_valid, after(rows.src, pad_id), after(rows.valid("src"), False))


def _edits(loaded: LoadedModel, plant: Plant | None, rows: Rows) -> Edits:
    return plant(loaded.model, rows) if plant else NO_EDITS


def _forced(
    loaded: LoadedModel, rows: Rows, plant: Plant | None, left: int, cached: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Logits [tgt, vocab] and the last block's output [tgt, d_model] under teacher forcing, both
    without the left padding: in one pass or, with a cache, one token after the other."""
    final, valid = loaded.stacks[-1].hook("resid_final"), rows.valid("tgt")
    cache, edits = KVCache(loaded.config.n_layers), _edits(loaded, plant, rows)
    seen = []
    for stop in range(1, rows.tgt.shape[1] + 1) if cached else (rows.tgt.shape[1],):
        new = replace(rows, tgt=rows.tgt[:, cache.length : stop], tgt_valid=valid[:, :stop])
        seen.append(run(loaded.model, new, {LOGITS, final}, edits, cache if cached else None))
    logits, stream = (
        torch.cat([outputs[name][-1] for outputs in seen])[left:] for name in (LOGITS, final)
    )
    return logits.numpy(), stream.double().numpy()


def _output(
    loaded: LoadedModel, traced: Trace, plant: Plant | None, case: Case, left: int, before: int
) -> Steps[list[int]]:
    """The model's greedy output; each step uses a new visitor, since the rows grow.

    Yields the tokens generated, with those `before`, and their maximum in both outputs.
    """
    model, rows = loaded.model, _rows(traced, case, left)
    if not model.config.generates:
        return []
    tokens = traced.src_tokens or traced.tgt_tokens
    row = model.begin(as_tensor([[t for t in tokens if t != loaded.marks.pad]])).tgt[0].tolist()
    n_given, cache = len(row), KVCache(loaded.config.n_layers) if case.cached else None
    while len(row) < min(limit(loaded) - left, n_given + MAX_NEW_TOKENS):
        grown = replace(rows, tgt=torch.tensor([row] * len(rows)), tgt_valid=None)
        grown = replace(padded_on_the_left(grown, left, 0), src=rows.src, src_valid=rows.src_valid)
        new = replace(grown, tgt=grown.tgt[:, cache.length :]) if cache else grown
        with torch.inference_mode(), visiting(_edits(loaded, plant, grown)):
            last = model.read(new, cache=cache)[-1, -1]
        if last.isnan().any() or loaded.marks.ends(int(last.argmax())):
            break
        row.append(int(last.argmax()))
        yield before + len(row) - n_given, 2 * MAX_NEW_TOKENS
    return row[n_given:]
