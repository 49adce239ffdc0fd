"""What the page is about, in sentences: the text, the user's changes, and two models compared."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.analysis.heads.versus import Expectation, Versus, expectations, input_role
from explorer.engine import cache
from explorer.engine.runs import versus
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.heads.sides import RunPair, ViewPair, names_of, run_pair, sides_of
from explorer.exhibits.saying import head_name, message, quoted
from explorer.numbers import fixed, percent

LEAST = 5e-4
"""Bits of a difference that is stated."""


@dataclass(frozen=True, eq=False)
class ModelsCompared:
    """Two models on one sentence: their heads, None if the other lacks this kind of attention, and
    the predictions of both, piece by piece."""

    heads: Versus | None
    predictions: tuple[Expectation, ...]


def compute(asked: RunPair | None) -> ModelsCompared | None:
    """The run compared with another model's; None without one. Raises InputProblem."""
    if asked is None:
        return None
    run, other, kind = asked
    one, two = cache.open_model(run.model), cache.open_model(other.model)
    traces = cache.trace(run), cache.trace(other)
    predictions = expectations(*traces, one.str_tokens, two.str_tokens)
    return ModelsCompared(versus(run, other, kind), predictions)


def show(compared: ModelsCompared | None, view: View) -> b.Blocks:
    """The sentence, unless there are two, the changes, and the differences of two models."""
    sides = sides_of(view)
    if len(sides.shown) == 1:
        yield b.SentenceLine(mapped=False)
    if sides.problems:
        messages = [message(problem, view.lang) for problem in sides.problems]
        yield b.Hero([b.Hint(words, "info", warns=True) for words in messages])
    yield b.Changes("heads.reset")
    if compared is not None and sides.pair is not None:
        heads = _compared(sides.pair, compared.heads)
        yield b.Hero((*heads, *_predictions(sides.pair, compared.predictions)))


def _compared(pair: ViewPair, heads: Versus | None) -> b.Blocks:
    """How much the heads differ, if they can be compared."""
    view = pair.view
    if heads is None:
        yield _no_counterpart(pair)
    elif not heads.comparable:
        yield b.Hint(view.t("heads.versus.nothing_shared"), "info")
    elif heads.difference is None:
        yield b.Prose(view.t("heads.versus.shapes_differ", **_shapes(heads), **names_of(pair)))
    else:
        yield from _heads(pair, heads.difference, heads.ranked())


def _no_counterpart(pair: ViewPair) -> b.Row:
    """A note that the other model lacks this kind of attention, with a kind that both have."""
    view = pair.view
    role = input_role(view.trace)
    words = view.t("heads.versus.no_counterpart", kind=view.t("kinds", view.kind), **names_of(pair))
    label = view.t("heads.versus.input_kind", kind=view.t("kinds", role))
    button = b.Button("heads.versus.input_kind", label, b.choose(elsewhere=True, site=role))
    return b.Row((b.Hint(words, "info"), button), align="center")


def _shapes(versus: Versus) -> dict[str, object]:
    (layers, heads), (their_layers, their_heads) = versus.shapes
    own: dict[str, object] = {"layers": layers, "heads": heads}
    return own | {"their_layers": their_layers, "their_heads": their_heads}


def _heads(pair: ViewPair, bits: np.ndarray, ranked: Sequence[tuple[int, int]]) -> b.Blocks:
    """The mean and the largest difference of the heads."""
    view = pair.view
    if not ranked:
        yield b.Hint(view.t("heads.versus.nothing_shared"), "info")
        return
    most = ranked[0]
    if bits[most] < LEAST:
        words = view.t("heads.versus.same_heads", count=len(ranked), limit=LEAST)
        yield b.Sentence("versus", words)
        return
    words = view.t(
        "heads.versus.reading",
        name=head_name(view, most),
        bits=fixed(float(bits[most])),
        mean=fixed(float(np.nanmean(bits))),
        count=len(ranked),
    )
    yield b.Sentence("versus", words)


def _predictions(pair: ViewPair, predictions: Sequence[Expectation]) -> Iterator[b.Sentence]:
    """How many predictions differ, and the first of them."""
    view = pair.view
    if not predictions:
        return
    differing = [prediction for prediction in predictions if not prediction.same]
    if not differing:
        words = view.t("heads.versus.same_predictions", total=len(predictions))
    else:
        words = _first(pair, differing[0], len(differing), len(predictions))
    yield b.Sentence("versus-predictions", words)


def _first(pair: ViewPair, first: Expectation, count: int, total: int) -> str:
    view = pair.view
    return view.t(
        "heads.versus.first_difference",
        count=count,
        total=total,
        piece=quoted(view, first.piece),
        mine=_expectation(view, first.one[0]),
        theirs=_expectation(view, first.other[0]),
        **names_of(pair),
    )


def _expectation(view: View, top: tuple[str, float]) -> str:
    return view.t("heads.versus.expected", token=quoted(view, top[0]), chance=percent(top[1]))


EXHIBIT = Exhibit(compute, show, inputs={"asked": run_pair})
