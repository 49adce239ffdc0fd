"""Two models on one sentence: the difference of the open heads, and the predictions of both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.heads import versus as comparing
from explorer.analysis.heads.aligned import align, gathered
from explorer.analysis.heads.versus import (
    Expectation,
    Versus,
    divergence,
    expectations,
    incomparable,
    mean_divergence,
    patterns,
)
from explorer.engine.runs import closest
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.heads.picture import swapped
from explorer.exhibits.heads.sides import RunPair, ViewPair, names_of, run_pair, sides_of
from explorer.exhibits.heads.verdict import ModelsCompared
from explorer.exhibits.saying import head_columns, head_name, model_title, site_axes
from explorer.figures.matrix import Matrix, change
from explorer.numbers import fixed, percent

MOST_ROWS = 24
"""Most predictions shown in full; beyond that, only those that differ."""
LEAST = 5e-4
"""Smallest probability of a second or third prediction that is shown."""
FORMULA = (
    r"\mathrm{JS}(p, q) = H\!\left(\tfrac{p + q}{2}\right) - \tfrac12\big(H(p) + H(q)\big), "
    r"\qquad H(p) = -\sum_j p_j \log_2 p_j",
    r"d_{\ell h} = \frac1n \sum_{i = 1}^{n} \mathrm{JS}\big(A^{(1)}_{\ell h i},\, "
    r"A^{(2)}_{\ell h i}\big)",
)


Closest = tuple[tuple[int, int], float] | None


def compute(
    verdict: ModelsCompared, asked: RunPair, opened: tuple[int, int] | None
) -> tuple[ModelsCompared, Closest]:
    """What `verdict` compares, and the other model's head with the pattern most similar to the open
    one's, with their difference in bits. Raises InputProblem."""
    return verdict, None if opened is None else closest(*asked, *opened)


def _opened(view: View) -> tuple[int, int] | None:
    """Layer and head of the open head; None if none or an aggregate is open."""
    shown = Opened(view).current
    if shown is None or shown.site is None or shown.head is None:
        return None
    return shown.site.layer, shown.head


def show(answer: tuple[ModelsCompared, Closest], view: View) -> b.Blocks:
    """The comparison, below the pictures of both models."""
    compared, nearest = answer
    pair = sides_of(view).pair
    assert pair is not None
    swap = b.Button(
        "heads.versus.swap",
        view.t("heads.versus.swap"),
        b.choose(elsewhere=True, **swapped(pair)),
        icon="swap_horiz",
    )
    yield b.Row((b.Title(view.t("heads.versus.title"), large=True), swap), align="center")
    target = pair.other.target
    if target and target != view.target:
        yield b.Note(view.t("heads.versus.same_text", **names_of(pair)))
    heads, predictions = compared.heads, compared.predictions
    if heads is not None and heads.comparable:
        yield from _heads(pair, heads, nearest)
    yield from _predictions(pair, predictions)
    if heads is not None:
        yield b.Formula(FORMULA, view.t("heads.versus.formula"))
        yield b.Code(_code(heads, predictions))
        if heads.by_number or predictions:
            yield b.Numbers(lambda: _numbers(pair, heads, predictions))


def _code(heads: Versus, predictions: Sequence[Expectation]) -> list[object]:
    code: list[object] = [align]
    if heads.comparable:
        code += [gathered, divergence, mean_divergence if heads.by_number else comparing.closest]
    return [*code, expectations] if predictions else code


# The open heads.


@dataclass(frozen=True, eq=False)
class OpenHeads:
    """The open head of each model over common pieces: weights [query piece, key piece]."""

    mine: tuple[int, int]  # layer, head
    theirs: tuple[int, int]
    one: NDArray[np.float32]
    other: NDArray[np.float32]
    keys: tuple[str, ...]

    def names(self, view: View) -> dict[str, str]:
        """The names of both heads, as fields of texts."""
        return {"mine": head_name(view, self.mine), "theirs": head_name(view, self.theirs)}


def open_heads(pair: ViewPair) -> OpenHeads | None:
    """The open heads of both models; None if none is open or comparable."""
    view, comparison, mine = pair.view, pair.compared, _opened(pair.view)
    if comparison is None or not comparison.comparable or mine is None:
        return None
    theirs = mine if comparison.by_number else (pair.other.layer, pair.other.head)
    queries, keyed = comparison.queries, comparison.keys
    one = gathered(patterns(view.trace, comparison.role)[mine], queries.one, keyed.one)
    other = gathered(
        patterns(pair.other.trace, comparison.other_role)[theirs], queries.other, keyed.other
    )
    keys = [*comparison.keys.labels, view.t("heads.versus.rest")]
    if comparison.keys.whole:
        one, other, keys = one[:, :-1], other[:, :-1], keys[:-1]
    weights = one.astype(np.float32), other.astype(np.float32)
    return OpenHeads(mine, theirs, *weights, tuple(keys))


