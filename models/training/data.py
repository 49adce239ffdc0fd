"""From text files to padded batches.

A pair becomes: source = tokens + end; decoder input = start + tokens; labels = tokens + end. Input
and labels are separate tensors made from one row, never views of each other. A text becomes
decoder input and labels alone, for a decoder-only model.
"""

import csv
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from models.config import ModelConfig
from models.marks import END, PAD, START
from models.tokenizer import Tokenizer

Pair = tuple[str, str]  # source, target

END_OF_TEXT = "<|endoftext|>"  # a line of its own between two texts of a plain-text file


class Example(NamedTuple):
    """Token ids of one training example; `src` is empty for a decoder-only model."""

    src: tuple[int, ...]
    tgt: tuple[int, ...]


class Preference(NamedTuple):
    """Two continuations of one beginning, in token ids without the start mark."""

    given: tuple[int, ...]
    better: tuple[int, ...]
    worse: tuple[int, ...]


@dataclass(frozen=True)
class Material:
    """All that a training learns from and is measured on."""

    examples: Sequence[Example]
    valid: Sequence[Example] = ()  # held apart: nothing of it is learnt
    preferences: Sequence[Preference] = ()


@dataclass(frozen=True)
class Batch:
    """One padded batch; `src` and `src_valid` are None for a decoder-only model."""

    src: Tensor | None  # Long [batch, src]
    src_valid: Tensor | None  # Bool [batch, src]
    tgt: Tensor  # Long [batch, tgt], starts with bos
    tgt_valid: Tensor  # Bool [batch, tgt]
    labels: Tensor  # Long [batch, tgt], ends with eos; what to predict after each of tgt
    loss_mask: Tensor  # Bool [batch, tgt], True = this label counts
    n_labels: int  # labels that count, those of the batch's other shares included

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        return Batch(
            None if self.src is None else self.src.to(device),
            None if self.src_valid is None else self.src_valid.to(device),
            self.tgt.to(device),
            self.tgt_valid.to(device),
            self.labels.to(device),
            self.loss_mask.to(device),
            self.n_labels,
        )

    def twice(self) -> "Batch":
        """All rows in order, then all of them again; `n_labels` stays."""
        return replace(
            self,
            src=None if self.src is None else self.src.repeat(2, 1),
            src_valid=None if self.src_valid is None else self.src_valid.repeat(2, 1),
            tgt=self.tgt.repeat(2, 1),
            tgt_valid=self.tgt_valid.repeat(2, 1),
            labels=self.labels.repeat(2, 1),
            loss_mask=self.loss_mask.repeat(2, 1),
        )


def read_pairs(path: Path) -> list[Pair]:
    """Sentence pairs of a TSV file: source TAB target, further columns ignored.

    Raises ValueError, naming the line, for a row with fewer than two columns.
    """
    pairs = []
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        for number, row in enumerate(rows, 1):
            if not row:
                continue
            if len(row) < 2:
                raise ValueError(f"{path.name}, line {number}: no TAB between source and target")
            pairs.append((row[0], row[1]))
    return pairs


def read_texts(path: Path) -> list[str]:
    """The texts of a plain-text file, separated by lines that say <|endoftext|>."""
    texts = path.read_text(encoding="utf-8").split(END_OF_TEXT)
    return [text.strip() for text in texts if text.strip()]


def encode_pairs(
    pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer, n_ctx: int
) -> list[Example]:
    """Token ids of pairs; pairs longer than `n_ctx` (with the end mark) are left out."""
    sources = tokenizer.encode_batch([source for source, _ in pairs])
    targets = tokenizer.encode_batch([target for _, target in pairs])
    examples = [Example(tuple(s), tuple(t)) for s, t in zip(sources, targets, strict=True)]
    return [e for e in examples if e.src and e.tgt and max(map(len, e)) < n_ctx]


def encode_texts(texts: Sequence[str], tokenizer: Tokenizer, n_ctx: int) -> list[Example]:
    """Token ids of texts, cut into pieces of at most `n_ctx - 1`."""
    step = n_ctx - 1
    return [
        Example((), tuple(ids[start : start + step]))
        for ids in tokenizer.encode_batch(list(texts))
        for start in range(0, len(ids), step)
    ]


def encode_rows(
    rows: Sequence[tuple[str, str] | str], tokenizer: Tokenizer, n_ctx: int
) -> list[Example]:
    """`encode_pairs` of the pairs among `rows`, and `encode_texts` of the texts."""
    pairs = [row for row in rows if isinstance(row, tuple)]
    texts = [row for row in rows if isinstance(row, str)]
    return encode_pairs(pairs, tokenizer, n_ctx) + encode_texts(texts, tokenizer, n_ctx)


def pad(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Rows padded on the right to the longest: (Long [batch, pos], Bool valid [batch, pos])."""
    width = max(map(len, rows))
    tokens = torch.full((len(rows), width), pad_id)
    valid = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        tokens[i, : len(row)] = torch.tensor(row, dtype=torch.long)
        valid[i, : len(row)] = True
    return tokens, valid


def collate(examples: Sequence[Example], config: ModelConfig) -> Batch:
    """One padded batch, with the shifted rows that the module docstring describes."""
    tgt, tgt_valid = pad([(START, *e.tgt) for e in examples], PAD)
    labels, _ = pad([(*e.tgt, END) for e in examples], PAD)
    src = src_valid = None
    if config.family == "encoder-decoder":
        src, src_valid = pad([(*e.src, END) for e in examples], PAD)
    return Batch(src, src_valid, tgt, tgt_valid, labels, tgt_valid, int(tgt_valid.sum()))


def plan_batches(
    examples: Sequence[Example], max_tokens: int, seed: int, epoch: int
) -> list[list[int]]:
    """Indices of the examples of each batch of one epoch, each example once.

    Examples of similar length share a batch, and a batch holds at most `max_tokens` cells of its
    longer stream, padding included (an example longer than that makes a batch of its own). The
    order depends on `seed` and `epoch` only, so a resumed run goes on with the same batches.
    """
    order = random.Random(f"{seed}/{epoch}")
    indices = list(range(len(examples)))
    order.shuffle(indices)  # so that equal lengths meet other neighbours in every epoch
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
    config: ModelConfig,
    max_tokens: int,
    seed: int,
    epoch: int,
    skip: int = 0,
    share: tuple[int, int] = (0, 1),
) -> Iterator[Batch]:
    """The batches of one epoch, without the first `skip` (already trained on before a stop).

    `share` (i, n) gives the i-th of n processes its part of every batch; `n_labels` stays that of
    the whole batch, so that losses divided by it add up over the processes.
    """
    part, n_parts = share
    for indices in plan_batches(examples, max_tokens, seed, epoch)[skip:]:
        n_labels = sum(len(examples[i].tgt) + 1 for i in indices)
        # A batch smaller than the number of processes: somebody trains on a row that counts
        # for nothing, so that all of them take the same number of steps.
        mine = indices[part::n_parts] or indices[:1]
        batch = collate([examples[i] for i in mine], config)
        if part >= len(indices):
            batch = replace(batch, loss_mask=torch.zeros_like(batch.tgt_valid))
        yield replace(batch, n_labels=n_labels)
