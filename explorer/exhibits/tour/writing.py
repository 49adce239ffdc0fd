"""Chapter 5 of the guided tour: decoding token by token."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from explorer.engine import cache
from explorer.engine.jobs import walked
from explorer.exhibits import View, block as b
from explorer.exhibits.decoding.caching import cached_and_not
from explorer.exhibits.decoding.one_pass import one_pass
from explorer.exhibits.escape import escape
from explorer.exhibits.saying import quoted, quoted_at
from explorer.exhibits.tour import pictures
from explorer.exhibits.tour.attention import times
from explorer.exhibits.tour.later import Later, later, word
from explorer.exhibits.tour.posed import Posed, Words
from explorer.exhibits.tour.rows import MissingError, require, varied
from explorer.figures.bars import row as bars
from explorer.library import LoadedModel
from explorer.numbers import fixed, number, percent
from explorer.problems import InputProblem
from explorer.runs.generation import Candidate, Generation
from explorer.runs.trace import Trace
from models.strategies import Beam, Greedy, Sample, Strategy

MOST, TO_THE_END, FEW = 12, 32, 8
"""Tokens that a model generates: usually, in the steps about its end, and for a product."""
TEMPERATURE = 0.5
PS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.95)
WIDTH = 4
CHANCE = "tour.chance"


def _written(
    trace: Trace, most: int, strategy: Strategy | None = None, forced: tuple[int, ...] = ()
) -> Generation:
    """The model's output for this text after the `forced` tokens, by default of greedy decoding.

    Raises MissingError, also for a greedy output of fewer than three tokens.
    """
    require(trace.config.generates, "no_next")
    run = trace.model, trace.text, strategy or Greedy(), (), most
    try:
        written = cache.generate(*run, forced, ruled=False)
    except InputProblem:
        raise MissingError("long") from None
    require(strategy is not None or len(written.steps) >= 3, "short")
    return written


def _tokens(written: Generation) -> list[str]:
    """The chosen tokens."""
    return [step.chosen_str for step in written.steps]


def _sequence(tokens: Sequence[str]) -> str:
    """Tokens as one option, with their number; long sequences show only the last ones."""
    shown = [escape(token) for token in tokens[-6:]]
    return " · ".join((["…"] if len(tokens) > 6 else []) + shown) + f" ({len(tokens)})"


def _exhibited(name: str, exhibit: str, block: str, most: int, step: int) -> Later[b.Block]:
    """A picture of the Decoding page for a greedy output of at most `most` tokens, at a step."""
    more = {"limit": most, "ruled": False, "step": step}
    return later(pictures.exhibited, name, f"decoding.{exhibit}", block, **more)


def _so_far(written: Generation, index: int, name: str) -> list[Later[b.Block]]:
    """The source, if any, and the decoder's input before a step."""
    rows = {"src": written.src_str_tokens, "tgt": written.steps[index].input_tokens}
    return [later(pictures.strip, f"{name}.{key}", key, row) for key, row in rows.items() if row]


def given(loaded: LoadedModel, trace: Trace) -> Posed:
    """A step in the middle of a greedy decoding."""
    written = _written(trace, MOST)
    last = len(written.steps) - 1
    index = round(varied(trace, 1, min(4, last - 1)))
    tokens, chosen = written.steps[index].input_tokens, written.steps[index].chosen_str
    right, before = (*tokens, chosen), _so_far(written, index, "given")
    sequences = (right, (*tokens[1:], chosen), (chosen,), tokens, (*right, chosen))
    options = [_sequence(option) for option in sequences]
    words = {"chosen": later(quoted, chosen), "count": len(right)}
    film = _exhibited("given", "film", "decoding.film", MOST, index + 1)
    after = [film] if index < last else before
    return Posed(options, words, before, after, place={"step": index})


