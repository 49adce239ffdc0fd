"""Chapter 5 of the path: generating token by token."""

from dataclasses import dataclass

import numpy as np

from explorer.engine.jobs import walked
from explorer.exhibits.decoding.caching import CacheComparison, cached_and_not
from explorer.exhibits.decoding.one_pass import OnePass, one_pass
from explorer.exhibits.tour.found import Missing, varied
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.generation import Generation, GenerationStep, generate
from explorer.runs.trace import Trace
from models.strategies import Beam, Greedy, Sample, Strategy

MOST, TO_THE_END = 12, 32
"""Tokens that a model generates in the steps of this chapter, and in those about its end."""


def _written(
    loaded: LoadedModel, trace: Trace, strategy: Strategy, most: int, forced: tuple[int, ...] = ()
) -> Generation | Missing:
    """The model's output for this text, after the `forced` tokens."""
    if not trace.config.generates:
        return Missing("no_next")
    try:
        made = generate(loaded, trace.text, strategy, most, (), forced)
    except InputProblem:
        return Missing("long")
    return made


def _greedy(loaded: LoadedModel, trace: Trace, most: int = MOST) -> Generation | Missing:
    """The output of greedy decoding; at least three tokens are needed."""
    made = _written(loaded, trace, Greedy(), most)
    return made if isinstance(made, Missing) or len(made.steps) >= 3 else Missing("short")


@dataclass(frozen=True, eq=False)
class At:
    """A decoding and one of its steps."""

    made: Generation
    index: int

    @property
    def step(self) -> GenerationStep:
        """The step."""
        return self.made.steps[self.index]


def given(loaded: LoadedModel, trace: Trace) -> At | Missing:
    """A step in the middle of a greedy decoding."""
    made = _greedy(loaded, trace)
    if isinstance(made, Missing):
        return made
    return At(made, round(varied(trace, 1, min(4, len(made.steps) - 2))))


def ended(loaded: LoadedModel, trace: Trace) -> At | Missing:
    """The last step of a decoding that reached its end."""
    made = _greedy(loaded, trace, TO_THE_END)
    if isinstance(made, Missing):
        return made
    return At(made, len(made.steps) - 1) if made.finished else Missing("unfinished")


@dataclass(frozen=True, eq=False)
class Product:
    """The model's own probability of each written token, and of all of them together."""

    made: Generation
    each: np.ndarray
    whole: float


def product(loaded: LoadedModel, trace: Trace) -> Product | Missing:
    """The probability of the greedy output, token by token; eight at most."""
    made = _greedy(loaded, trace, 8)
    if isinstance(made, Missing):
        return made
    each = np.array([step.chosen_prob for step in made.steps])
    return Product(made, each, float(np.exp(made.logprob)))


@dataclass(frozen=True, eq=False)
class Cooled:
    """A step's candidates at temperature 1 and at a lower one: the same tokens in one order."""

    made: Generation
    index: int
    temperature: float
    usual: tuple[float, ...]
    cooled: tuple[float, ...]
    tokens: tuple[str, ...]

    @property
    def before(self) -> float:
        """The ratio of the first candidate's probability to the second's."""
        return self.usual[0] / self.usual[1]

    @property
    def after(self) -> float:
        """How many times as probable the first token is at the lower temperature."""
        return self.cooled[0] / self.cooled[1]


TEMPERATURE = 0.5


def _sampled(
    loaded: LoadedModel, trace: Trace, made: Generation, index: int, sample: Sample
) -> GenerationStep | Missing:
    """A step of a decoding as sampling with the same prefix gives it."""
    again = _written(loaded, trace, sample, index + 1, made.tokens[:index])
    return again if isinstance(again, Missing) else again.steps[index]


