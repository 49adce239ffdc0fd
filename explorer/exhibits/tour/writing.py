"""Chapter 5 of the guided tour: decoding word by word."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from explorer.components.cache_view import pack_cache_view
from explorer.components.film import pack_film
from explorer.exhibits import View, block as b
from explorer.exhibits.decoding.film import arguments
from explorer.exhibits.decoding.one_pass import OnePass
from explorer.exhibits.escape import escape
from explorer.exhibits.saying import quoted, quoted_at
from explorer.exhibits.tour import pictures
from explorer.exhibits.tour.asked import PosedStep, question, step
from explorer.exhibits.tour.found import writing as finding
from explorer.figures.bars import row as bars
from explorer.figures.curves import lines
from explorer.figures.measured import measured
from explorer.numbers import fixed, number, percent
from explorer.runs.generation import Generation

FLOOR = 1e-8
"""Where a difference of exactly 0 is drawn on a log axis."""


def _row(tokens: Sequence[str]) -> str:
    """Tokens as one option, with their number; long sequences show only the last ones."""
    shown = [escape(token) for token in tokens[-6:]]
    return " · ".join((["…"] if len(tokens) > 6 else []) + shown) + f" ({len(tokens)})"


def _film(view: View, made: Generation, index: int) -> b.Block:
    """The film of the Decoding page, at one step."""
    shown = replace(view, state=replace(view.state, step=index))
    return b.Canvas(
        "tour.film", "film", lambda file: pack_film(**arguments(shown, made), file=file)
    )


def _so_far(view: View, made: Generation, end: int, name: str) -> b.Blocks:
    """The source, if any, and the decoder's input before a step."""
    if made.src_str_tokens:
        yield pictures.strip(view, made.src_str_tokens, "src", f"{name}.src", None)
    yield pictures.strip(view, made.steps[end].input_tokens, "tgt", f"{name}.tgt", None)


def _given(view: View, found: finding.At) -> PosedStep:
    tokens, chosen = found.step.input_tokens, found.step.chosen_str
    wrong = [(*tokens[1:], chosen), (chosen,), tokens, (*tokens, chosen, chosen)]
    asks = question("given", _row((*tokens, chosen)), [_row(each) for each in wrong])

    def picture(answered: bool) -> b.Blocks:
        if answered and found.index + 1 < len(found.made.steps):
            yield _film(view, found.made, found.index + 1)
        else:
            yield from _so_far(view, found.made, found.index, "given")

    values = {"chosen": quoted(view, chosen), "count": len(tokens) + 1}
    return PosedStep(asks, values, picture, {"step": found.index})