def ended(loaded: LoadedModel, trace: Trace) -> Posed:
    """The last step of a decoding that reached its end."""
    written = _written(trace, TO_THE_END)
    require(written.finished, "unfinished")
    tokens, last = _tokens(written), len(written.steps) - 1
    options = [later(quoted_at, tokens, at) for at in (last, last - 1, 0, len(tokens) // 2)]
    words: Words = {"end": options[0], "last": options[1], "count": len(tokens)}
    words |= {"chance": percent(written.steps[last].chosen_prob)}
    before = _so_far(written, last, "ended")
    after = _exhibited("ended", "film", "decoding.film", TO_THE_END, last)
    return Posed(options, words, before, [after], place={"step": last})


def _chance(value: float) -> str:
    return percent(value) if value >= 0.001 else number(value)


def _labelled(tokens: Sequence[str], chances: np.ndarray) -> list[str]:
    """Tokens with their probabilities."""
    return [f"{token} {percent(chance)}" for token, chance in zip(tokens, chances, strict=True)]


def product(loaded: LoadedModel, trace: Trace) -> Posed:
    """The model's own probability of each token of the greedy output, and of all together."""
    written = _written(trace, FEW)
    chances = np.array([step.chosen_prob for step in written.steps])
    least, whole = chances.min(), np.exp(written.logprob)
    options = [_chance(float(option)) for option in (whole, chances.mean(), least, chances.max())]
    words: Words = {"count": len(chances), "whole": options[0], "least": options[2]}
    words |= {"logprob": fixed(written.logprob, 2)}
    tokens, pair = _tokens(written), (100 * chances, 100 * np.cumprod(chances))
    names = word("tour.chance_each"), word("tour.chance_all")
    labels = _labelled(tokens, chances)
    before = later(pictures.amounts, "product.each", labels, pair[0], CHANCE, CHANCE)
    after = later(pictures.two_bars, "product", tokens, pair, names, "%", "tgt")
    return Posed(options, words, [before], [after], place={"step": 0})


def _sampled(
    trace: Trace, written: Generation, index: int, sample: Sample
) -> tuple[list[str], np.ndarray, list[Candidate]]:
    """The candidates of a step: their tokens, their probabilities, and the candidates of sampling
    after the same prefix."""
    shown = written.steps[index].candidates
    again = _written(trace, index + 1, sample, written.tokens[:index]).steps[index]
    chances = np.array([float(np.exp(candidate.logprob)) for candidate in shown])
    return [candidate.str_token for candidate in shown], chances, list(again.candidates)


def temperature(loaded: LoadedModel, trace: Trace) -> Posed:
    """The step whose two best candidates are closest to a given ratio."""
    written = _written(trace, MOST)
    best = [[candidate.logprob for candidate in step.candidates[:2]] for step in written.steps]
    ratios = [float(np.exp(first - second)) for first, second in best]
    index = int(np.abs(np.log(np.array(ratios) / varied(trace, 2.0, 5.0))).argmin())
    require(1.3 < ratios[index] < 60, "flat")
    tokens, usual, colder = _sampled(trace, written, index, Sample(temperature=TEMPERATURE))
    chance_of = {candidate.token: candidate.prob for candidate in colder}
    tokens, usual, shown = tokens[:5], usual[:5], written.steps[index].candidates[:5]
    cooled = np.array([chance_of[candidate.token] for candidate in shown])
    before, after = float(usual[0] / usual[1]), float(cooled[0] / cooled[1])
    options = [times(option) for option in (after, 2 * before, before, before**0.5)]
    words: Words = {"before": options[2], "after": options[0], "temperature": TEMPERATURE}
    words |= {"first": later(quoted, tokens[0]), "second": later(quoted, tokens[1])}
    pair, names = (100 * usual, 100 * cooled), ("T = 1", f"T = {TEMPERATURE}")
    first = later(_candidates, tokens, usual)
    second = later(pictures.two_bars, "temperature.both", tokens, pair, names, word(CHANCE), "tgt")
    return Posed(options, words, [first], [second], place={"step": index})


def _candidates(view: View, tokens: Sequence[str], chances: np.ndarray) -> b.Chart:
    """The probabilities of a step's candidates."""
    words, key = view.words("figures.bars") | {"weight": view.t(CHANCE)}, "tour.candidates"
    drawn = partial(bars, tokens, chances, stream="tgt", words=words)
    return pictures.chart(view, "temperature", key, drawn, title=key)


def nucleus(loaded: LoadedModel, trace: Trace) -> Posed:
    """The step and p for which top-p keeps two to seven tokens, with the clearest cutoff."""
    written = _written(trace, MOST)
    cutoffs: list[tuple[float, int, float]] = []
    for index, step in enumerate(written.steps):
        sums = np.cumsum([np.exp(candidate.logprob) for candidate in step.candidates])
        for p in PS:
            kept = int((sums < p).sum()) + 1
            if 2 <= kept <= 7 and kept < len(sums):
                border = float(np.abs(sums[kept - 2 : kept] - p).min())
                cutoffs += [(border, index, p)] if border > 0.01 else []
    require(cutoffs, "flat")
    _, index, p = max(cutoffs, key=lambda cutoff: cutoff[0])
    tokens, chances, cut = _sampled(trace, written, index, Sample(top_p=p))
    kept = sum(candidate.kept for candidate in cut)
    labels = _labelled(tokens, chances)[: max(8, kept + 1)]
    shares = 100 * chances[: len(labels)]
    visible = np.where(np.arange(len(labels)) < kept, shares, np.nan)
    before, after = (
        later(pictures.amounts, "nucleus", labels, values, CHANCE, CHANCE)
        for values in (shares, visible)
    )
    less, total = (percent(float(np.sum(chances[:n]))) for n in (kept - 1, kept))
    words = {"p": f"{p:g}", "share": percent(p), "kept": kept, "less": less, "sum": total}
    options = [str(option) for option in (kept, kept - 1, kept + 1, kept + 2)]
    return Posed(options, words, [before], [after], place={"step": index})


def beam(loaded: LoadedModel, trace: Trace) -> Posed:
    """A beam search that finds a more probable text than greedy decoding."""
    greedy, best = (
        _written(trace, TO_THE_END, search)
        for search in (None, Beam(width=WIDTH, length_penalty=0.0))
    )
    less, more = greedy.logprob, best.logprob
    require(greedy.finished and best.finished and more >= less + 0.05, "beam_same")
    both = (("greedy", greedy), ("beam", best))
    strips = [later(pictures.strip, f"beam.{name}", "tgt", _tokens(of)) for name, of in both]
    labels = [later(_searched, name, of.text) for name, of in both]
    chances, key = 100 * np.exp([less, more]), "tour.chance_all"
    options = [fixed(option, 2) for option in (more, less, 2 * less - more, 2 * less)]
    words: Words = {name: f"“{escape(of.text)}”" for name, of in both}
    words |= {"less": options[1], "more": options[0], "times": times(float(np.exp(more - less)))}
    chart, place = later(pictures.amounts, "beam", labels, chances, key, key), {"part": "branches"}
    return Posed(options, words | {"width": WIDTH}, strips, [*strips, chart], place=place)


def _searched(view: View, name: str, text: str) -> str:
    return f"{view.t(f'decoding.{name}')}: {text}"


def passes(loaded: LoadedModel, trace: Trace) -> Posed:
    """The steps of a decoding, each computed step by step, and all in one pass."""
    answer = walked(one_pass(loaded, _written(trace, MOST)))
    require(answer.largest < 1e-3 < answer.largest_open, "flat")
    n = len(answer.tokens)
    rows = {"queries": answer.queries, "tokens": answer.tokens}
    strips = [later(pictures.strip, f"passes.{name}", "tgt", row) for name, row in rows.items()]
    after = _exhibited("passes", "one_pass", "onepass.gaps", MOST, n)
    options = [str(option) for option in (1, n, n * (n + 1) // 2, n * n)]
    words = {"count": n, "largest": number(answer.largest), "open": fixed(answer.largest_open, 1)}
    return Posed(options, words, strips, [after], place={"part": "pass"})


def kept(loaded: LoadedModel, trace: Trace) -> Posed:
    """Read a decoding with a cache, and measure its growth in bytes after each step."""
    written, config = _written(trace, MOST), loaded.config
    contents = walked(cached_and_not(loaded, written))
    growths = set(np.diff(np.array(contents.n_bytes[1:])).tolist())
    require(len(growths) == 1, "flat")
    growth, n_steps = growths.pop(), len(written.steps)
    layers = sum(site.kind == "self" and site.query_stream == "tgt" for site in trace.sites)
    counts = (growth, growth // 2, growth // layers, growth * n_steps, growth * 2)
    options = [f"{option:,}" for option in counts]
    words: Words = {"layers": layers, "heads": config.kv_heads, "d_head": config.d_head}
    words |= {"bytes": options[0], "numbers": f"{growth // 4:,}"}
    before = _so_far(written, n_steps - 1, "kept")
    after = _exhibited("kept", "caching", "caching.view", MOST, n_steps)
    return Posed(options, words, before, [after], place={"part": "cache"})
