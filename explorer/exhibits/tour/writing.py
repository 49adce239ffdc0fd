"""Chapter 5 of the guided tour: decoding token by token."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from explorer.engine import cache
from explorer.exhibits import View, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.saying import quoted, quoted_at
from explorer.exhibits.tour import pictures
from explorer.exhibits.tour.attention import times
from explorer.exhibits.tour.pictures import Exhibited
from explorer.exhibits.tour.posed import Posed, Words, grouped
from explorer.exhibits.tour.rows import MissingError, require, varied
from explorer.figures.measured import measured
from explorer.figures.paired import paired
from explorer.numbers import fixed, number, percent
from explorer.problems import InputProblem
from explorer.runs.generation import Generation
from models.strategies import Beam, Greedy, Sample, Strategy

MOST, TO_THE_END, FEW = 12, 32, 8
"""Tokens that a model generates: usually, in the steps about its end, and for a product."""
TEMPERATURE = 0.5
PS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.95)
WIDTH = 4


def _written(
    view: View, most: int, strategy: Strategy | None = None, forced: tuple[int, ...] = ()
) -> Generation:
    """The model's output for this text after the `forced` tokens, by default of greedy decoding.

    Raises MissingError, also for a greedy output of fewer than three tokens.
    """
    require(view.loaded.config.generates, "no_next")
    run = view.loaded.name, view.text, strategy or Greedy(), (), most
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


def _exhibited(exhibit: str, block: str, most: int, step: int) -> Exhibited:
    """A picture of the Decoding page for a greedy output of at most `most` tokens, at a step."""
    place = {"limit": most, "ruled": False, "step": step}
    return Exhibited(f"decoding.{exhibit}", block, place)


def _so_far(view: View, written: Generation, index: int) -> list[b.Canvas]:
    """The source, if any, and the decoder's input before a step."""
    target = pictures.strip(view, "tgt", written.steps[index].input_tokens)
    source = written.src_str_tokens
    return [*([pictures.strip(view, "src", source)] if source else []), target]


def _bars(
    view: View, tokens: Sequence[str], chances: np.ndarray, kept: int | None = None
) -> Callable[..., b.Figure]:
    """Tokens with their probabilities as bars in percent; tokens that are not `kept` have none."""
    labels = [f"{token} {percent(chance)}" for token, chance in zip(tokens, chances, strict=True)]
    shares = np.where(np.arange(len(labels)) < (kept or len(labels)), 100 * chances, np.nan)
    return partial(measured, labels, shares, title=view.t("tour.chance"))


def given(view: View) -> Posed:
    """A step in the middle of a greedy decoding."""
    written = _written(view, MOST)
    last = len(written.steps) - 1
    index = round(varied(view.trace, 1, min(4, last - 1)))
    tokens, chosen = written.steps[index].input_tokens, written.steps[index].chosen_str
    right, before = (*tokens, chosen), _so_far(view, written, index)
    sequences = (right, (*tokens[1:], chosen), (chosen,), tokens, (*right, chosen))
    options = [_sequence(option) for option in sequences]
    words = {"chosen": quoted(view, chosen), "count": len(right)}
    film = _exhibited("film", "decoding.film", MOST, index + 1)
    after = [film] if index < last else before
    return Posed(options, words, before, after, place={"step": index})


