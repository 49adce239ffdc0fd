"""Before training: the sizes of embeddings and positions, and which of them can be decoded."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.positions.sums import Addends, sums
from explorer.exhibits import Exhibit, View, block as b
from explorer.figures.positions import sums as figures
from explorer.numbers import digits, fixed
from explorer.runs.trace import Trace
from models.positions import sinusoidal_table
from models.rows import Stream

Drawn = Literal["gpt2", "width", "xavier", "unit"]
DRAWN: tuple[Drawn, ...] = get_args(Drawn)
SEEDS = (0, 1, 2, 3, 4)
SAME = 0.99
"""Cosine above which two vectors count as nearly the same."""
FEW = 3
"""Minimum number of positions at which the two ends of a text are far apart."""
ALIKE = 0.9
"""Mean cosine above which different words count as nearly the same."""


@dataclass(frozen=True)
class VectorSizes:
    """Root mean squares of the components of token and position vectors, and the consequences.

    `drawn` None: the trained model. `same_word` is the mean cosine of one word's sum at the first
    and at the last position of the text: near 1, order is invisible. `same_place` is the mean
    cosine of different words' sums at one position: near 1, words are invisible. NaN if there is
    only one.
    """

    drawn: Drawn | None
    scaled: bool
    n_places: int
    token: float
    position: float
    same_word: float
    same_place: float

    @property
    def verdict(self) -> Literal["drown", "dominate", "both"] | None:
        """Whether positions drown in the words, dominate them, or both remain readable; None for a
        text of one word, or with too few positions for its ends to be far apart."""
        if self.n_places < FEW or math.isnan(self.same_word + self.same_place):
            return None
        if self.same_place > ALIKE:
            return "dominate"
        return "drown" if self.same_word > SAME else "both"


def std_of(drawn: Drawn, d_model: int, vocab_size: int) -> float:
    """The standard deviation of a fresh embedding table [vocab_size, d_model]."""
    match drawn:
        case "gpt2":
            return 0.02
        case "width":
            return d_model**-0.5
        case "xavier":
            return math.sqrt(2 / (vocab_size + d_model))
        case "unit":
            return 1.0


def sizes(traced: Trace, stream: Stream, found: Addends) -> tuple[VectorSizes, ...]:
    """The trained model, and every initialisation of its embeddings, unscaled and x sqrt(d_model).

    Only the rows of the text's own words are drawn, normally distributed; the position vectors are
    sinusoidal, one for each position of the text. `found` is what the model itself adds.
    """
    ids = traced.src_tokens if stream == "src" else traced.tgt_tokens
    _, first = np.unique(np.array(ids), return_index=True)
    scaled = traced.config.scale_embeddings
    n_places = len(found.token)
    own = similarities(found.token[first], found.position)
    d_model = found.token.shape[1]
    table = sinusoidal_table(n_places, d_model).numpy()
    return (
        VectorSizes(None, scaled, n_places, *own),
        *(
            VectorSizes(drawn, times, n_places, *_of_seeds(drawn, times, len(first), table, traced))
            for drawn in DRAWN
            for times in (False, True)
        ),
    )


def _of_seeds(
    drawn: Drawn, scaled: bool, n_words: int, table: Float[np.ndarray, "pos d"], traced: Trace
) -> tuple[float, ...]:
    d_model = table.shape[1]
    std = std_of(drawn, d_model, traced.config.vocab_size)
    factor = std * (math.sqrt(d_model) if scaled else 1.0)
    each = []
    for seed in SEEDS:
        generator = torch.Generator().manual_seed(seed)
        words = factor * torch.randn(n_words, d_model, generator=generator).numpy()
        each.append(similarities(words, table))
    return tuple(float(value) for value in np.mean(each, axis=0))


def similarities(
    words: Float[np.ndarray, "word d"], places: Float[np.ndarray, "pos d"]
) -> tuple[float, float, float, float]:
    """`token`, `position`, `same_word`, `same_place` of `VectorSizes`, per word and position."""
    ends = _unit(words + places[0]), _unit(words + places[-1])
    same_word = float((ends[0] * ends[1]).sum(-1).mean()) if len(places) > 1 else math.nan
    at_places = _unit(words[None] + places[:, None])  # [pos, word, d]
    n = len(words)
    cosines = at_places @ at_places.transpose(0, 2, 1)
    others = ~np.eye(n, dtype=bool)
    same_place = float(cosines[:, others].mean()) if n > 1 else math.nan
    return _rms(words), _rms(places), same_word, same_place


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x.astype(np.float64) ** 2)))


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


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
