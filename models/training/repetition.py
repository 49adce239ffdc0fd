"""How much a language model repeats itself when it continues a text greedily.

The measure is seq-rep-4 of Welleck et al. 2020, Neural Text Generation with Unlikelihood Training,
arXiv 1908.04319, §6.1.
"""

from collections.abc import Sequence

from models.decoding import best, decode
from models.rows import padded
from models.strategies import Greedy
from models.transformer import Model

N_GRAM = 4
ROWS_AT_ONCE = 64
BEGINNING, CONTINUATION = 24, 128  # tokens given, and maximum generated


def continued(model: Model, beginnings: Sequence[Sequence[int]], n_new: int) -> list[list[int]]:
    """Each beginning (ids with the start token) followed by its greedy continuation.

    At most `n_new` tokens are generated, up to and including the end token. The model is in eval
    mode during the call.
    """
    was_training = model.training
    model.eval()
    src, src_valid = padded(beginnings, model.marks.pad)
    steps = decode(model, src, Greedy(), n_new, src_valid=src_valid)
    written = [hypothesis.tokens for hypothesis in best(steps)]
    model.train(was_training)
    return [[*beginning, *new] for beginning, new in zip(beginnings, written, strict=True)]


def repeated(row: Sequence[int], start: int) -> list[bool]:
    """Per token: whether it is part of an n-gram that occurred earlier in the sequence.

    Only n-grams entirely at or after `start` count; the earlier one may be anywhere.
    """
    flags = [False] * len(row)
    seen = set()
    for i in range(len(row) - N_GRAM + 1):
        n_gram = tuple(row[i : i + N_GRAM])
        if i >= start and n_gram in seen:
            flags[i : i + N_GRAM] = [True] * N_GRAM
        seen.add(n_gram)
    return flags


def repetition(rows: Sequence[Sequence[int]]) -> float:
    """Share of the n-grams of `rows` that occurred earlier in the same sequence (seq-rep-4)."""
    n_grams = [[tuple(row[i : i + N_GRAM]) for i in range(len(row) - N_GRAM + 1)] for row in rows]
    again = sum(len(gram) - len(set(gram)) for gram in n_grams)
    return again / max(1, sum(map(len, n_grams)))


def repetition_of(model: Model, texts: Sequence[Sequence[int]]) -> tuple[float, float] | None:
    """`repetition` of the model's greedy continuations, and of the texts' own continuations.

    `BEGINNING` tokens of each text are given, and the next `CONTINUATION` are compared, or as many
    as fit into the model's n_ctx; the end token does not count. None if no text is long enough.
    """
    config = model.config
    n_new = min(CONTINUATION, config.n_ctx - BEGINNING - 1)
    long_enough = [text for text in texts if len(text) >= BEGINNING + N_GRAM and n_new >= N_GRAM]
    if not long_enough:
        return None
    written = []
    for start in range(0, len(long_enough), ROWS_AT_ONCE):
        some = long_enough[start:][:ROWS_AT_ONCE]
        beginnings = [model.with_marks("tgt", text[:BEGINNING]) for text in some]
        n_given = len(beginnings[0])
        for row in continued(model, beginnings, n_new):
            written.append([token for token in row[n_given:] if token != model.marks.end])
    return repetition(written), repetition([text[BEGINNING:][:n_new] for text in long_enough])
