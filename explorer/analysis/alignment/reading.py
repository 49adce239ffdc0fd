"""Force a translator to read sentence pairs and express its cross-attention as words x words.

Position p of the decoder has read token p and predicts the next one. So a word has two query
positions in every head: the one that predicts it (shift 0) and the one that has read it (shift 1).
Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine Translation", find that the
second aligns better; here both are recorded and measured.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.alignment.words import WordRow, shares, token_spans, words_in
from explorer.analysis.heads import sinks
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.generation import translate_all
from explorer.runs.inputs import given_tokens, limit, target_row, target_tokens
from explorer.runs.run import run
from explorer.runs.trace import trace
from models.hooks import AttentionSite
from models.rows import Rows

ABOUT_TO_WRITE, HAS_READ = SHIFTS = (0, 1)
AT_ONCE = 8
MOST_CELLS = 1 << 25
"""Weights of all heads recorded per batch: 128 MB in float32."""
Pair = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Reading:
    """One pair as a model reads it: its words, and the weights [shift, head, tgt_word, src_word].

    Weight on special tokens is left out, so rows sum to at most 1.
    """

    pair: Pair
    src: WordRow
    tgt: WordRow
    weights: Float[np.ndarray, "shift head tgt_word src_word"]


def cross_sites(loaded: LoadedModel) -> tuple[AttentionSite, ...]:
    """The cross-attention sites of a model, first layer first; () for a model of one text."""
    return tuple(site for site in loaded.sites if site.role == "cross")


def heads_of(loaded: LoadedModel) -> tuple[tuple[int, int], ...]:
    """Layer and head of every cross-attention matrix, in the order of `Reading.weights`."""
    return tuple((site.layer, head) for site in cross_sites(loaded) for head in range(site.n_heads))


def words_of_pair(loaded: LoadedModel, pair: Pair) -> tuple[WordRow, WordRow]:
    """The words of both texts, as this model's tokenizer splits them. Raises InputProblem."""
    source, target = pair
    own = target_row(loaded, target_tokens(loaded, target))
    return words_in(loaded, given_tokens(loaded, source), "src"), words_in(loaded, own)


def read(
    loaded: LoadedModel, pairs: Sequence[Pair], without_sinks: bool = False
) -> Iterator[Reading]:
    """Read every pair with the model that translates from its first text into its second.

    Several are read at a time. `without_sinks`: from the patterns that `analysis.heads.sinks`
    leaves. Raises InputProblem for a text that cannot be read, and ValueError
    for a model without cross-attention.
    """
    words = [words_of_pair(loaded, pair) for pair in pairs]
    return _read(loaded, pairs, words, without_sinks)


def read_back(
    loaded: LoadedModel, readings: Sequence[Reading], without_sinks: bool = False
) -> Iterator[Reading]:
    """Read the same pairs with the reverse model, expressed in the words of the first one.

    Its target is the pair's source. The weights are transposed to [shift, head, tgt_word,
    src_word], so that rows are again the pair's target words; here each column, not each row, comes
    from one query.
    """
    pairs = [(target, source) for source, target in (own.pair for own in readings)]
    words = [(own.tgt, own.src) for own in readings]
    for own, back in zip(readings, _read(loaded, pairs, words, without_sinks), strict=True):
        yield Reading(own.pair, own.src, own.tgt, back.weights.swapaxes(2, 3))


def _read(
    loaded: LoadedModel,
    pairs: Sequence[Pair],
    words: Sequence[tuple[WordRow, WordRow]],
    without_sinks: bool,
) -> Iterator[Reading]:
    sites = cross_sites(loaded)
    if not sites:
        raise ValueError(f"{loaded.name} has no cross-attention: it reads a single text")
    rows = [_rows(loaded, pair) for pair in pairs]
    done = 0
    while done < len(pairs):
        batch = range(done, done + _fitting(loaded, rows[done:]))
        src, tgt = ([rows[at][side] for at in batch] for side in (0, 1))
        inputs = Rows.of(tgt, src, loaded.marks)
        kept = run(loaded.model, inputs, {site.hook("pattern") for site in sites})
        patterns = torch.cat([kept[site.hook("pattern")] for site in sites], 1).numpy()
        for place, at in enumerate(batch):
            of_pair = patterns[place]
            if without_sinks:
                rest = sinks.without_sinks(loaded, trace(loaded, *pairs[at]))
                of_pair = np.concatenate([rest.pattern(site.name) for site in sites])
            yield _reading(loaded, pairs[at], words[at], rows[at], of_pair)
        done += len(batch)


def readable(loaded: LoadedModel, pair: Pair) -> bool:
    """Whether `read` accepts both texts of this pair."""
    try:
        _rows(loaded, pair)
    except InputProblem:
        return False
    return True


def _rows(loaded: LoadedModel, pair: Pair) -> tuple[tuple[int, ...], tuple[int, ...]]:
    source, target = pair
    src, tgt = given_tokens(loaded, source), target_row(loaded, target_tokens(loaded, target))
    if len(src) * len(tgt) * len(heads_of(loaded)) > MOST_CELLS:
        most = isqrt(MOST_CELLS // len(heads_of(loaded)))
        length = max(len(src), len(tgt))
        raise InputProblem("too_many_tokens", limit=min(most, limit(loaded)), length=length)
    return src, tgt


def _fitting(loaded: LoadedModel, rows: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> int:
    """How many of these pairs fit into one batch."""
    most, heads = 1, len(heads_of(loaded))
    for count in range(2, min(AT_ONCE, len(rows)) + 1):
        longest = [max(len(row[side]) for row in rows[:count]) for side in (0, 1)]
        if count * heads * longest[0] * longest[1] <= MOST_CELLS:
            most = count
    return most


def _reading(
    loaded: LoadedModel,
    pair: Pair,
    words: tuple[WordRow, WordRow],
    rows: tuple[tuple[int, ...], tuple[int, ...]],
    patterns: Float[np.ndarray, "head query key"],
) -> Reading:
    (src, tgt), (source, written) = words, rows
    of_keys = shares(src, *token_spans(loaded, source, "src"))
    of_queries = shares(tgt, *token_spans(loaded, written))
    of_queries /= np.maximum(of_queries.sum(1, keepdims=True), 1e-12)
    # Position p predicts token p + 1: shift the words up by one position.
    before = np.pad(of_queries[:, 1:], ((0, 0), (0, 1)))
    patterns = patterns[:, : len(written), : len(source)]
    by_key = patterns @ of_keys.T
    weights = np.stack([before @ by_key, of_queries @ by_key]).astype(np.float32)
    return Reading(pair, src, tgt, weights)


def translated(loaded: LoadedModel, sentences: Sequence[str]) -> Iterator[Pair]:
    """Each sentence with the model's own greedy translation; several are decoded at a time.

    A sentence is left out if it cannot be read, or if its translation has no words or cannot be
    read: when re-tokenized, a text may be longer than what was generated.
    """
    sentences = [sentence for sentence in sentences if readable(loaded, (sentence, ""))]
    for start in range(0, len(sentences), AT_ONCE):
        batch = sentences[start : start + AT_ONCE]
        outputs = translate_all(loaded, [given_tokens(loaded, sentence) for sentence in batch])
        for sentence, (tokens, _) in zip(batch, outputs, strict=True):
            written = loaded.tokenizer.decode(tokens)
            if written.strip() and readable(loaded, (sentence, written)):
                yield sentence, written
