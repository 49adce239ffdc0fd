"""How much a language model repeats itself when it continues a text greedily.

The measure is seq-rep-4 of Welleck et al. 2020, Neural Text Generation with Unlikelihood Training,
arXiv 1908.04319, §6.1; `objectives/unlikelihood.py` trains against it.
"""

from collections.abc import Sequence

from models.decoding import Greedy, best, decode
from models.rows import padded
from models.transformer import Model

N_GRAM = 4
BEGINNING, CONTINUATION = 24, 128  # tokens: given, and written at most


def continued(model: Model, beginnings: Sequence[Sequence[int]], n_new: int) -> list[list[int]]:
    """Each beginning (ids with bos) and what the model writes greedily after it.

    That is `n_new` tokens, or less where it comes to an end (eos, included). In eval mode, whatever
    mode the model is in.
    """
    was_training = model.training
    model.eval()
    src, src_valid = padded(beginnings, model.marks.pad)
    steps = decode(model, src, Greedy(), n_new, src_valid=src_valid, n_candidates=0)
    written = [hypothesis.tokens for hypothesis in best(steps)]
    model.train(was_training)
    return [[*given, *new] for given, new in zip(beginnings, written, strict=True)]


def repeated(row: Sequence[int], start: int) -> list[bool]:
    """For each token: is it from `start` on, in an n-gram that stood earlier in the row?

    An n-gram counts where all of it is from `start` on; its earlier copy may be anywhere.
    """
    found = [False] * len(row)
    seen = set()
    for i in range(len(row) - N_GRAM + 1):
        n_gram = tuple(row[i : i + N_GRAM])
        if i >= start and n_gram in seen:
            found[i : i + N_GRAM] = [True] * N_GRAM
        seen.add(n_gram)
    return found


def repetition(rows: Sequence[Sequence[int]]) -> float:
    """Share of the n-grams of `rows` that stood in the same row before (seq-rep-4, ibid., §6.1)."""
    n_grams = [[tuple(row[i : i + N_GRAM]) for i in range(len(row) - N_GRAM + 1)] for row in rows]
    again = sum(len(each) - len(set(each)) for each in n_grams)
    return again / max(1, sum(map(len, n_grams)))


def repetition_of(
    model: Model, texts: Sequence[Sequence[int]], rows_at_once: int = 64
) -> tuple[float, float] | None:
    """`repetition` of the model's greedy continuations of texts, and of how these really go on.

    Of each text `BEGINNING` tokens are given and the next `CONTINUATION` looked at, or as many as
    the model reads; the end mark does not count. None where no text is long enough for that.
    """
    config = model.config
    n_new = min(CONTINUATION, config.n_ctx - BEGINNING - 1)
    long_enough = [text for text in texts if len(text) >= BEGINNING + N_GRAM and n_new >= N_GRAM]
    if not long_enough:
        return None
    written = []
    for start in range(0, len(long_enough), rows_at_once):
        some = long_enough[start:][:rows_at_once]
        beginnings = [model.with_marks("tgt", text[:BEGINNING]) for text in some]
        n_given = len(beginnings[0])
        for row in continued(model, beginnings, n_new):
            written.append([token for token in row[n_given:] if token != model.marks.end])
    return repetition(written), repetition([text[BEGINNING:][:n_new] for text in long_enough])
