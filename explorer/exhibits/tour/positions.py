"""Chapter 3 of the guided tour: positions."""

from typing import Any

import numpy as np

from explorer.analysis.positions.encoding import gram, table, wavelengths
from explorer.analysis.positions.order import Moved, reading_stream, shuffled_order
from explorer.analysis.positions.turning import score_by_offset, turned
from explorer.exhibits import View
from explorer.exhibits.positions.order import ROUNDING
from explorer.exhibits.saying import quoted_at
from explorer.exhibits.tour.pictures import Drawing, Exhibited, strip
from explorer.exhibits.tour.posed import Posed, Words
from explorer.exhibits.tour.rows import MissingError, QueryRow, best_row, require, tokens_of, varied
from explorer.numbers import fixed, share
from models.rows import Stream

LENGTH = 48
"""Positions of the table in the figure."""
BASE = 10_000.0


def _exhibited(part: str, *blocks: str, **place: Any) -> tuple[list[Exhibited], dict[str, Any]]:
    """Pictures of a part of Positions at a place, and the place."""
    place |= {"part": part}
    return [Exhibited(f"positions.{part}", f"positions.{block}", place) for block in blocks], place


def _shuffled(
    view: View, stream: Stream
) -> tuple[list[str], dict[str, Moved], list[Drawing], dict[str, Any]]:
    """The shuffled tokens, how far their vectors moved by setting, both pictures, and the place."""
    (chart,), place = _exhibited("order", "moved", stream=stream, shuffle=1)
    if (answer := chart.answer(view)) is None:
        raise MissingError("flat")
    drawn: list[Drawing] = [strip(view, stream, answer[0]), chart]
    return answer[0], {moved.setting: moved for moved in answer[1]}, drawn, place


def bag(view: View) -> Posed:
    """The words shuffled, without positions and, if the model has one, without the causal mask."""
    stream = reading_stream(view.loaded)
    tokens, settings, drawn, place = _shuffled(view, stream)
    barest = list(settings.values())[-1]
    require(barest.mean <= ROUNDING, "ordered")
    as_is = settings["as_is"].mean if "as_is" in settings else None
    shares = (barest.mean, as_is, 1 / len(tokens), 0.5, 1.0)
    masked = view.t("tour.and_mask") if barest.setting == "unmasked" else ""
    return Posed(shares, {"masked": masked}, drawn[:1], drawn, place=place, spelt=share)


def leak(view: View) -> Posed:
    """The words of a causal stream shuffled, without positions but with the causal mask."""
    require(view.loaded.config.is_causal, "no_causal")
    tokens, settings, drawn, place = _shuffled(view, "tgt")
    distances, n = settings["without"].distances[-1], len(tokens)
    still = distances < ROUNDING
    first = shuffled_order(view.loaded, *tokens_of(view.trace, "tgt"), "tgt", 1)[0]
    require(n >= 4, "short")
    require(first == 0 and still[0] and still.sum() == 1, "flat")
    options = [quoted_at(view, tokens, at) for at in (0, n - 1, 1, n // 2, 2)]
    words = {"mean": share(float(distances[1:].mean()))}
    return Posed(options, words, drawn[:1], drawn, place=place)


def waves(view: View) -> Posed:
    """A dimension, of a table as wide as the model, that repeats within the figure."""
    config, width = view.loaded.config, view.loaded.config.d_model
    require(width % 2 == 0, "odd")
    base = config.rope_base if config.positions == "sinusoidal" else BASE
    lengths = wavelengths(width, base)
    dim = int(np.abs(lengths - varied(view.trace, 14, 30)).argmin()) // 2 * 2
    require(dim > 0, "odd")
    wave, shortest = float(lengths[dim]), 2 * np.pi
    others = (shortest, shortest * (dim // 2 + 1), wave / 2, 2 * wave)
    options = [fixed(option, 1) for option in (wave, *others)]
    words: Words = {"dim": dim, "width": width, "base": f"{base:,.0f}"}
    words["times"] = fixed(wave / shortest, 2)
    shown = {"base": int(base), "width": width, "length": LENGTH, "dims": (0, dim)}
    (before, after), place = _exhibited("table", "table", "waves", **shown)
    return Posed(options, words, [before], [after], place=place)


def distance(view: View) -> Posed:
    """Two positions, two others at the same distance, and others at a different one."""
    width, trace = view.loaded.config.d_model, view.trace
    require(width % 2 == 0, "odd")
    dots = gram(table(LENGTH, width))
    first, apart = round(varied(trace, 2, 7)), round(varied(trace, 3, 8))
    last, further = first + apart, first + 13
    dot, same = dots[first, last], (further, further + apart)
    longer, shorter = (further, further + apart + 2), (further, further + apart - 2)
    others = ((2 * first, 2 * last), longer, (first, last + 3), shorter)
    pairs = [same, *(pair for pair in others if abs(dots[pair] - dot) > 0.2)]
    asked, *options = (
        view.t("tour.positions", first=one, second=two) for one, two in ((first, last), *pairs)
    )
    words = {"pair": asked, "apart": apart, "dot": fixed(float(dot), 2)}
    (before, after), place = _exhibited("table", "table", "gram", width=width, length=LENGTH)
    return Posed(options, words, [before], [after], place=place, names=list(map(str, pairs)))


def rotary(view: View) -> Posed:
    """Rotate one query and one key of a self-attention head as rotary positions do, at their
    positions and further on."""
    config, trace, stream = view.loaded.config, view.trace, reading_stream(view.loaded)
    require(config.d_head % 2 == 0 and config.d_head == config.n_turned, "odd")
    require(config.rope_scaling is None, "rescaled")
    require(tokens_of(trace, stream)[1] >= 4, "short")

    def worth(row: QueryRow) -> float:
        return float(row.weights[1 : row.query].max(initial=0))

    row = best_row(view, "flat", worth, trace.stack(stream).role)
    require(worth(row) > 0, "flat")
    key, shift = 1 + int(row.weights[1 : row.query].argmax()), round(varied(trace, 5, 20))
    pair = turned(view.loaded, trace, row.site.name, row.head, row.query, key)
    apart, flat = row.query - key, (pair.q.ravel(), pair.k.ravel())
    offsets = np.array([apart, apart + shift, apart - shift])
    scores = score_by_offset(*flat, offsets, pair.angles, config.divisor)
    bare, tokens = float(flat[0] @ flat[1]) / config.divisor, trace.query_tokens(row.site.name)
    options = [fixed(float(option), 2) for option in (*scores, bare)]
    words: Words = {"query": row.query, "key": key, "shift": shift}
    words |= {"score": fixed(pair.score, 2), "one": options[1]}
    places = {"q_token": row.query, "k_token": key}
    words |= {name: quoted_at(view, tokens, at) for name, at in places.items()}
    drawn, place = _exhibited("rotary", "arrows", "score_by_offset", **row.place, key=key)
    return Posed(options, words, drawn[:1], drawn[1:], row, place)
