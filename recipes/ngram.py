"""A trigram model: the baseline for the perplexity of a language model."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from models.tokenizer import Tokenizer
from models.training.data import encode_texts, labelled
from models.transformer import Model

Row = Sequence[int]
DISCOUNT = 0.75
"""The discount D subtracted from every count, for tokens not seen in a context."""


class Trigram:
    """Interpolated Kneser-Ney of order 3 with one discount. Kneser & Ney 1995; Chen & Goodman 1999.

    P(w | u v) = (c(u v w) - D)+ / c(u v) + D n(u v .) / c(u v) P(w | v), where n(u v .) counts the
    different tokens after u v. The lower orders count contexts instead of occurrences, and the
    lowest is mixed with the uniform distribution, so that no token has probability 0.
    """

    def __init__(self, rows: Sequence[Row], vocab_size: int, bos: int):
        """`rows` are token ids without the start token. Raises ValueError if there are none."""
        if not rows:
            raise ValueError("an n-gram model needs text")
        self.vocab_size, self.bos = vocab_size, bos
        trigrams: Counter[tuple[int, int, int]] = Counter()
        for row in rows:
            padded = (bos, bos, *row)
            trigrams.update(zip(padded, padded[1:], padded[2:], strict=False))
        pairs = Counter((v, w) for _, v, w in trigrams)  # contexts that v w was seen after
        single = Counter(w for _, w in pairs)
        self._orders = [
            _Order({((u, v), w): n for (u, v, w), n in trigrams.items()}),
            _Order({((v,), w): n for (v, w), n in pairs.items()}),
            _Order({((), w): n for w, n in single.items()}),
        ]

    def prob(self, context: tuple[int, int], token: int) -> float:
        """P(token | context), where `context` is the two tokens before it."""
        kept, weight = 0.0, 1.0
        for cut, order in enumerate(self._orders):
            before = context[cut:]
            total = order.total.get(before, 0)
            if total:
                seen = order.counts.get((before, token), 0)
                kept += weight * max(seen - DISCOUNT, 0.0) / total
                weight *= DISCOUNT * order.kinds[before] / total
        return kept + weight / self.vocab_size

    def perplexity(self, rows: Sequence[Row]) -> float:
        """exp of the mean -log P of all tokens of `rows`."""
        total, n = 0.0, 0
        for row in rows:
            padded = (self.bos, self.bos, *row)
            for u, v, w in zip(padded, padded[1:], padded[2:], strict=False):
                total -= math.log(self.prob((u, v), w))
                n += 1
        return math.exp(total / n)


class _Order:
    """The counts of one order; per context, their sum and the number of different next tokens."""

    def __init__(self, counts: dict[tuple[tuple[int, ...], int], int]) -> None:
        self.counts = counts
        self.total: dict[tuple[int, ...], int] = defaultdict(int)
        self.kinds: dict[tuple[int, ...], int] = defaultdict(int)
        for (before, _), n in counts.items():
            self.total[before] += n
            self.kinds[before] += 1


def trigram_score(
    model: Model, tokenizer: Tokenizer, texts: Sequence[str], counted: Sequence[str]
) -> dict[str, float]:
    """The perplexity on `texts` of a trigram model of the `counted` ones, over the tokens on which
    `evaluate` scores the language model."""
    start = -1 if model.marks.start is None else model.marks.start
    scored, train = (
        [labelled(e, model)[1] for e in encode_texts(some, tokenizer, model.config.n_ctx)]
        for some in (texts, counted)
    )
    trigram = Trigram(train, model.config.vocab_size, start)
    return {"trigram_perplexity": round(trigram.perplexity(scored), 3)}
