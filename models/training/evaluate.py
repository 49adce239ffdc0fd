"""Scores: BLEU and chrF of translations (by sacrebleu), perplexity, masked-word accuracy."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sacrebleu
import torch

from models.decoding import best, decode
from models.rows import padded
from models.strategies import Beam, Greedy, Rules, Strategy
from models.tokenizer import Tokenizer
from models.training.data import encode_pairs, encode_texts, labelled
from models.training.faults import Masks, masked_as
from models.training.loss import teacher_forced
from models.training.objectives import fill_in
from models.training.repetition import repetition_of
from models.transformer import Model

MAX_TOKENS = 1024
"""Maximum number of source tokens per batch in translation, padding included."""


@dataclass(frozen=True)
class TranslationScores:
    """Scores of the model's translations, and its teacher-forced scores on the references.

    `bleu`, `chrf` and `exact` (translations that equal a reference in every character) are in
    percent. `loss`, in nats, and `accuracy`, in percent, are measured with teacher forcing.
    `seconds` is the time of the translation only.
    """

    bleu: float
    chrf: float
    exact: float
    loss: float
    accuracy: float
    sentences: int
    seconds: float


def output_limit(n_source: int) -> int:
    """Maximum output length for a source of `n_source` tokens: 2 n_source + 16."""
    return 2 * n_source + 16


def translate(
    model: Model,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    strategy: Strategy | None = None,
    rules: Rules | None = None,
) -> list[str]:
    """The model's translation of each sentence (greedy unless a strategy is given), under `rules`.

    Sentences of similar length share a batch of at most `MAX_TOKENS` padded source tokens. Raises
    ValueError for a sentence without tokens.
    """
    device = next(model.parameters()).device
    sources = [model.with_marks("src", ids) for ids in map(tokenizer.of("src").encode, sentences)]
    nothing = model.with_marks("src", ())
    for sentence, source in zip(sentences, sources, strict=True):
        if source == nothing:
            raise ValueError(f"{sentence!r} contains nothing to translate")
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    translations = [""] * len(sources)
    while order:
        width = len(sources[order[-1]])
        rows = [order.pop() for _ in range(min(len(order), max(1, MAX_TOKENS // width)))]
        src, src_valid = padded([sources[i] for i in rows], model.marks.of("src").pad)
        steps = decode(
            model,
            src.to(device),
            strategy or Greedy(),
            min(output_limit(width), model.config.longest or output_limit(width)),
            src_valid=src_valid.to(device),
            rules=rules,
        )
        for i, hypothesis in zip(rows, best(steps), strict=True):
            translations[i] = tokenizer.decode(hypothesis.tokens)
    return translations


def by_source(pairs: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """The references of each source: the targets of all pairs with this source."""
    references: dict[str, list[str]] = {}
    for source, target in pairs:
        references.setdefault(source, []).append(target)
    return references


def is_chinese(texts: Sequence[str]) -> bool:
    """Whether most letters are CJK ideographs; if so, BLEU counts characters, not words."""
    letters = [c for text in texts for c in text if c.isalpha()]
    return sum("\u4e00" <= c <= "\u9fff" for c in letters) > len(letters) / 2


def evaluate_translation(
    model: Model,
    tokenizer: Tokenizer,
    pairs: Sequence[tuple[str, str]],
    strategy: Strategy | None = None,
    masks: Masks = "right",
) -> TranslationScores:
    """BLEU (`tokenize="zh"` for Chinese, else 13a) and chrF against all references of a source.

    The model runs under `masks`: the right ones, or the wrong ones that it was trained under.
    """
    references = by_source(pairs)
    started = time.monotonic()
    with masked_as(masks, model):
        hypotheses = translate(model, tokenizer, list(references), strategy or Beam(width=4))
    seconds = time.monotonic() - started
    most = max(map(len, references.values()))
    # sacrebleu expects the first references of all sources, then the second ones, and so on; None
    # marks a missing one.
    columns: Any = [
        [r[i] if i < len(r) else None for r in references.values()] for i in range(most)
    ]
    chinese = is_chinese([r[0] for r in references.values()])
    bleu = sacrebleu.corpus_bleu(hypotheses, columns, tokenize="zh" if chinese else "13a")
    chrf = sacrebleu.corpus_chrf(hypotheses, columns)
    hits = sum(h in r for h, r in zip(hypotheses, references.values(), strict=True))
    examples = encode_pairs(pairs, tokenizer, model.config.n_ctx)
    forced = teacher_forced(model, examples, 2048, masks)
    return TranslationScores(
        bleu=round(bleu.score, 2),
        chrf=round(chrf.score, 2),
        exact=round(100 * hits / len(hypotheses), 1),
        loss=round(forced.loss, 4),
        accuracy=round(100 * forced.accuracy, 1),
        sentences=len(hypotheses),
        seconds=round(seconds, 1),
    )


def bleu_score(
    model: Model, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]
) -> dict[str, float]:
    """Greedy BLEU, for the training curve."""
    return {"bleu": evaluate_translation(model, tokenizer, pairs, Greedy()).bleu}


def evaluate_language_model(
    model: Model, tokenizer: Tokenizer, texts: Sequence[str]
) -> dict[str, float]:
    """Loss in nats and perplexity per token, for texts cut at the model's n_ctx.

    If the texts are long enough, also the percentage of repeated 4-grams in the model's greedy
    continuations (`repetition.py`) and in the texts themselves.
    """
    examples = encode_texts(texts, tokenizer, model.config.n_ctx)
    loss = teacher_forced(model, examples, max_tokens=2048).loss
    figures = {
        "loss": round(loss, 4),
        "perplexity": round(math.exp(loss), 3),
        "tokens": sum(len(labelled(e, model)[1]) for e in examples),
    }
    shares = repetition_of(model, [tokenizer.encode(text) for text in texts])
    if shares is not None:
        figures["repetition"], figures["repetition_of_texts"] = (
            round(100 * share, 1) for share in shares
        )
    return figures


def evaluate_masked_words(
    model: Model, tokenizer: Tokenizer, texts: Sequence[str]
) -> dict[str, float]:
    """Loss in nats and accuracy in percent on masked words, for texts cut at n_ctx.

    The masked words are the same at every call; `words` counts them.
    """
    n_marks = len(model.with_marks("tgt", ()))
    examples = encode_texts(texts, tokenizer, model.config.n_ctx, n_marks)
    filled = fill_in(model, examples, max_tokens=2048)
    return {
        "loss": round(filled.loss, 4),
        "accuracy": round(100 * filled.accuracy, 1),
        "words": filled.n_words,
    }


def evaluate_reading(
    model: Model, tokenizer: Tokenizer, rows: Sequence[tuple[Any, str]], batch: int = 200
) -> dict[str, float]:
    """Shares in percent of characters and words read correctly, decoded greedily.

    `rows` are pairs of patches [patch, pixel] and text. Characters: 100 % minus the edit distance
    per character of the texts. `letters`: words that are right if capitals do not count.
    """
    longest = max(len(text) for _, text in rows)
    read: list[str] = []
    for start in range(0, len(rows), batch):
        patches = np.stack([item for item, _ in rows[start : start + batch]]).astype(np.int64)
        hypotheses = best(decode(model, torch.from_numpy(patches), Greedy(), longest + 3))
        read += [tokenizer.decode(item.tokens) for item in hypotheses]
    texts = [text for _, text in rows]
    edits = sum(edit_distance(one, other) for one, other in zip(read, texts, strict=True))
    right = [one == other for one, other in zip(read, texts, strict=True)]
    folded = [one.lower() == other.lower() for one, other in zip(read, texts, strict=True)]
    return {
        "characters": round(100 * (1 - edits / sum(map(len, texts))), 2),
        "words": round(100 * sum(right) / len(rows), 2),
        "letters": round(100 * sum(folded) / len(rows), 2),
        "pictures": len(rows),
    }


def edit_distance(one: str, other: str) -> int:
    """The fewest insertions, deletions and replacements that turn `one` into `other`."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]