def _heads(pair: ViewPair, versus: Versus, nearest: Closest) -> b.Blocks:
    """The measure, how two tokenizations were made comparable, and the open head of each model."""
    view, opened = pair.view, open_heads(pair)
    if versus.by_number:
        yield b.Note(view.t("heads.versus.measure"))
    if not (versus.queries.whole and versus.keys.whole):
        yield b.Note(view.t("heads.versus.pieces"))
    if opened is None:
        yield b.Note(view.t("heads.versus.closed"))
        return
    drawn = _changed(pair, versus, opened)
    caption = view.t("heads.versus.difference", **opened.names(view), **names_of(pair))
    yield b.Matrices("heads.versus", ((caption, drawn),))
    yield from _closest(pair, opened, nearest)


def _changed(pair: ViewPair, versus: Versus, opened: OpenHeads) -> Matrix:
    """The other model's weights in the open head minus this model's."""
    view = pair.view
    before, after = (model_title(view, side.loaded.name) for side in (view, pair.other))
    return change(
        opened.one,
        opened.other,
        site_axes(view, tokens=(versus.queries.labels, opened.keys)),
        masks=(opened.one > 0, opened.other > 0),
        selected=next((at for at, own in enumerate(versus.queries.one) if view.row in own), None),
        words={**view.words("figures.heatmap"), "before": before, "after": after},
    )


def _closest(pair: ViewPair, opened: OpenHeads, nearest: Closest) -> Iterator[b.Prose]:
    """The most similar head of the other model."""
    if nearest is None:
        return
    place, bits = nearest
    names = {"mine": head_name(pair.view, opened.mine), "near": head_name(pair.view, place)}
    yield b.Prose(pair.view.t("heads.versus.closest", bits=fixed(bits), **names, **names_of(pair)))


# The predictions.


def _predictions(pair: ViewPair, predictions: Sequence[Expectation]) -> b.Blocks:
    """The predictions of both, row by row."""
    view, names = pair.view, names_of(pair)
    yield b.Title(view.t("heads.versus.predictions"), large=True)
    if not predictions:
        why = incomparable(view.trace, pair.other.trace)
        yield b.Note(view.t("heads.versus.incomparable", why or "nothing_read", **names))
        return
    differing = [prediction for prediction in predictions if not prediction.same]
    shown = (
        predictions
        if len(predictions) <= MOST_ROWS
        else (differing or list(predictions))[:MOST_ROWS]
    )
    if len(shown) < len(predictions):
        counts = {"count": len(shown), "total": len(predictions)}
        yield b.Note(view.t("heads.versus.only_differing", **counts))
    head = ["", view.t(_at(view)), str(names["one"]), str(names["other"])]
    yield b.Table(head, [_row(prediction) for prediction in shown], "llll")


def _at(view: View) -> str:
    """The title of the pieces: where or after which the models predict."""
    return "heads.versus.at" if view.trace.config.fills else "heads.versus.after"


def _row(expectation: Expectation) -> list[str]:
    return [
        "" if expectation.same else ":orange[:material/difference:]",
        escape(expectation.piece),
        _several(expectation.one, bold=not expectation.same),
        _several(expectation.other, bold=not expectation.same),
    ]


def _several(top: Sequence[tuple[str, float]], bold: bool) -> str:
    told = [candidate for candidate in top if candidate is top[0] or candidate[1] >= LEAST]
    words = [f"{escape(token)} {percent(chance)}" for token, chance in told]
    return " · ".join([f"**{words[0]}**" if bold else words[0], *words[1:]])


def _numbers(
    pair: ViewPair, heads: Versus, predictions: Sequence[Expectation]
) -> dict[str, list[object]]:
    """The table: the difference of every pair of heads, or the predictions."""
    view = pair.view
    if heads.difference is not None:
        ranked = heads.ranked()
        return {
            **head_columns(view, ranked),
            view.t("heads.measures.differs"): [
                round(float(heads.difference[place]), 4) for place in ranked
            ],
        }
    one, other = (model_title(view, each.loaded.name) for each in (view, pair.other))
    return {
        view.t(_at(view)): [each.piece for each in predictions],
        one: [" · ".join(token for token, _ in each.one) for each in predictions],
        other: [" · ".join(token for token, _ in each.other) for each in predictions],
    }


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"asked": run_pair, "opened": _opened},
    open=run_pair,
    wait=Wait(after="heads.verdict"),
)