def _ended(view: View, found: finding.At) -> PosedStep:
    chosen = [each.chosen_str for each in found.made.steps]
    names = [quoted_at(view, chosen, at) for at in range(len(chosen))]
    asks = question("ended", names[-1], [names[-2], names[0], names[len(names) // 2]])

    def picture(answered: bool) -> b.Blocks:
        if answered:
            yield _film(view, found.made, found.index)
        else:
            yield from _so_far(view, found.made, found.index, "ended")

    values = {
        "end": names[-1],
        "last": names[-2],
        "count": len(chosen),
        "chance": percent(found.step.chosen_prob),
    }
    return PosedStep(asks, values, picture, {"step": found.index})


def _chance(value: float) -> str:
    return percent(value) if value >= 0.001 else number(value)


def _product(view: View, found: finding.Product) -> PosedStep:
    each = found.each
    wrong = [_chance(float(value)) for value in (each.mean(), each.min(), each.max())]
    asks = question("product", _chance(found.whole), wrong)
    tokens = [one.chosen_str for one in found.made.steps]

    def picture(answered: bool) -> b.Blocks:
        names = [f"{token} {percent(value)}" for token, value in zip(tokens, each, strict=True)]
        if not answered:
            yield pictures.chart(
                "product.each",
                view.t("tour.chance"),
                measured,
                names,
                100 * each,
                title=view.t("tour.chance"),
            )
            return
        yield pictures.two_bars(
            tokens,
            100 * each,
            100 * np.cumprod(each),
            (view.t("tour.chance_each"), view.t("tour.chance_all")),
            "product",
            title="%",
            stream="tgt",
        )

    values = {
        "count": len(each),
        "whole": _chance(found.whole),
        "least": _chance(float(each.min())),
        "logprob": fixed(found.made.logprob, 2),
    }
    return PosedStep(asks, values, picture, {"step": 0})


def _times(value: float) -> str:
    return f"{value:.1f} ×"


def _temperature(view: View, found: finding.Cooled) -> PosedStep:
    before = found.before
    wrong = [_times(each) for each in (2 * before, before, before**0.5)]
    asks = question("temperature", _times(found.after), wrong)

    def picture(answered: bool) -> b.Blocks:
        if not answered:
            yield pictures.chart(
                "temperature",
                view.t("tour.candidates"),
                bars,
                list(found.tokens),
                np.array(found.usual),
                stream="tgt",
                title=view.t("tour.candidates"),
                words=view.words("figures.bars") | {"weight": view.t("tour.chance")},
            )
            return
        yield pictures.two_bars(
            list(found.tokens),
            100 * np.array(found.usual),
            100 * np.array(found.cooled),
            ("T = 1", f"T = {found.temperature}"),
            "temperature.both",
            title=view.t("tour.chance"),
            stream="tgt",
        )

    values = {
        "first": quoted(view, found.tokens[0]),
        "second": quoted(view, found.tokens[1]),
        "before": _times(before),
        "after": _times(found.after),
        "temperature": found.temperature,
    }
    return PosedStep(asks, values, picture, {"step": found.index})


def _nucleus(view: View, found: finding.Nucleus) -> PosedStep:
    kept = found.kept
    asks = question("nucleus", str(kept), [str(each) for each in (kept - 1, kept + 1, kept + 2)])

    def picture(answered: bool) -> b.Blocks:
        pairs = zip(found.tokens, found.probs, strict=True)
        names = [f"{token} {percent(value)}" for token, value in pairs]
        values = 100 * np.array(found.probs)
        if answered:
            values[kept:] = np.nan
        yield pictures.chart(
            "nucleus", view.t("tour.chance"), measured, names, values, title=view.t("tour.chance")
        )

    values = {
        "p": f"{found.p:g}",
        "share": percent(found.p),
        "kept": kept,
        "less": percent(float(np.sum(found.probs[: kept - 1]))),
        "sum": percent(float(np.sum(found.probs[:kept]))),
    }
    return PosedStep(asks, values, picture, {"step": found.index})


def _beam(view: View, found: finding.SearchComparison) -> PosedStep:
    greedy, beam = found.greedy.logprob, found.beam.logprob
    wrong = [fixed(each, 2) for each in (greedy, 2 * greedy - beam, 2 * greedy)]
    asks = question("beam", fixed(beam, 2), wrong)
    both = {"greedy": found.greedy, "beam": found.beam}

    def picture(answered: bool) -> b.Blocks:
        for name, made in both.items():
            tokens = [each.chosen_str for each in made.steps]
            yield pictures.strip(view, tokens, "tgt", f"beam.{name}", None)
        if answered:
            yield pictures.chart(
                "beam",
                view.t("tour.chance_all"),
                measured,
                [f"{view.t(f'decoding.{name}')}: {made.text}" for name, made in both.items()],
                100 * np.exp([made.logprob for made in both.values()]),
                title=view.t("tour.chance_all"),
            )

    values = {
        "greedy": f"“{escape(found.greedy.text)}”",
        "beam": f"“{escape(found.beam.text)}”",
        "width": found.width,
        "less": fixed(greedy, 2),
        "more": fixed(beam, 2),
        "times": _times(float(np.exp(beam - greedy))),
    }
    return PosedStep(asks, values, picture, {"part": "branches"})


def _passes(view: View, found: OnePass) -> PosedStep:
    n = len(found.tokens)
    asks = question("passes", "1", [str(each) for each in (n, n * (n + 1) // 2, n * n)])

    def picture(answered: bool) -> b.Blocks:
        if not answered:
            yield pictures.strip(view, found.queries, "tgt", "passes.queries", None)
            yield pictures.strip(view, found.tokens, "tgt", "passes.tokens", None)
            return
        yield pictures.chart(
            "passes",
            view.t("onepass.gaps"),
            lines,
            np.arange(1, n + 1),
            np.maximum(np.stack([found.gaps, found.gaps_open]), FLOOR),
            [view.t("onepass.with"), view.t("onepass.without")],
            x_title=view.t("onepass.step"),
            y_title=view.t("onepass.gap"),
            log_y=True,
            height=300,
        )

    values = {"count": n, "largest": number(found.largest), "open": fixed(found.largest_open, 1)}
    return PosedStep(asks, values, picture, {"part": "pass"})


def _kept(view: View, found: finding.CacheContents) -> PosedStep:
    right = found.growth
    wrong = [right // 2, right // found.layers, right * len(found.made.steps), right * 2]
    asks = question("kept", f"{right:,}", [f"{each:,}" for each in wrong])

    def picture(answered: bool) -> b.Blocks:
        if not answered:
            yield from _so_far(view, found.made, len(found.made.steps) - 1, "kept")
            return
        pack = partial(
            pack_cache_view,
            found.cached.keys,
            found.cached.values,
            found.made.steps[-1].input_tokens,
            found.cached.n_bytes,
            first=found.cached.first,
            cross_keys=found.cached.cross_keys,
            cross_values=found.cached.cross_values,
            source=found.made.src_str_tokens,
            kept_heads=found.kv_heads,
            step=len(found.cached.n_bytes) - 1,
            words=view.words("components.cache_view"),
        )
        yield b.Canvas("tour.kept", "cache_view", lambda file: pack())

    values = {
        "layers": found.layers,
        "heads": found.kv_heads,
        "d_head": found.d_head,
        "bytes": f"{right:,}",
        "numbers": f"{right // 4:,}",
    }
    return PosedStep(asks, values, picture, {"part": "cache"})


STEPS = (
    step("given", "decoding", finding.given, _given, r"p(y_t \mid y_{<t},\, x)"),
    step("ended", "decoding", finding.ended, _ended, r"y_t = \mathrm{END}"),
    step(
        *("product", "decoding", finding.product, _product),
        r"p(y\mid x) = \prod_t p(y_t \mid y_{<t},\, x)",
    ),
    step(
        *("temperature", "decoding", finding.temperature, _temperature),
        r"p_T = \mathrm{softmax}(\ell / T),\qquad "
        r"\frac{p_T(a)}{p_T(b)} = \left(\frac{p(a)}{p(b)}\right)^{1/T}",
    ),
    step(
        *("nucleus", "decoding", finding.nucleus, _nucleus),
        r"\min k:\ \sum_{i \le k} p_{(i)} \ge p",
    ),
    step(
        *("beam", "decoding", finding.beam, _beam),
        r"\ln p(y\mid x) = \sum_t \ln p(y_t \mid y_{<t},\, x)",
        telling="beam",
    ),
    step(
        *("passes", "decoding", finding.passes, _passes),
        r"f(y_0, \dots, y_n)_t = f(y_0, \dots, y_t)_t \quad\Leftarrow\quad m_{ij} = [\,j \le i\,]",
    ),
    step(
        *("kept", "decoding", finding.kept, _kept),
        r"2\,n_\mathrm{kv}\,d_\mathrm{head}\cdot\text{layers}\cdot 4",
    ),
)
