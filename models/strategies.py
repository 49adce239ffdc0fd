"""Decoding strategies: how to choose tokens, given the model's log-probabilities.

A strategy is an immutable dataclass without state; `models.decoding.decode` calls it at every step.
"""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

SEEDS = 2**32  # torch's CPU generator uses 32 bits of a seed: larger ones would repeat smaller ones
FINITE = sys.float_info.max
Number = float | int  # spelled out: run-time type checks take `float` literally
OfRows = Float[Tensor, "row vocab"]
OfLive = Float[Tensor, "live vocab"]  # the live hypotheses of one sentence


def require_whole(name: str, value: object, least: int) -> None:
    """Raise ValueError, naming the field and its value, unless it is an int >= `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}: it must be a whole number of at least {least}")


def _require_number(name: str, value: object, least: Number, most: Number = FINITE) -> None:
    """Raise ValueError unless `value` is a finite number in [least, most]; NaN is refused."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and least <= value <= most):  # type: ignore[operator]
        span = f"from {least:g} to {most:g}" if most < FINITE else f"of at least {least:g}"
        raise ValueError(f"{name} is {value!r}: it must be a finite number {span}")


def largest(values: Float[Tensor, " n"], n: int) -> list[tuple[int, float]]:
    """(Index, value) of up to `n` largest values above -inf, in descending order, ties by index.

    (`Tensor.topk` breaks ties arbitrarily, so a beam of width 1 would not be greedy.)
    """
    least = values.topk(min(max(n, 1), values.numel())).values[-1]
    among = ((values >= least) & (values > -math.inf)).nonzero()[:, 0].tolist()
    pairs = zip(among, values[among].tolist(), strict=True)
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:n]


@dataclass(frozen=True)
class Hypothesis:
    """One output so far: its tokens, without bos and prompt, with forced tokens and eos.

    `logprob` is the sum of the tokens' log-probabilities under the model, before truncation and
    rules; `total` is the same sum under the rules; `score` compares outputs of different lengths
    (`Beam`'s rule; otherwise the total). `rows[i]` is the row that step i extended by `tokens[i]`,
    so that `steps[i].log_probs[rows[i], tokens[i]]` add up to `logprob`.
    """

    tokens: tuple[int, ...]
    logprob: float
    score: float
    rows: tuple[int, ...]
    finished: bool  # the last token is eos
    total: float = 0.0


@runtime_checkable
class Rules(Protocol):
    """Rules under which a strategy chooses (`models.foreign.elsewhere`); falsy if empty."""

    def applied(
        self, scores: OfRows, rows: Tensor, prompt: int, limit: int, ends: tuple[int, ...]
    ) -> OfRows:
        """Scores under the rules. `rows` are ids, the first `prompt` of which were given; at most
        `limit` more are generated, and `ends` end an output."""


class Strategy(ABC):
    """The interface that `decode` uses. The defaults are for one hypothesis per sentence.

    `sums`: rules act on log-probabilities, which are summed over steps, instead of logits.
    `may_pad`: padding may be generated even if the decoder starts with the padding token.
    """

    sums: ClassVar[bool] = False
    may_pad: ClassVar[bool] = False

    @abstractmethod
    def probs(self, log_probs: OfRows) -> OfRows:
        """The truncated distribution: sums to 1, exactly 0 where cut."""

    def choose(
        self, log_probs: OfLive, probs: OfLive, totals: Sequence[float], n: int, draw: float
    ) -> list[tuple[int, int]]:
        """Up to `n` extensions (live hypothesis, token) of one sentence, best first.

        `totals` are the log-probabilities of the live hypotheses so far, `draw` is this step's
        uniform number in [0, 1). The default is the most probable token.
        """
        return [(0, int(log_probs[0].argmax()))]

    def room(self, n_finished: int, n_ends: int = 1) -> int:
        """How many extensions of a sentence to choose, given the number already finished; `n_ends`
        tokens of the vocabulary end an output."""
        return 1 - n_finished

    def settle(
        self, hypotheses: Sequence[Hypothesis], ended: Sequence[Hypothesis], left: int
    ) -> tuple[list[Hypothesis], list[Hypothesis]]:
        """The live hypotheses and the answers so far, best first; `left` steps remain.

        `made` are this step's extensions of one sentence, best first.
        """
        live: list[Hypothesis] = []
        finished = [*ended]
        for hypothesis in hypotheses:
            (finished if hypothesis.finished else live).append(hypothesis)
        return live, sorted(finished, key=by_score)

    def score(self, logprob: float, length: int) -> float:
        """The score that compares hypotheses of different lengths."""
        return logprob

    def draws(self, n_sentences: int) -> Iterator[Sequence[float]]:
        """One uniform number per sentence and step; zeros for deterministic strategies."""
        return repeat((0.0,) * n_sentences)


@dataclass(frozen=True)
class Greedy(Strategy):
    """Always the most probable token; ties go to the smallest id."""

    def probs(self, log_probs: OfRows) -> OfRows:
        return torch.zeros_like(log_probs).scatter(-1, log_probs.argmax(-1, keepdim=True), 1.0)


