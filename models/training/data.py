"""From text files to padded batches.

A pair becomes: source = tokens + end; decoder input = start + tokens; labels = tokens + end. Input
and labels are separate tensors, never views of each other. A text for a decoder-only model becomes
decoder input and labels only. For an encoder that fills in masked words, input and labels are both
the text with its special tokens; labels of special tokens do not count, and the objective masks
some of the words.
"""

import csv
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from models.rows import Rows, padded
from models.tokenizer import Tokenizer
from models.training.columns import names_pair
from models.transformer import Model

Pair = tuple[str, str]  # source, target

END_OF_TEXT = "<|endoftext|>"  # the line that separates texts in a plain-text file


class Example(NamedTuple):
    """Token ids of one training example; `src` is empty for a single-sequence model."""

    src: tuple[int, ...]
    tgt: tuple[int, ...]


@dataclass(frozen=True)
class Material:
    """The training set and the validation set of a training run."""

    examples: Sequence[Example]
    valid: Sequence[Example] = ()  # the validation set, not used for training


@dataclass(frozen=True)
class Batch:
    """A model's input in one step, and the label of every position."""

    rows: Rows
    labels: Tensor  # Long [batch, tgt]
    loss_mask: Tensor  # Bool [batch, tgt], True = this label counts
    n_labels: int  # labels that count, including other processes' shares of the batch

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        return replace(
            self,
            rows=self.rows.to(device),
            labels=self.labels.to(device),
            loss_mask=self.loss_mask.to(device),
        )


def read_pairs(path: Path) -> list[Pair]:
    """Sentence pairs of a TSV file: source TAB target; further columns and a header are ignored.

    Raises ValueError, naming the line, if a row has fewer than two columns or a field of more than
    131,072 characters (the limit of Python's csv module).
    """
    pairs = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        try:
            for row in rows:
                if not row or (rows.line_num == 1 and names_pair(row)):
                    continue
                if len(row) < 2:
                    what = "no TAB between source and target"
                    raise ValueError(f"{path.name}, line {rows.line_num}: {what}")
                pairs.append((row[0], row[1]))
        except csv.Error as error:
            raise ValueError(f"{path.name}, line {rows.line_num}: {error}") from error
    return pairs


def read_texts(path: Path) -> list[str]:
    """The texts of a plain-text file, separated by lines of <|endoftext|>."""
    texts = path.read_text(encoding="utf-8").split(END_OF_TEXT)
    return [text.strip() for text in texts if text.strip()]


def encode_pairs(
    pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer, n_ctx: int
) -> list[Example]:
    """Token ids of pairs; pairs longer than `n_ctx` (with the end token) are skipped."""
    encode, read = tokenizer.of("tgt").encode, tokenizer.of("src").encode
    examples = [
        Example(tuple(read(src)) if isinstance(src, str) else src, tuple(encode(tgt)))
        for src, tgt in pairs
    ]
    return [e for e in examples if len(e.src) and e.tgt and max(map(len, e)) < n_ctx]


def encode_texts(
    texts: Sequence[str], tokenizer: Tokenizer, n_ctx: int, n_marks: int = 1
) -> list[Example]:
    """Token ids of texts, cut into pieces of `n_ctx` tokens, `n_marks` special ones included."""
    step = n_ctx - n_marks
    return [
        Example((), tuple(ids[start : start + step]))
        for ids in map(tokenizer.encode, texts)
        for start in range(0, len(ids), step)
    ]


def encode_rows(
    rows: Sequence[tuple[str, str] | str], tokenizer: Tokenizer, n_ctx: int, n_marks: int = 1
) -> list[Example]:
    """`encode_pairs` of the pairs among `rows`, and `encode_texts` of the texts."""
    pairs = [row for row in rows if isinstance(row, tuple)]
    texts = [row for row in rows if isinstance(row, str)]
    return encode_pairs(pairs, tokenizer, n_ctx) + encode_texts(texts, tokenizer, n_ctx, n_marks)


def labelled(example: Example, model: Model) -> tuple[list[int], list[int], list[bool]]:
    """The model's input for the text, the label of each position, and whether it counts."""
    if model.config.fills:
        row = list(model.with_marks("tgt", example.tgt))
        return row, row, [token not in model.marks for token in row]
    end = [] if model.marks.end is None else [model.marks.end]
    row = [*model.with_marks("tgt", example.tgt), *end]
    return row[:-1], row[1:], [True] * (len(row) - 1)


def collate(examples: Sequence[Example], model: Model) -> Batch:
    """Collate examples into a padded batch for this model, as described at the top."""
    inputs, labels, counts = zip(*(labelled(e, model) for e in examples), strict=True)
    sources = None
    if "src" in model.reads:
        sources = [model.with_marks("src", e.src) for e in examples]
    loss_mask = padded(counts)[0].bool()
    rows = Rows.of(inputs, sources, model.marks)
    targets = padded(labels, model.marks.pad)[0]
    return Batch(rows, targets, loss_mask, int(loss_mask.sum()))


def plan_batches(
    examples: Sequence[Example], max_tokens: int, seed: int, epoch: int
) -> list[list[int]]:
    """Indices of the examples in each batch of one epoch; each example occurs once.

    Examples of similar length share a batch. A batch has at most `max_tokens` tokens in the longer
    of source and target, padding included (a longer example forms its own batch). The order depends
    on `seed` and `epoch` only, so a resumed run continues with the same batches.
    """
    order = random.Random(f"{seed}/{epoch}")
    indices = list(range(len(examples)))
    order.shuffle(indices)  # so that examples of equal length are regrouped in every epoch
    indices.sort(key=lambda i: (len(examples[i].tgt), len(examples[i].src)))
    batches: list[list[int]] = []
    current: list[int] = []
    longest = 0
    for index in indices:
        width = 1 + max(len(examples[index].src), len(examples[index].tgt))
        if current and max(longest, width) * (len(current) + 1) > max_tokens:
            batches.append(current)
            current, longest = [], 0
        current.append(index)
        longest = max(longest, width)
    if current:
        batches.append(current)
    order.shuffle(batches)
    return batches


def batches(
    examples: Sequence[Example],
    model: Model,
    max_tokens: int,
    seed: int,
    epoch: int,
    skip: int = 0,
    share: tuple[int, int] = (0, 1),
) -> Iterator[Batch]:
    """The batches of one epoch, without the first `skip` (used before the run was stopped).

    With `share` (i, n), the i-th of n processes gets its part of every batch. `n_labels` counts the
    whole batch, so that losses divided by it add up over the processes.
    """
    part, n_parts = share
    for indices in plan_batches(examples, max_tokens, seed, epoch)[skip:]:
        # With fewer rows than processes, the rest read a row that does not count, so that all
        # processes take the same number of steps.
        mine = indices[part::n_parts] or indices[:1]
        batch = collate([examples[i] for i in mine], model)
        if part >= len(indices):
            batch = replace(batch, loss_mask=torch.zeros_like(batch.loss_mask))
        n_labels = sum(sum(labelled(examples[i], model)[2]) for i in indices)
        yield replace(batch, n_labels=n_labels)
