"""Chapter 5 of the guided tour: decoding token by token."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from explorer.exhibits import View, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.decoding.choices import GREEDY, Strategy
from explorer.exhibits.saying import quoted, quoted_at
from explorer.exhibits.tour import pictures
from explorer.exhibits.tour.attention import times
from explorer.exhibits.tour.pictures import Exhibited
from explorer.exhibits.tour.posed import Posed, Words, grouped
from explorer.exhibits.tour.rows import MissingError, require, varied
from explorer.figures.bars import measured
from explorer.numbers import fixed, number, percent
from explorer.problems import InputProblem
from explorer.runs.generation import Generation
from models.strategies import Beam, Sample

MOST, TO_THE_END, FEW = 12, 32, 8
"""Tokens that a model generates: usually, in the steps about its end, and for a product."""
TEMPERATURE = 0.5
PS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.95)
WIDTH = 4


def _film(
    most: int, step: int = 0, strategy: Strategy = GREEDY, fork: tuple[int, ...] = ()
) -> Exhibited:
    """The film of an output of at most `most` tokens that begins with `fork`, at a step."""
    place = {"limit": most, "step": step, "strategy": strategy, "fork": fork}
    return Exhibited("decoding.film", "decoding.film", {**place, "ruled": False})


def _written(view: View, film: Exhibited) -> Generation:
    """The output of a film. Raises MissingError."""
    require(view.loaded.config.generates, "no_next")
    try:
        written: Generation = film.answer(view)
    except InputProblem:
        raise MissingError("long") from None
    return written


def _greedy(view: View, most: int) -> Generation:
    """The output of greedy decoding. Raises MissingError, also for fewer than three tokens."""
    written = _written(view, _film(most))
    require(len(written.steps) >= 3, "short")
    return written


def _tokens(written: Generation) -> list[str]:
    """The chosen tokens."""
    return [step.chosen_str for step in written.steps]


def _sequence(tokens: Sequence[str]) -> str:
    """Tokens as one option, with their number; long sequences show only the last ones."""
    shown = [escape(token) for token in tokens[-6:]]
    return " · ".join((["…"] if len(tokens) > 6 else []) + shown) + f" ({len(tokens)})"


def _so_far(view: View, written: Generation, index: int) -> list[b.Canvas]:
    """The source, if any, and the decoder's input before a step."""
    target = pictures.strip(view, "tgt", written.steps[index].input_tokens)
    source = written.src_str_tokens
    return [*([pictures.strip(view, "src", source)] if source else []), target]


def _bars(
    view: View, tokens: Sequence[str], chances: np.ndarray, title: str = "tour.chance"
) -> Callable[..., b.Figure]:
    """Tokens with their probabilities as bars in percent."""
    labels = [f"{token} {percent(chance)}" for token, chance in zip(tokens, chances, strict=True)]
    return partial(measured, labels, 100 * chances, title=view.t(title))


def given(view: View) -> Posed:
    """A step in the middle of a greedy decoding."""
    written = _greedy(view, MOST)
    last = len(written.steps) - 1
    index = round(varied(view.trace, 1, min(4, last - 1)))
    tokens, chosen = written.steps[index].input_tokens, written.steps[index].chosen_str
    right, before = (*tokens, chosen), _so_far(view, written, index)
    sequences = (right, (*tokens[1:], chosen), (chosen,), tokens, (*right, chosen))
    options = [_sequence(option) for option in sequences]
    words = {"chosen": quoted(view, chosen)}
    after = [_film(MOST, index + 1)] if index < last else before
    return Posed(options, words, before, after, place={"step": index})


