"""A training batch of the user's own sentences: shifted inputs, PAD, ignored labels, loss."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float

from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.generation import translate
from explorer.runs.inputs import given_tokens, limit, target_tokens
from models.pictures.patches import as_tokens
from models.training.data import Example, collate
from models.training.loss import sequence_loss

MOST_LINES = 8


@dataclass(frozen=True, eq=False)
class LabelledBatch:
    """The inputs and labels of a training step for some sentences, and the loss at every label.

    `inputs` are the decoder's input tokens and `labels` the tokens to predict after each of them,
    padded alike [sentence][pos]; `sources` is empty for a decoder-only model. `counts` is True
    if a label counts. `losses` are -ln p(label), 0 at ignored labels. `loss` is their mean
    over the labels that count, as in `models.training.loss`.
    """

    sources: tuple[tuple[str, ...], ...]
    inputs: tuple[tuple[str, ...], ...]
    labels: tuple[tuple[str, ...], ...]
    counts: Bool[np.ndarray, "sentence pos"]
    losses: Float[np.ndarray, "sentence pos"]
    loss: float
    loss_with_padding: float


def labelled_batch(
    loaded: LoadedModel,
    lines: Sequence[str],
    translated: Callable[[str], Sequence[int]] | None = None,
) -> LabelledBatch:
    """Put sentences, one per line, into one padded batch and read it under teacher forcing.

    For a translator a line is a sentence, or a sentence, TAB, and its translation; without a
    translation the model's own is used, from `translated` if it is given. `loss_with_padding` is
    the mean if PAD counted too.
    Raises InputProblem: `no_lines`, `too_many_lines`, and as `given_tokens` and `target_tokens`.
    """
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise InputProblem("no_lines", limit=MOST_LINES)
    if len(lines) > MOST_LINES:
        raise InputProblem("too_many_lines", limit=MOST_LINES, length=len(lines))
    batch = collate([_example(loaded, line, translated) for line in lines], loaded.model)
    with torch.inference_mode():
        logits = loaded.model.read(batch.rows)
        log_probs = logits.double().log_softmax(-1)
        losses = -log_probs.gather(-1, batch.labels[..., None])[..., 0]
        total = sequence_loss(logits, batch.labels, batch.loss_mask)
    rows, shown = batch.rows, loaded.str_tokens
    sources = () if rows.src is None else rows.src.tolist()
    return LabelledBatch(
        sources=tuple(tuple(shown(as_tokens(row))) for row in sources),
        inputs=tuple(tuple(shown(row)) for row in rows.tgt.tolist()),
        labels=tuple(tuple(shown(row)) for row in batch.labels.tolist()),
        counts=batch.loss_mask.numpy(),
        losses=losses.masked_fill(~batch.loss_mask, 0.0).numpy(),
        loss=float(total) / batch.n_labels,
        loss_with_padding=float(losses.mean()),
    )


def _example(
    loaded: LoadedModel, line: str, translated: Callable[[str], Sequence[int]] | None
) -> Example:
    """One line as token ids, without start and end tokens."""
    if not loaded.config.reads_source:
        tokens = target_tokens(loaded, line)
        if len(tokens) >= limit(loaded):
            raise InputProblem("too_many_tokens", limit=limit(loaded) - 1, length=len(tokens))
        return Example((), tuple(tokens))
    sentence, _, translation = line.partition("\t")
    source = given_tokens(loaded, sentence)
    target = target_tokens(loaded, translation)
    if not target:
        target = list(translated(sentence)) if translated else translate(loaded, source)[0]
    if len(target) >= limit(loaded):
        raise InputProblem("target_too_long", limit=limit(loaded) - 1, length=len(target))
    around = loaded.model.with_marks("src", (-1,))  # a source may have marks on either side
    first, behind = around.index(-1), len(around) - around.index(-1) - 1
    return Example(source[first : len(source) - behind], tuple(target))
