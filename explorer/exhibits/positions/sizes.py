"""Before training: the sizes of embeddings and positions, and which of them can be decoded."""

import math
from functools import partial

import numpy as np

from explorer.analysis.positions.sizes import SEEDS, VectorSizes, sizes
from explorer.analysis.positions.sums import sums
from explorer.exhibits import Exhibit, View, block as b
from explorer.figures.positions import sums as figures
from explorer.numbers import digits, fixed
from explorer.runs.trace import Trace
from models.positions import sinusoidal_table
from models.rows import Stream


def compute(trace: Trace, stream: Stream) -> tuple[VectorSizes, ...]:
    """The open model and fresh ones; () for a model that adds no positions."""
    summed = sums(trace, stream)
    return () if summed is None else sizes(trace, stream, summed)


def show(found: tuple[VectorSizes, ...], view: View) -> b.Blocks:
    """Sizes, the readability of order and words, and the conclusion."""
    if not found:
        return
    config = view.loaded.config
    yield b.Title(view.t("sizes.title"))
    vocab = f"{config.vocab_size:,}"
    yield b.Prose(view.t("sizes.lead", d=config.d_model, vocab=vocab, seeds=len(SEEDS)))
    names = [_name(view, each) for each in found]
    tokens = np.array([each.token for each in found])
    positions = np.array([each.position for each in found])
    kinds = (view.t("sums.word"), view.t("sums.position"))
    draw = partial(figures.sizes, names, tokens, positions, kinds, title=view.t("sizes.rms"))
    chart = b.Chart("sizes", draw, view.t("sizes.title"))
    way, same_word, same_place = (
        view.t(key) for key in ("sizes.way", "sizes.same_word", "sizes.same_place")
    )
    words, places = ([_cosine(getattr(each, which)) for each in found] for which in _ALIKE)
    bold = [
        f"**{name}**" if each.drawn is None else name
        for name, each in zip(names, found, strict=True)
    ]
    verdicts = [view.t(f"sizes.verdicts.{each.verdict}") if each.verdict else "–" for each in found]
    heads = (way, same_word, same_place, view.t("sizes.follows"))
    table = b.Table(heads, list(zip(bold, words, places, verdicts, strict=True)), "lrrl")
    yield b.Columns(((chart,), (table,)))
    own, *fresh = found
    if own.verdict:
        made = [each.verdict for each in fresh]
        counts = {verdict: made.count(verdict) for verdict in ("drown", "dominate", "both")}
        yield b.Sentence("sizes", view.t("sizes.reading", n=len(fresh), **counts))
    else:
        yield b.Note(view.t("sizes.verdict_few"))
    yield b.Formula.of(
        view.t("sizes.formula"),
        r"\sqrt{\tfrac{1}{d}\textstyle\sum_i P[p]_i^2} = \tfrac{1}{\sqrt{2}}, \qquad "
        r"\sqrt{\tfrac{1}{d}\textstyle\sum_i (s\,E[w]_i)^2} \approx s\,\sigma, \qquad "
        r"s = 1 \;\text{or}\; \sqrt{d}",
        r"\sigma = 0.02, \qquad \sigma = \tfrac{1}{\sqrt{d}}, \qquad "
        r"\sigma = \sqrt{\tfrac{2}{V + d}}, \qquad \sigma = 1",
    )
    yield b.Code((sizes, sinusoidal_table))
    token, position = view.t("sizes.token"), view.t("sizes.position")
    sizes_of = {token: tokens, position: positions}
    columns = {name: [digits(float(x)) for x in each] for name, each in sizes_of.items()}
    yield b.Numbers(lambda: {way: names, **columns, same_word: words, same_place: places})


_ALIKE = ("same_word", "same_place")


def _name(view: View, each: VectorSizes) -> str:
    if each.drawn is None:
        return view.t("sizes.own")
    times = " × √d" if each.scaled else ""
    return view.t(f"sizes.drawn.{each.drawn}") + times


def _cosine(value: float) -> str:
    return "–" if math.isnan(value) else fixed(value, 3)


EXHIBIT = Exhibit(compute, show)