def temperature(loaded: LoadedModel, trace: Trace) -> Cooled | Missing:
    """The step whose two best candidates are closest to a given ratio."""
    made = _greedy(loaded, trace)
    if isinstance(made, Missing):
        return made
    wanted = varied(trace, 2.0, 5.0)

    def ratio(step: GenerationStep) -> float:
        first, second = step.candidates[:2]
        return float(np.exp(first.logprob - second.logprob))

    index = min(range(len(made.steps)), key=lambda at: abs(np.log(ratio(made.steps[at]) / wanted)))
    if not 1.3 < ratio(made.steps[index]) < 60:
        return Missing("sure")
    colder = _sampled(loaded, trace, made, index, Sample(temperature=TEMPERATURE))
    if isinstance(colder, Missing):
        return colder
    shown = made.steps[index].candidates[:5]
    by = {each.token: each.prob for each in colder.candidates}
    return Cooled(
        made,
        index,
        TEMPERATURE,
        tuple(float(np.exp(each.logprob)) for each in shown),
        tuple(by[each.token] for each in shown),
        tuple(each.str_token for each in shown),
    )


@dataclass(frozen=True, eq=False)
class Nucleus:
    """A step's most probable tokens, and the number that top-p keeps."""

    made: Generation
    index: int
    p: float
    kept: int
    tokens: tuple[str, ...]
    probs: tuple[float, ...]


PS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.95)


def nucleus(loaded: LoadedModel, trace: Trace) -> Nucleus | Missing:
    """The step and p for which top-p keeps two to seven tokens, with the clearest cutoff."""
    made = _greedy(loaded, trace)
    if isinstance(made, Missing):
        return made
    best: tuple[float, int, float] | None = None
    for index, step in enumerate(made.steps):
        sums = np.cumsum([np.exp(each.logprob) for each in step.candidates])
        for p in PS:
            kept = int((sums < p).sum()) + 1
            if 2 <= kept <= 7 and kept < len(sums):
                border = float(np.abs(sums[kept - 2 : kept] - p).min())
                if border > 0.01 and (best is None or border > best[0]):
                    best = border, index, p
    if best is None:
        return Missing("sure")
    _, index, p = best
    cut = _sampled(loaded, trace, made, index, Sample(top_p=p))
    if isinstance(cut, Missing):
        return cut
    kept = sum(each.kept for each in cut.candidates)
    shown = made.steps[index].candidates[: max(8, kept + 1)]
    probs = tuple(float(np.exp(each.logprob)) for each in shown)
    return Nucleus(made, index, p, kept, tuple(each.str_token for each in shown), probs)


@dataclass(frozen=True, eq=False)
class SearchComparison:
    """The outputs of greedy decoding and of beam search."""

    greedy: Generation
    beam: Generation
    width: int


WIDTH = 4


def beam(loaded: LoadedModel, trace: Trace) -> SearchComparison | Missing:
    """A beam search that finds a more probable text than greedy decoding."""
    greedy = _greedy(loaded, trace, TO_THE_END)
    if isinstance(greedy, Missing):
        return greedy
    found = _written(loaded, trace, Beam(width=WIDTH, length_penalty=0.0), TO_THE_END)
    if isinstance(found, Missing):
        return found
    if not greedy.finished or not found.finished or found.logprob < greedy.logprob + 0.05:
        return Missing("beam_same")
    return SearchComparison(greedy, found, WIDTH)


def passes(loaded: LoadedModel, trace: Trace) -> OnePass | Missing:
    """The steps of a decoding, each computed step by step, and all in one pass."""
    made = _greedy(loaded, trace)
    if isinstance(made, Missing):
        return made
    found = walked(one_pass(loaded, made))
    return found if found.largest < 1e-3 < found.largest_open else Missing("flat")


@dataclass(frozen=True, eq=False)
class CacheContents:
    """The contents of a decoding's cache, and its growth in bytes per token."""

    made: Generation
    cached: CacheComparison
    growth: int
    layers: int
    kv_heads: int
    d_head: int


def kept(loaded: LoadedModel, trace: Trace) -> CacheContents | Missing:
    """Read a decoding with a cache, and measure the cache after each step."""
    made = _greedy(loaded, trace)
    if isinstance(made, Missing):
        return made
    found = walked(cached_and_not(loaded, made))
    growths = set(np.diff(np.array(found.n_bytes[1:])).tolist())
    if len(growths) != 1:
        return Missing("flat")
    layers = sum(1 for site in trace.sites if site.kind == "self" and site.query_stream == "tgt")
    config = loaded.config
    return CacheContents(made, found, growths.pop(), layers, config.kv_heads, config.d_head)
