"""A training batch of the user's own sentences: shifted inputs, PAD, ignored labels, loss."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float

from explorer.components.batch_rows import pack_batch_rows
from explorer.engine import cache
from explorer.engine.cache import examples_of
from explorer.exhibits import Exhibit, Wait, block as b
from explorer.exhibits.decoding.choices import DecodingChoices
from explorer.exhibits.decoding.one_pass import is_open
from explorer.exhibits.saying import message
from explorer.exhibits.view import View
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.generation import translate
from explorer.runs.inputs import given_tokens, limit, target_tokens
from explorer.runs.passes import Steps
from explorer.runs.sentences import one_per_line
from models.rows import as_tokens
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
) -> Steps[LabelledBatch]:
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
    examples: list[Example] = []
    for line in lines:
        yield len(examples), len(lines)
        examples.append(_example(loaded, line, translated))
    batch = collate(examples, loaded.model)
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


def compute(loaded: LoadedModel, batch_lines: str) -> Steps[LabelledBatch | InputProblem]:
    """The batch of these lines, or why there is none."""
    steps = labelled_batch(
        loaded, batch_lines.splitlines(), lambda line: cache.translation(loaded.name, line)[0]
    )
    try:
        return (yield from steps)
    except InputProblem as problem:
        return InputProblem(problem.key, **problem.values)  # without the frames that raised it


def lines_of(view: View) -> str:
    """The user's lines, or the sentence itself and two examples."""
    lines = view.choices(DecodingChoices).lines
    if lines is not None:
        return lines
    known = view.others or next(iter(examples_of(view.loaded.name).values()))
    others = [sentence for sentence in known if sentence != view.text]
    return one_per_line([view.text, *others[:2]])


def show(batch: LabelledBatch | InputProblem | None, view: View) -> b.Blocks:
    """The training batch made of the user's sentences."""
    if batch is not None:
        yield b.Fold(view.t("labels.title"), tuple(_blocks(view, batch)), inline=True)


def _blocks(view: View, batch: LabelledBatch | InputProblem) -> b.Blocks:
    yield b.Prose(view.t("labels.lead"))
    label = view.t("labels.pair" if view.sites_of("cross") else "labels.text", limit=MOST_LINES)
    yield b.TextBox(
        "decoding.lines", label, lines_of(view), lambda lines: b.choose(lines=lines), 110
    )
    if isinstance(batch, InputProblem):
        yield b.Hint(message(batch, view.lang), "info", warns=True)
        return
    yield b.Canvas("decoding.batch", "batch_rows", lambda file: _packed(view, batch))
    yield b.Sentence("batch", _reading(view, batch))
    yield b.Formula.of(
        view.t("labels.formula"),
        r"L = \frac1N \sum_{t:\ y_t \ne \mathrm{pad}} -\log p(y_t \mid y_{<t},\, x)",
        r"-\log p(y_t) \ \to\ -(1 - \varepsilon)\log p(y_t) - \frac{\varepsilon}{V}"
        r"\sum_{v=1}^{V} \log p(v)",
    )
    yield b.Code((labelled_batch, collate, view.loaded.model.read, sequence_loss))
    cells = [(int(row), int(at)) for row, at in np.argwhere(batch.counts)]
    yield b.Numbers(
        lambda: {
            view.t("labels.read"): [batch.inputs[row][at] for row, at in cells],
            view.t("labels.label"): [batch.labels[row][at] for row, at in cells],
            "−log p": [round(float(batch.losses[row, at]), 3) for row, at in cells],
        }
    )


def _packed(view: View, batch: LabelledBatch) -> bytes:
    pad = view.loaded.marks.pad
    return pack_batch_rows(
        batch.inputs,
        batch.labels,
        batch.counts,
        batch.losses,
        batch.sources,
        padding="" if pad is None else view.loaded.str_tokens([pad])[0],
        words=view.words("components.batch_rows"),
    )


def _reading(view: View, batch: LabelledBatch) -> str:
    return view.t(
        "labels.reading",
        loss=f"{batch.loss:.2f}",
        labels=int(batch.counts.sum()),
        pads=int((~batch.counts).sum()),
        padded=f"{batch.loss_with_padding:.2f}",
    )


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"batch_lines": lines_of},
    open=is_open,
    wait=Wait("labels.working", after="decoding.film"),
)
