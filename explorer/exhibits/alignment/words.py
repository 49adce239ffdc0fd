"""The sentence and its translation with lines between their words, and their matrix."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from jaxtyping import Float

from explorer.analysis.alignment.agreement import Aligner, links_of, matrix
from explorer.analysis.alignment.aligned import Alignment, align
from explorer.analysis.alignment.links import strongest, symmetrised
from explorer.analysis.alignment.reading import Reading, read, read_back
from explorer.analysis.alignment.study import Study
from explorer.analysis.alignment.words import UNSPACED
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.models import ranking
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.alignment import opened
from explorer.exhibits.alignment.opened import AlignmentView
from explorer.exhibits.choices import PartChoices
from explorer.exhibits.exhibit import TRANSLATES
from explorer.exhibits.picking import pick_sinks
from explorer.exhibits.saying import in_a_row, left_out_words
from explorer.figures.alignment import lines, matrix as matrix_of_words
from explorer.library import LoadedModel
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace

MOST_LINES = 160
"""Most words (of the longer text) for which lines are drawn; the matrix has no limit."""


@dataclass(frozen=True, eq=False)
class PairReadings:
    """The ranking of heads, and the pair as both models read it; None if the output is empty.

    `sinks` is the part of each head's weight that is on sinks, of both models.
    """

    study: Study
    readings: tuple[Reading, Reading | None] | None
    sinks: Float[np.ndarray, " head"] = field(default_factory=lambda: np.zeros(0))


def compute(
    loaded: LoadedModel, before: Trace, back: str | None, without_sinks: bool
) -> Steps[PairReadings]:
    """The sentence and its translation by the unedited model. Raises InputProblem."""
    study = yield from ranking.steps(loaded.name, back)
    if not before.output.strip():
        return PairReadings(study, None)
    own = next(read(loaded, [(before.text, before.output)], without_sinks))
    reverse, runs = None, [Run(loaded.name, before.text, before.output)]
    if back is not None:
        reverse = next(read_back(cache.open_model(back), [own], without_sinks))
        runs.append(Run(back, before.output, before.text))
    weights = [layer.weight for run in runs for layer in cache.sinks(run, "cross")]
    return PairReadings(study, (own, reverse), np.concatenate([np.zeros(0), *weights]))


def show(words: PairReadings, view: View) -> b.Blocks:
    """The links, and what found them."""
    choice = AlignmentView(view, words.study)
    yield b.SentenceLine()
    if words.readings is None:
        yield b.Hint(view.t("alignment.nothing"))
        return
    alignment = choice.align(words.readings)
    picture = b.Sentence("alignment", _reading(choice, alignment)), _pictures(view, alignment)
    is_without = view.choices(PartChoices).without_sinks
    yield b.Hero((*picture, *([b.Note(left_out_words(view, words.sinks))] if is_without else [])))
    yield from opened.pick_aligner(choice)
    if is_without or words.sinks.any():
        yield pick_sinks(view)
    yield b.Fold(view.t("alignment.take"), (b.Verbatim(alignment.moses),))
    notes = in_a_row(_notes(choice, alignment))
    yield b.Formula(_formula(choice), f"{notes}\n\n{view.t('alignment.formula')}")
    yield b.Code(_code(choice))
    yield b.Numbers(lambda: _numbers(view, alignment))


def _pictures(view: View, alignment: Alignment) -> b.Columns:
    by, titles = alignment.found_by, (view.stream("src"), view.stream("tgt"))
    words, ends = view.words("figures.alignment"), (alignment.src, alignment.tgt)
    linked = partial(
        lines, *ends, alignment.links, by, alignment.weights, titles=titles, words=words
    )
    weighted = matrix_of_words(
        *ends,
        alignment.weights,
        alignment.links,
        by,
        titles=titles,
        words=words,
        weight_words=view.words("figures.heatmap"),
    )
    left = [b.Chart("alignment.lines", linked, view.t("alignment.lines_alt"))]
    panel = (view.t("alignment.matrix_alt"), weighted)
    right = b.Matrices("alignment.matrix", (panel,), captioned=False)
    return b.Columns((left if max(map(len, ends)) <= MOST_LINES else [], [right]), (2, 3))


def _reading(choice: AlignmentView, alignment: Alignment) -> str:
    """The number of linked words and of links, and the head that they are from if it is one."""
    by = "" if choice.name == "mean" else choice.words_of(*choice.place)
    return choice.view.t(
        "alignment.reading_head" if by else "alignment.reading",
        by=by,
        links=int(alignment.links.sum()),
        linked=int(alignment.links.any(1).sum()),
        tgt=len(alignment.tgt),
    )


def _notes(choice: AlignmentView, alignment: Alignment) -> list[str]:
    """Notes on the training data of the aligner, and on the definition of a word."""
    view, study = choice.view, choice.study
    notes = []
    if choice.name == "mean":
        numbers = {"learned": study.n_learned, "held": study.n_held}
        notes.append(view.t("alignment.learned", back=choice.back, **numbers))
    elif choice.name == "best":
        notes.append(view.t("alignment.chosen", study.basis, back=choice.back or ""))
    if choice.back is None:
        notes.append(view.t("alignment.one_way"))
    if any(
        low <= letter <= high
        for text in alignment.pair
        for letter in text
        for low, high in UNSPACED
    ):
        notes.append(view.t("alignment.unspaced"))
    return notes


def _formula(choice: AlignmentView) -> tuple[str, ...]:
    forward = (
        r"A_{ts} = \sum_{r,h} w_{rh} \cdot \frac{1}{|t|}\sum_{i \in t}\,\sum_{j \in s} "
        r"\text{pattern}_{h,\,i - 1 + r,\,j}, \qquad r \in \{0, 1\}",
        r"F = \{(s, t) : s = \arg\max_{s'} A_{ts'}\}",
    )
    if choice.back is None:
        return forward
    return (
        *forward,
        r"R = \{(s, t) : t = \arg\max_{t'} A'_{st'}\}, \qquad "
        r"F \cap R \;\subseteq\; \text{links} \;\subseteq\; F \cup R",
    )


def _code(choice: AlignmentView) -> list[object]:
    further: list[object] = [] if choice.back is None else [read_back]
    return [read, *further, Aligner, matrix, strongest, symmetrised, links_of, align]


def _numbers(view: View, alignment: Alignment) -> dict[str, list[object]]:
    places = np.argwhere(alignment.links.T)
    if not len(places):
        return {view.t("alignment.link"): ["–"]}
    columns: dict[str, list[object]] = {
        view.t("alignment.link"): [f"{src}-{tgt}" for src, tgt in places],
        view.stream("src"): [alignment.src[src] for src, _ in places],
        view.stream("tgt"): [alignment.tgt[tgt] for _, tgt in places],
        view.t("alignment.found_by"): [
            view.t("figures.alignment", alignment.found_by[tgt, src]) for src, tgt in places
        ],
        view.t("alignment.forward"): [f"{alignment.weights[tgt, src]:.3f}" for src, tgt in places],
    }
    back = alignment.back
    if back is not None:
        columns[view.t("alignment.reverse")] = [f"{back[tgt, src]:.3f}" for src, tgt in places]
    return columns


EXHIBIT = Exhibit(
    compute, show, TRANSLATES, inputs={"back": opened.back_of}, wait=Wait("alignment.working")
)
