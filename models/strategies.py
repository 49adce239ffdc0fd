"""Strategies of decoding: which tokens go on, given the model's log-probabilities.

A strategy is a frozen description without state; `models.decoding.decode` asks it at every step.
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

SEEDS = 2**32  # torch's CPU generator reads 32 bits of a seed: a larger one would repeat a smaller
FINITE = sys.float_info.max
Number = float | int  # spelled out: run-time type checks take `float` literally
OfRows = Float[Tensor, "row vocab"]
OfLive = Float[Tensor, "live vocab"]  # the live hypotheses of one sentence


def require_whole(name: str, value: object, least: int) -> None:
    """Raise ValueError, naming the field and its value, unless it is an int >= `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}: it must be a whole number of at least {least}")


def _require_number(name: str, value: object, least: Number, most: Number = FINITE) -> None:
    """Raise ValueError unless `value` is a finite number in [least, most]; NaN is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and least <= value <= most):  # type: ignore[operator]
        span = f"from {least:g} to {most:g}" if most < FINITE else f"of at least {least:g}"
        raise ValueError(f"{name} is {value!r}: it must be a finite number {span}")


def largest(values: Float[Tensor, " n"], n: int) -> list[tuple[int, float]]:
    """(Index, value) of up to `n` largest values above -inf, largest first, equal ones by index.

    (`Tensor.topk` takes any of several equal ones; a beam of width 1 would not be greedy.)
    """
    least = values.topk(min(max(n, 1), values.numel())).values[-1]
    among = ((values >= least) & (values > -math.inf)).nonzero()[:, 0].tolist()
    found = zip(among, values[among].tolist(), strict=True)
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:n]


@dataclass(frozen=True)
class Hypothesis:
    """One output so far: its tokens, without bos and prompt, with forced tokens and eos.

    `logprob` is the sum of the model's own log-probabilities of all of them, whatever a strategy
    cut; `total` the same sum under the rules that were asked for; `score` compares outputs of
    different lengths (`Beam`'s rule; otherwise the total). `rows[i]` is the row that step i
    extended by `tokens[i]`, so that the `steps[i].log_probs[rows[i], tokens[i]]` add up to
    `logprob`.
    """

    tokens: tuple[int, ...]
    logprob: float
    score: float
    rows: tuple[int, ...]
    finished: bool  # the last token is eos
    total: float = 0.0


@runtime_checkable
class Rules(Protocol):
    """Rules under which a strategy chooses (`models.foreign.elsewhere`); false where none is."""

    def applied(
        self, scores: OfRows, rows: Tensor, prompt: int, limit: int, ends: tuple[int, ...]
    ) -> OfRows:
        """Scores under the rules: of rows of ids, of which `prompt` were given and at most `limit`
        are written behind; `ends` end an output."""
        ...


class Strategy(ABC):
    """What `decode` asks of a strategy. The defaults are those of one hypothesis per sentence.

    `sums`: rules act on log-probabilities that are then added up, not on the logits of one choice.
    `may_pad`: padding may be written even by a decoder that begins with it.
    """

    sums: ClassVar[bool] = False
    may_pad: ClassVar[bool] = False

    @abstractmethod
    def probs(self, log_probs: OfRows) -> OfRows:
        """What is left of the model's distribution: sums to 1, exactly 0 where cut."""

    def choose(
        self, log_probs: OfLive, probs: OfLive, totals: Sequence[float], n: int, draw: float
    ) -> list[tuple[int, int]]:
        """Up to `n` extensions (live hypothesis, token) of one sentence, best first.

        `totals` are the log-probabilities of the live hypotheses so far, `draw` is this step's
        uniform number in [0, 1). Unless a strategy knows better: the most probable token.
        """
        return [(0, int(log_probs[0].argmax()))]

    def room(self, n_finished: int, n_ends: int = 1) -> int:
        """How many extensions of a sentence are asked for, with so many finished already; a
        vocabulary has `n_ends` tokens that end an output."""
        return 1 - n_finished

    def settle(
        self, made: Sequence[Hypothesis], ended: Sequence[Hypothesis], left: int
    ) -> tuple[list[Hypothesis], list[Hypothesis]]:
        """Those that go on, and the answers so far, best first; `left` steps remain.

        `made` are this step's extensions of one sentence, best first.
        """
        finished = [*ended, *(each for each in made if each.finished)]
        return [each for each in made if not each.finished], sorted(finished, key=by_score)

    def score(self, logprob: float, length: int) -> float:
        """What hypotheses of different lengths are compared by."""
        return logprob

    def draws(self, n_sentences: int) -> Iterator[Sequence[float]]:
        """One uniform number per sentence and step; zeros where nothing is drawn."""
        return repeat((0.0,) * n_sentences)


@dataclass(frozen=True)
class Greedy(Strategy):
    """Always the most probable token; the smallest id among equals."""

    def probs(self, log_probs: OfRows) -> OfRows:
        best = log_probs.argmax(-1, keepdim=True)
        return torch.zeros_like(log_probs).scatter(-1, best, 1.0)


@dataclass(frozen=True)
class Sample(Strategy):
    """Draw each token at random, after three cuts, applied in this order.

    temperature  probs = softmax(log_probs / temperature); towards 0 only the best token is left,
                 so 0 is `Greedy` exactly; 1 leaves the model's own probabilities.
    top_k        keep the k most probable tokens (Fan et al. 2018); 0 is off, as is k >= vocabulary.
    top_p        of what is left, made to sum to 1 again, keep the fewest most probable tokens whose
                 sum reaches p (Holtzman et al. 2020); 1 is off, 0 keeps the single best token.

    Equal probabilities rank by id. The draw is inverse: the first token, by id, at which the
    running sum of the probabilities exceeds a uniform number. One number is spent per step, on a
    forced token too, so forcing what was drawn changes nothing after it. Sentence i of a batch has
    a generator of its own, with seed + i; torch's global one is neither read nor moved.

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
        # The best token at 0 and float64: no temperature, however small, makes 0 / 0 of it.
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
            reached[:, 0] = False  # the best token stays, for top_p = 0 too
            kept = kept.masked_fill(reached, 0)
        return torch.zeros_like(probs).scatter(-1, order, kept / kept.sum(-1, keepdim=True))

    def choose(
        self, log_probs: OfLive, probs: OfLive, totals: Sequence[float], n: int, draw: float
    ) -> list[tuple[int, int]]:
        # right=True: the first running sum above the draw, which no token of probability 0 is.
        running = probs[0].double().cpu().cumsum(-1)
        return [(0, int(torch.searchsorted(running, draw * running[-1], right=True)))]

    def draws(self, n_sentences: int) -> Iterator[Sequence[float]]:
        generators = [
            torch.Generator().manual_seed((self.seed + i) % SEEDS) for i in range(n_sentences)
        ]
        while True:
            yield [float(torch.rand((), generator=g, dtype=torch.float64)) for g in generators]


@dataclass(frozen=True)
class Beam(Strategy):
    """Follow the `width` best hypotheses at once; finished ones take their place along.

    The rule, for each sentence, with `width` places:
    1. At every step each live hypothesis is extended by every token. Extensions rank by the sum of
       their log-probabilities, then by the rank of what they extend, then by token id.
    2. The best (width - number finished) extensions survive, or all, when there are fewer.
    3. A survivor that ends in eos is finished: it leaves the beam for good, keeps its place, and
       the beam is narrower by one. The others are live. Everything else falls.
    4. The search ends when nothing is live (`width` have finished) or at the limit.
    5. The answer is the finished hypothesis with the highest score = logprob /
       length**length_penalty, the earlier finished among equals; length counts every token of the
       output, forced ones and eos included. Only when none has finished is it the best live one.

    This is the search of Sutskever et al. 2014, §3.2, with the narrowing beam of Bahdanau et al.
    2015's and Marian's decoders and the plain power of the length (Wu et al. 2016, §7, use
    ((5 + length) / 6)**penalty). Other decoders refill the beam, or let finished hypotheses be
    pushed out again, and find other answers. Under this rule width 1 is `Greedy` for every penalty,
    and a beam as wide as there are outputs searches all of them.

    length_penalty 0 compares plain log-probabilities (and so favours short outputs), 1 the mean
    per token, more than 1 favours long ones. A width beyond the vocabulary is fine.
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
        # After a forced token of probability 0 every total is -inf: then the rest alone ranks.
        before = [total if total > -math.inf else 0.0 for total in totals]
        extended = log_probs.double() + log_probs.new_tensor(before, dtype=torch.float64)[:, None]
        # Row by row: equal ones come in the order of their hypothesis, then of their token.
        return [divmod(at, log_probs.shape[1]) for at, _ in largest(extended.flatten(), n)]

    def room(self, n_finished: int, n_ends: int = 1) -> int:
        return self.width - n_finished

    def score(self, logprob: float, length: int) -> float:
        # A power of -penalty runs to 0 where one of +penalty would overflow.
        return logprob * float(length) ** -self.length_penalty


def by_score(hypothesis: Hypothesis) -> float:
    """What answers are sorted by, the best first."""
    return -hypothesis.score