def ended(view: View) -> Posed:
    """The last step of a decoding that reached its end."""
    written = _greedy(view, TO_THE_END)
    require(written.finished, "unfinished")
    tokens, last = _tokens(written), len(written.steps) - 1
    options = [quoted_at(view, tokens, at) for at in (last, last - 1, 0, len(tokens) // 2)]
    words = {"count": len(tokens), "chance": percent(written.steps[last].chosen_prob)}
    before, after = _so_far(view, written, last), [_film(TO_THE_END, last)]
    return Posed(options, words, before, after, place={"step": last})


def _chance(value: float) -> str:
    return percent(value) if value >= 0.001 else number(value)


def product(view: View) -> Posed:
    """The model's own probability of each token of the greedy output, and of all together."""
    written = _greedy(view, FEW)
    chances = np.array([step.chosen_prob for step in written.steps])
    whole = np.exp(written.logprob)
    options = (whole, chances.mean(), chances.min(), chances.max())
    words = {"count": len(chances), "logprob": fixed(written.logprob, 2)}
    tokens = _tokens(written)
    before = _bars(view, tokens, chances)
    after = _bars(view, tokens, np.cumprod(chances), "tour.chance_all")
    return Posed(options, words, [before], [after], place={"step": 0}, spelt=_chance)


def _candidates(written: Generation, index: int) -> tuple[list[str], np.ndarray]:
    """The candidates of a step and their probabilities."""
    shown = written.steps[index].candidates
    chances = np.exp([candidate.logprob for candidate in shown])
    return [candidate.str_token for candidate in shown], chances


def _sampled(written: Generation, index: int, sample: Sample) -> Exhibited:
    """The film of sampling one more token after the first `index` of an output."""
    return _film(index + 1, index, sample, written.tokens[:index])


def temperature(view: View) -> Posed:
    """The step whose two best candidates are closest to a given ratio."""
    written = _greedy(view, MOST)
    best = [_candidates(written, index)[1][:2] for index in range(len(written.steps))]
    ratios = [float(first / second) for first, second in best]
    index = int(np.abs(np.log(np.array(ratios) / varied(view.trace, 2.0, 5.0))).argmin())
    before, (tokens, chances) = ratios[index], _candidates(written, index)
    require(1.3 < before < 60, "flat")
    film = _sampled(written, index, Sample(temperature=TEMPERATURE))
    first, second, *_ = _written(view, film).steps[index].candidates
    after = first.prob / second.prob
    options = (after, 2 * before, before, before**0.5)
    words: Words = {"before": before, "temperature": str(TEMPERATURE)}
    words |= {"first": quoted(view, tokens[0]), "second": quoted(view, tokens[1])}
    bars = _bars(view, tokens[:5], chances[:5])
    return Posed(options, words, [bars], [film], place={"step": index}, spelt=times)


def nucleus(view: View) -> Posed:
    """The step and p for which top-p keeps two to seven tokens, with the clearest cutoff."""
    written = _greedy(view, MOST)
    cutoffs: list[tuple[float, int, float, int]] = []
    for index in range(len(written.steps)):
        sums = np.cumsum(_candidates(written, index)[1])
        for p in PS:
            kept = int((sums < p).sum()) + 1
            if 2 <= kept <= 7 and kept < len(sums):
                border = float(np.abs(sums[kept - 2 : kept] - p).min())
                cutoffs += [(border, index, p, kept)] if border > 0.01 else []
    require(cutoffs, "flat")
    _, index, p, kept = max(cutoffs, key=lambda cutoff: cutoff[0])
    tokens, chances = _candidates(written, index)
    n = max(8, kept + 1)
    less, total = (percent(float(np.sum(chances[:n]))) for n in (kept - 1, kept))
    words = {"p": f"{p:g}", "less": less, "sum": total}
    options = (kept, kept - 1, kept + 1, kept + 2)
    bars, film = _bars(view, tokens[:n], chances[:n]), _sampled(written, index, Sample(top_p=p))
    return Posed(options, words, [bars], [film], place={"step": index})


def beam(view: View) -> Posed:
    """A beam search that finds a more probable text than greedy decoding."""
    search = Beam(width=WIDTH, length_penalty=0.0)
    greedy, best = _greedy(view, TO_THE_END), _written(view, _film(TO_THE_END, strategy=search))
    less, more = greedy.logprob, best.logprob
    require(greedy.finished and best.finished, "unfinished")
    require(more >= less + 0.05, "beam_same")
    both = {"greedy": greedy, "beam": best}
    strips = [pictures.strip(view, "tgt", _tokens(of)) for of in both.values()]
    labels = [f"{view.t('decoding.strategies', name)}: {of.text}" for name, of in both.items()]
    options = [fixed(option, 2) for option in (more, less, 2 * less - more, 2 * less)]
    words: Words = {name: f"“{escape(of.text)}”" for name, of in both.items()}
    words |= {"less": options[1], "times": times(float(np.exp(more - less)))}
    chances = 100 * np.exp([less, more])
    chart = partial(measured, labels, chances, title=view.t("tour.chance_all"))
    place = {"part": "branches"}
    return Posed(options, words | {"width": WIDTH}, strips, [*strips, chart], place=place)


def passes(view: View) -> Posed:
    """The steps of a decoding, each computed step by step, and all in one pass."""
    n = len(_greedy(view, MOST).steps)
    after = Exhibited("decoding.one_pass", "decoding.pass.gaps", _film(MOST, n).place)
    answer = after.answer(view)
    require(answer.largest < 1e-3 < answer.largest_open, "flat")
    strips = [pictures.strip(view, "tgt", row) for row in (answer.queries, answer.tokens)]
    options = (1, n, n * (n + 1) // 2, n * n)
    words = {"count": n, "largest": number(answer.largest), "open": fixed(answer.largest_open, 1)}
    return Posed(options, words, strips, [after], place={"part": "pass"})


def kept(view: View) -> Posed:
    """Read a decoding with a cache, and measure its growth in bytes after each step."""
    written, config = _greedy(view, MOST), view.loaded.config
    n_steps = len(written.steps)
    after = Exhibited("decoding.caching", "decoding.cache.view", _film(MOST, n_steps).place)
    growth, *others = set(np.diff(after.answer(view).contents.n_bytes[1:]).tolist())
    require(not others, "flat")
    layers = len(view.sites_of(view.own_role))
    numbers = 2 * layers * config.kv_heads * config.d_head
    counts = (growth, growth // 2, growth // layers, growth * n_steps, growth * 2)
    words: Words = {"layers": layers, "heads": config.kv_heads, "d_head": config.d_head}
    words |= {"numbers": grouped(numbers), "bytes": growth // numbers}
    before = _so_far(view, written, n_steps - 1)
    return Posed(counts, words, before, [after], place={"part": "cache"}, spelt=grouped)
