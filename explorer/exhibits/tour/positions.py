"""Chapter 3 of the guided tour: positions."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from explorer.analysis.positions.encoding import gram, model_table, sizes, table, wavelengths
from explorer.analysis.positions.order import Moved, reading_stream, shuffled_order
from explorer.analysis.positions.turning import Turned, rotate_as, score_by_offset, turned
from explorer.exhibits import View, block as b
from explorer.exhibits.positions.order import ROUNDING, compute as shuffle
from explorer.exhibits.saying import quoted_at
from explorer.exhibits.tour import pictures
from explorer.exhibits.tour.later import Later, later, word
from explorer.exhibits.tour.posed import Posed, Words
from explorer.exhibits.tour.rows import MissingError, QueryRow, best_row, require, tokens_of, varied
from explorer.figures.positions import encoding
from explorer.figures.positions.turning import arrows
from explorer.library import LoadedModel
from explorer.numbers import fixed, share
from explorer.runs.trace import Trace
from models.rows import Stream

LENGTH = 48
"""Positions of the table in the figure."""
BASE = 10_000.0


def _shuffled(
    loaded: LoadedModel, trace: Trace, stream: Stream
) -> tuple[list[str], dict[str, Moved]]:
    """The shuffled tokens, and how far their vectors moved in each setting."""
    answer = shuffle(loaded, trace, stream, 1)
    if answer is None:
        raise MissingError("short")
    return answer[0], {str(moved.setting): moved for moved in answer[1]}


def _exhibited(
    step: str, part: str, *blocks: str, **place: Any
) -> tuple[list[Later[b.Block]], dict[str, Any]]:
    """Pictures of a part of Positions at a place, and the place."""
    place |= {"part": part}
    named = [(f"positions.{part}", f"positions.{block}") for block in blocks]
    return [later(pictures.exhibited, step, *pair, **place) for pair in named], place


def bag(loaded: LoadedModel, trace: Trace) -> Posed:
    """The words shuffled, without positions and, if the model has one, without the causal mask."""
    stream = reading_stream(loaded)
    tokens, settings = _shuffled(loaded, trace, stream)
    barest = list(settings.values())[-1]
    require(barest.mean <= ROUNDING, "ordered")
    as_is = [settings["as_is"].mean] if "as_is" in settings else []
    options = [share(option) for option in (barest.mean, *as_is, 1 / len(tokens), 0.5, 1.0)]
    masked = word("tour.and_mask") if barest.setting == "unmasked" else ""
    drawn, place = _exhibited("bag", "order", "strip", "moved", stream=stream, shuffle=1)
    words = {"masked": masked, "moved": options[0]}
    return Posed(options, words, drawn[:1], drawn, place=place)


def leak(loaded: LoadedModel, trace: Trace) -> Posed:
    """The words of a causal stream shuffled, without positions but with the causal mask."""
    require(loaded.config.is_causal, "no_causal")
    tokens, settings = _shuffled(loaded, trace, "tgt")
    distances, n = settings["without"].distances[-1], len(tokens)
    still = distances < ROUNDING
    first = shuffled_order(loaded, *tokens_of(trace, "tgt"), "tgt", 1)[0]
    require(first == 0 and still[0] and still.sum() == 1 and n >= 4, "short")
    options = [later(quoted_at, tokens, at) for at in (0, n - 1, 1, n // 2, 2)]
    drawn, place = _exhibited("leak", "order", "strip", "moved", stream="tgt", shuffle=1)
    words = {"first": options[0], "mean": share(float(distances[1:].mean()))}
    return Posed(options, words, drawn[:1], drawn, place=place)


def length(loaded: LoadedModel, trace: Trace) -> Posed:
    """The norms of the sinusoidal vectors that this model adds to its words."""
    require(loaded.config.positions == "sinusoidal", "no_sines")
    stream = reading_stream(loaded)
    tokens, n_real = tokens_of(trace, stream)
    norms, encoded = sizes(trace, stream), model_table(loaded, LENGTH, stream)
    if norms is None or encoded is None or n_real < 2:
        raise MissingError("no_sines")
    place, width = round(varied(trace, 1, n_real - 1)), encoded.shape[1]
    own, right = (float(norm[place]) for norm in norms)
    options = [fixed(option, 1) for option in (right, width**0.5, width / 2, 1.0)]
    words: Words = {"place": place, "width": width, "pairs": width // 2, "length": options[0]}
    words |= {"token": later(quoted_at, tokens, place), "word": fixed(own, 1)}
    names, key = (word("positions.size_word"), word("positions.size_position")), "positions.table"
    shown = encoding.table, encoded
    before = later(pictures.matrix, "length.table", key, *shown, words="figures.positions")
    data = tokens, norms, names, word("positions.size"), stream
    after = later(pictures.two_bars, "length", *data)
    where = {"part": "sum", "place": place}
    return Posed(options, words, [before], [after], place=where)


def waves(loaded: LoadedModel, trace: Trace) -> Posed:
    """A dimension, of a table as wide as the model, that repeats within the figure."""
    width, config = loaded.config.d_model, loaded.config
    require(width % 2 == 0, "odd")
    base = config.rope_base if config.positions == "sinusoidal" else BASE
    lengths = wavelengths(width, base)
    dim = int(np.abs(lengths - varied(trace, 14, 30)).argmin()) // 2 * 2
    require(dim > 0, "odd")
    wave, shortest = float(lengths[dim]), 2 * np.pi
    others = (shortest, shortest * (dim // 2 + 1), wave / 2, 2 * wave)
    options = [fixed(option, 1) for option in (wave, *others)]
    words: Words = {"dim": dim, "width": width, "base": f"{base:,.0f}", "wavelength": options[0]}
    words |= {"times": fixed(wave / shortest, 2)}
    shown = {"base": int(base), "width": width, "length": LENGTH, "dims": (0, dim)}
    (before, after), place = _exhibited("waves", "table", "table", "waves", **shown)
    return Posed(options, words, [before], [after], place=place)


def distance(loaded: LoadedModel, trace: Trace) -> Posed:
    """Two positions, two others at the same distance, and others at a different one."""
    width = loaded.config.d_model
    require(width % 2 == 0, "odd")
    encoded = table(LENGTH, width)
    dots = gram(encoded)
    first, apart = round(varied(trace, 2, 7)), round(varied(trace, 3, 8))
    last, further = first + apart, first + 13
    dot, same = dots[first, last], (further, further + apart)
    longer, shorter = (further, further + apart + 2), (further, further + apart - 2)
    others = ((2 * first, 2 * last), longer, (first, last + 3), shorter)
    pairs = [same, *(pair for pair in others if abs(dots[pair] - dot) > 0.2)]

    def name(pair: tuple[int, int]) -> Later[str]:
        return word("tour.positions", first=pair[0], second=pair[1])

    options = [name(pair) for pair in pairs]
    words: Words = {"pair": name((first, last)), "same": options[0], "apart": apart}
    words |= {"dot": fixed(float(dot), 2), "again": fixed(float(dots[same]), 2)}
    (before, after), place = _exhibited(
        "distance", "table", "table", "gram", width=width, length=LENGTH
    )
    return Posed(options, words, [before], [after], place=place, names=list(map(str, pairs)))


def rotary(loaded: LoadedModel, trace: Trace) -> Posed:
    """Rotate one query and one key of a self-attention head as rotary positions do, at their
    positions and further on."""
    config = loaded.config
    require(config.d_head % 2 == 0 and config.d_head == config.n_turned, "odd")
    stream = reading_stream(loaded)
    require(tokens_of(trace, stream)[1] >= 4, "short")

    def worth(row: QueryRow) -> float:
        return float(row.weights[1 : row.query].max(initial=0))

    row = best_row(trace, trace.stack(stream).role, "short", worth)
    require(row.query >= 2, "short")
    key, shift = 1 + int(row.weights[1 : row.query].argmax()), round(varied(trace, 5, 20))
    pair, apart = turned(loaded, trace, row.site.name, row.head, row.query, key), row.query - key
    # The same vectors, [pair, 2], with both positions moved on.
    vectors = torch.from_numpy(np.stack([pair.q, pair.k]).reshape(1, 1, 2, -1))
    places = torch.tensor([row.query, key]) + shift
    q, k = rotate_as(vectors, places, pair.angles, "interleaved")[0, 0].numpy().reshape(2, -1, 2)
    further = replace(pair, q_turned=q, k_turned=k, contributions=(q * k).sum(1) / config.divisor)
    offsets, flat = np.array([apart + shift, apart - shift]), (pair.q.ravel(), pair.k.ravel())
    one, other = score_by_offset(*flat, offsets, pair.angles, config.divisor)
    bare, tokens = float(flat[0] @ flat[1]) / config.divisor, trace.query_tokens(row.site.name)
    options = [fixed(option, 2) for option in (further.score, one, other, bare)]
    words: Words = {"query": row.query, "key": key, "apart": apart, "shift": shift}
    words |= {"score": fixed(pair.score, 2), "both": options[0], "one": options[1]}
    tokens_at = {"q_token": row.query, "k_token": key}
    words |= {name: later(quoted_at, tokens, place) for name, place in tokens_at.items()}
    before, after = later(_arrows, pair), later(_arrows, further)
    place, told = {"part": "rotary", "key": key}, "told" if pair.own else "told_other"
    return Posed(options, words, [before], [after], row, place, told)


def _arrows(view: View, pair: Turned) -> b.Chart:
    """A query and a key before and after their rotation."""
    more: dict[str, Any] = {"wavelengths": 2 * np.pi / np.maximum(pair.angles, 1e-12)}
    more |= {"contributions": pair.contributions, "words": "figures.turning"}
    data = pair.q, pair.k, pair.q_turned, pair.k_turned
    return pictures.chart(view, "rotary", "", arrows, *data, **more)