@dataclass(frozen=True)
class Sample(Strategy):
    """Sample each token after three steps, applied in this order.

    temperature  probs = softmax(log_probs / temperature); 1 leaves the model's probabilities
                 unchanged, 0 (the limit) equals `Greedy` exactly.
    top_k        keep the k most probable tokens (Fan et al. 2018); 0 is off, as is k >= vocabulary.
    top_p        after renormalising, keep the smallest set of most probable tokens whose sum
                 reaches p (Holtzman et al. 2020); 1 is off, 0 keeps the single best token.

    Ties are broken by id. Inverse transform sampling: the token is the first one, by id, at which
    the cumulative sum of the probabilities exceeds a uniform number. Each step uses one number,
    also for a forced token, so forcing a sampled token does not change later ones. Sentence i of a
    batch has its own generator with seed + i; torch's global generator is not used.

    Raises ValueError unless temperature is finite and >= 0, top_k whole and >= 0, top_p in [0, 1],
    seed whole and in [0, 2**32).
    """

    temperature: Number = 1.0
    top_k: int = 0
    top_p: Number = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        _require_number("temperature", self.temperature, 0)
        require_whole("top_k", self.top_k, 0)
        _require_number("top_p", self.top_p, 0, 1)
        require_whole("seed", self.seed, 0)
        if self.seed >= SEEDS:
            raise ValueError(f"seed is {self.seed}: it must be below 2**32 = {SEEDS}")

    def probs(self, log_probs: OfRows) -> OfRows:
        if self.temperature == 0:
            return Greedy().probs(log_probs)
        # Shift the maximum to 0, in float64: no temperature, however small, then gives 0 / 0.
        shifted = log_probs.double() - log_probs.max(-1, keepdim=True).values
        probs = (shifted / float(self.temperature)).softmax(-1)
        top_k = self.top_k if self.top_k < probs.shape[-1] else 0
        if not top_k and self.top_p == 1:
            return probs
        kept, order = probs.sort(dim=-1, descending=True, stable=True)
        if top_k:
            kept[:, top_k:] = 0
            kept = kept / kept.sum(-1, keepdim=True)
        if self.top_p < 1:
            before = torch.nn.functional.pad(kept.cumsum(-1)[:, :-1], (1, 0))
            reached = before >= self.top_p
            reached[:, 0] = False  # keep the best token, also for top_p = 0
            kept = kept.masked_fill(reached, 0)
        return torch.zeros_like(probs).scatter(-1, order, kept / kept.sum(-1, keepdim=True))

    def choose(
        self, log_probs: OfLive, probs: OfLive, totals: Sequence[float], n: int, draw: float
    ) -> list[tuple[int, int]]:
        # right=True: the first sum strictly above the draw, never a token of probability 0.
        running = probs[0].double().cpu().cumsum(-1)
        return [(0, int(torch.searchsorted(running, draw * running[-1], right=True)))]

    def draws(self, n_sentences: int) -> Iterator[Sequence[float]]:
        seeds = [(self.seed + i) % SEEDS for i in range(n_sentences)]
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        while True:
            yield [float(torch.rand((), generator=g, dtype=torch.float64)) for g in generators]


@dataclass(frozen=True)
class Beam(Strategy):
    """Beam search with `width` hypotheses; each finished one narrows the beam by one.

    The algorithm, for each sentence:
    1. At every step each live hypothesis is extended by every token. Extensions are ranked by the
       sum of their log-probabilities, then by the rank of their parent, then by token id.
    2. The best (width - number finished) extensions are kept, or all if there are fewer.
    3. A kept extension that ends in eos is finished: it is stored as an answer and no longer
       extended, and the beam is narrower by one. The others are live.
    4. The search ends when no hypothesis is live (`width` have finished) or at the limit.
    5. The answer is the finished hypothesis with the highest score = logprob /
       length**length_penalty; ties go to the one that finished earlier. Length counts every token
       of the output, including forced ones and eos. If none has finished, it is the best live one.

    This is the search of Sutskever et al. 2014, §3.2, with the narrowing beam of the decoders of
    Bahdanau et al. 2015 and Marian, and a plain power of the length (Wu et al. 2016, §7, use
    ((5 + length) / 6)**penalty). Other decoders refill the beam or replace finished hypotheses, and
    find other answers. With this algorithm, width 1 equals `Greedy` for every penalty, and a beam
    as wide as the number of outputs is an exhaustive search.

    length_penalty 0 compares plain log-probabilities (which favours short outputs), 1 the mean per
    token; more than 1 favours long outputs. The width may exceed the vocabulary size.
    Raises ValueError unless width is a whole number >= 1 and length_penalty finite and >= 0.
    """

    sums: ClassVar[bool] = True
    width: int = 4
    length_penalty: Number = 1.0

    def __post_init__(self) -> None:
        require_whole("width", self.width, 1)
        _require_number("length_penalty", self.length_penalty, 0)

    def probs(self, log_probs: OfRows) -> OfRows:
        return log_probs.exp()

    def choose(
        self, log_probs: OfLive, probs: OfLive, totals: Sequence[float], n: int, draw: float
    ) -> list[tuple[int, int]]:
        # After a forced token of probability 0 the total is -inf: rank by this step alone.
        before = [total if total > -math.inf else 0.0 for total in totals]
        extended = log_probs.double() + log_probs.new_tensor(before, dtype=torch.float64)[:, None]
        # Flattened by row: ties are ordered by hypothesis, then by token.
        return [divmod(at, log_probs.shape[1]) for at, _ in largest(extended.flatten(), n)]

    def room(self, n_finished: int, n_ends: int = 1) -> int:
        return self.width - n_finished

    def score(self, logprob: float, length: int) -> float:
        # length ** -penalty underflows to 0, whereas length ** penalty could overflow.
        return logprob * float(length) ** -self.length_penalty


def by_score(hypothesis: Hypothesis) -> float:
    """Sort key of answers, best first."""
    return -hypothesis.score