def ended(view: View) -> Posed:
    """The last step of a decoding that reached its end."""
    written = _written(view, TO_THE_END)
    require(written.finished, "unfinished")
    tokens, last = _tokens(written), len(written.steps) - 1
    options = [quoted_at(view, tokens, at) for at in (last, last - 1, 0, len(tokens) // 2)]
    words: Words = {"end": options[0], "count": len(tokens)}
    words["chance"] = percent(written.steps[last].chosen_prob)
    before = _so_far(view, written, last)
    after = _exhibited("film", "decoding.film", TO_THE_END, last)
    return Posed(options, words, before, [after], place={"step": last})


def _chance(value: float) -> str:
    return percent(value) if value >= 0.001 else number(value)


def product(view: View) -> Posed:
    """The model's own probability of each token of the greedy output, and of all together."""
    written = _written(view, FEW)
    chances = np.array([step.chosen_prob for step in written.steps])
    whole = np.exp(written.logprob)
    options = (whole, chances.mean(), chances.min(), chances.max())
    words: Words = {"count": len(chances), "whole": whole, "logprob": fixed(written.logprob, 2)}
    tokens, pair = _tokens(written), (100 * chances, 100 * np.cumprod(chances))
    before = _bars(view, tokens, chances)
    names = view.t("tour.chance_each"), view.t("tour.chance_all")
    after = partial(paired, tokens, *pair, names, title="%", stream="tgt")
    return Posed(options, words, [before], [after], place={"step": 0}, spelt=_chance)


def _candidates(written: Generation, index: int) -> tuple[list[str], np.ndarray]:
    """The candidates of a step and their probabilities."""
    shown = written.steps[index].candidates
    chances = np.exp([candidate.logprob for candidate in shown])
    return [candidate.str_token for candidate in shown], chances


def temperature(view: View) -> Posed:
    """The step whose two best candidates are closest to a given ratio."""
    written = _written(view, MOST)
    best = [[candidate.logprob for candidate in step.candidates[:2]] for step in written.steps]
    ratios = [float(np.exp(first - second)) for first, second in best]
    index = int(np.abs(np.log(np.array(ratios) / varied(view.trace, 2.0, 5.0))).argmin())
    require(1.3 < ratios[index] < 60, "flat")
    tokens, usual = (of[:5] for of in _candidates(written, index))
    sample = Sample(temperature=TEMPERATURE)
    again = _written(view, index + 1, sample, written.tokens[:index]).steps[index]
    chance_of = {candidate.token: candidate.prob for candidate in again.candidates}
    cooled = np.array([chance_of[shown.token] for shown in written.steps[index].candidates[:5]])
    before, after = float(usual[0] / usual[1]), float(cooled[0] / cooled[1])
    options = (after, 2 * before, before, before**0.5)
    words: Words = {"before": before, "after": after, "temperature": str(TEMPERATURE)}
    words |= {"first": quoted(view, tokens[0]), "second": quoted(view, tokens[1])}
    first = _bars(view, tokens, usual)
    pair, names = (100 * usual, 100 * cooled), ("T = 1", f"T = {TEMPERATURE}")
    second = partial(paired, tokens, *pair, names, title=view.t("tour.chance"), stream="tgt")
    return Posed(options, words, [first], [second], place={"step": index}, spelt=times)


def nucleus(view: View) -> Posed:
    """The step and p for which top-p keeps two to seven tokens, with the clearest cutoff."""
    written = _written(view, MOST)
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
    words = {"p": f"{p:g}", "kept": kept, "less": less, "sum": total}
    options = (kept, kept - 1, kept + 1, kept + 2)
    before, after = (_bars(view, tokens[:n], chances[:n], most) for most in (None, kept))
    return Posed(options, words, [before], [after], place={"step": index})


def beam(view: View) -> Posed:
    """A beam search that finds a more probable text than greedy decoding."""
    greedy, best = (
        _written(view, TO_THE_END, search)
        for search in (None, Beam(width=WIDTH, length_penalty=0.0))
    )
    less, more = greedy.logprob, best.logprob
    require(greedy.finished and best.finished, "unfinished")
    require(more >= less + 0.05, "beam_same")
    both = {"greedy": greedy, "beam": best}
    strips = [pictures.strip(view, "tgt", _tokens(of)) for of in both.values()]
    labels = [f"{view.t(f'decoding.{name}')}: {of.text}" for name, of in both.items()]
    options = [fixed(option, 2) for option in (more, less, 2 * less - more, 2 * less)]
    words: Words = {name: f"“{escape(of.text)}”" for name, of in both.items()}
    words |= {"less": options[1], "more": options[0], "times": times(float(np.exp(more - less)))}
    chances = 100 * np.exp([less, more])
    chart = partial(measured, labels, chances, title=view.t("tour.chance_all"))
    place = {"part": "branches"}
    return Posed(options, words | {"width": WIDTH}, strips, [*strips, chart], place=place)


def passes(view: View) -> Posed:
    """The steps of a decoding, each computed step by step, and all in one pass."""
    n = len(_written(view, MOST).steps)
    after = _exhibited("one_pass", "onepass.gaps", MOST, n)
    answer = after.answer(view)
    require(answer.largest < 1e-3 < answer.largest_open, "flat")
    strips = [pictures.strip(view, "tgt", row) for row in (answer.queries, answer.tokens)]
    options = (1, n, n * (n + 1) // 2, n * n)
    words = {"count": n, "largest": number(answer.largest), "open": fixed(answer.largest_open, 1)}
    return Posed(options, words, strips, [after], place={"part": "pass"})


def kept(view: View) -> Posed:
    """Read a decoding with a cache, and measure its growth in bytes after each step."""
    written, config = _written(view, MOST), view.loaded.config
    n_steps = len(written.steps)
    after = _exhibited("caching", "caching.view", MOST, n_steps)
    growth, *others = set(np.diff(after.answer(view).contents.n_bytes[1:]).tolist())
    require(not others, "flat")
    layers = len(view.sites_of(view.own_role))
    counts = (growth, growth // 2, growth // layers, growth * n_steps, growth * 2)
    words: Words = {"layers": layers, "heads": config.kv_heads, "d_head": config.d_head}
    words |= {"bytes": grouped(growth), "numbers": grouped(growth // 4)}
    before = _so_far(view, written, n_steps - 1)
    return Posed(counts, words, before, [after], place={"part": "cache"}, spelt=grouped)
