"""How well each cross-attention matrix aligns, at each of its two rows."""

from collections.abc import Sequence

import numpy as np

from explorer.analysis.alignment.agreement import agreement, best_pair, learn
from explorer.analysis.alignment.study import Checked, Study, errors, sharpness, study
from explorer.components.mount import Index
from explorer.engine.models import ranking
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.alignment import opened
from explorer.exhibits.alignment.choices import ROWS
from explorer.exhibits.alignment.opened import AlignmentView
from explorer.exhibits.exhibit import TRANSLATES
from explorer.exhibits.saying import head_columns, head_name, in_a_row
from explorer.figures.maps import head_maps
from explorer.numbers import fixed
from explorer.text import model_name

FIRST = 6
"""Number of listed heads."""
TIE = 0.005
"""Scores that differ by less tie: two decimals are shown."""


def show(alignment: Study, view: View) -> b.Blocks:
    """The map of all matrices, the best ones, and the aligners on known links."""
    choice = AlignmentView(view, alignment)
    note = b.Note(view.t("alignment.map_note"))
    yield b.Hero((b.Sentence("matrices", _reading(choice)), _map(choice), note))
    if alignment.basis == "sharpness":
        yield b.Note(view.t("alignment.chosen.sharpness"))
    yield opened.pick_back(view)
    yield b.Title(view.t("alignment.first_heads"))
    yield _first(choice)
    if alignment.checked is not None:
        yield from _checked(choice, alignment.checked)
    legend = view.t("alignment.formulas", alignment.basis)
    yield b.Formula(_formula(alignment), f"{_basis(choice)}\n\n{legend}")
    yield b.Code(_code(alignment))
    yield b.Numbers(lambda: _numbers(view, alignment))


def _basis(choice: AlignmentView) -> str:
    """What the scores are, on which examples, and the scores on those held out."""
    view, results = choice.view, choice.study
    back = model_name(choice.back, lang=view.lang) if choice.back else ""
    numbers = {"learned": results.n_learned, "held": results.n_held}
    basis = view.t("alignment.bases", results.basis, back=back, **numbers)
    held = {name: fixed(value) for name, value in results.held.items()}
    key = "alignment.held_alone" if results.mean is None else "alignment.held_out"
    sentences = [basis, view.t(key, **held, held=results.n_held)]
    if results.diagonal is not None:
        diagonal = fixed(results.diagonal)
        sentences.append(view.t("alignment.along_diagonal", diagonal=diagonal))
    return in_a_row(sentences)


def _reading(choice: AlignmentView) -> str:
    """The best matrices of how many."""
    view, results = choice.view, choice.study
    shift, head = results.ranked()[0]
    best = float(results.scores[shift, head])
    tied = [choice.words_of(*at) for at in results.ranked() if results.scores[at] > best - TIE]
    return view.t(
        "alignment.best",
        by=view.t("alignment.scores", results.basis),
        count=len(results.heads),
        best=_listed(tied),
        score=fixed(best),
        median=fixed(float(np.median(results.scores))),
    )


def _listed(heads: Sequence[str]) -> str:
    """The first heads that tie."""
    return ", ".join([*heads[:FIRST], *["…"] * (len(heads) > FIRST)])


def _map(choice: AlignmentView) -> b.Matrices:
    view, results = choice.view, choice.study
    n_layers = len({layer for layer, _ in results.heads})
    shift, head = choice.place
    score = view.t("alignment.scores", results.basis)
    drawn = head_maps(
        [values.reshape(n_layers, -1) for values in results.scores],
        [view.t("alignment.rows", row) for row in ROWS],
        top=1.0,
        selected=(shift, *results.heads[head]),
        words={**view.words("figures.maps"), "value": score},
    )

    def opens(cell: Index) -> b.Change:
        row, layer, head = cell
        at = results.heads.index((layer, head))
        return opened.open_head(results, at, word_row=ROWS[row], part="words")

    return b.Matrices("alignment.map", drawn, picked=opens)


def _first(choice: AlignmentView) -> b.Table:
    """The best heads, with their error rates on known links."""
    view, results = choice.view, choice.study
    checked = results.checked
    head = [
        "",
        view.t("alignment.head"),
        view.t("alignment.row"),
        view.t("alignment.scores", results.basis),
    ]
    if checked is not None:
        head.append(view.t("alignment.error"))
    rows = []
    for rank, (shift, at) in enumerate(results.ranked()[:FIRST], 1):
        row = [
            str(rank),
            head_name(view, results.heads[at]),
            view.t("alignment.rows", ROWS[shift]),
            fixed(float(results.scores[shift, at])),
        ]
        rows.append(row if checked is None else [*row, fixed(float(checked.errors[shift, at]))])
    return b.Table(head, rows, "rllrr"[: len(head)])


def _checked(choice: AlignmentView, checked: Checked) -> b.Blocks:
    """Precision, recall and error rate of the aligners and of the diagonal, on known links, and the
    lowest error rate of one matrix."""
    view = choice.view
    columns = [*map(view.t, ("alignment.precision", "alignment.recall", "alignment.error"))]
    named = {view.t("alignment.aligners", name): score for name, score in checked.scores.items()}
    named[view.t("alignment.diagonal")] = checked.diagonal
    rows = [
        [name, fixed(score.precision), fixed(score.recall), fixed(score.error)]
        for name, score in named.items()
    ]
    yield b.Title(view.t("alignment.methods_title"))
    yield b.Table(["", *columns], rows, "lrrr")
    counts = {"pairs": checked.n_pairs, "links": checked.n_links}
    ties = np.argwhere(checked.errors < checked.errors.min() + TIE).tolist()
    best = _listed([choice.words_of(*at) for at in ties])
    yield b.Prose(view.t("alignment.checked", least=fixed(float(checked.errors.min())), named=best))
    yield b.Note(view.t("alignment.known", checked.source, **counts))


def _formula(alignment: Study) -> tuple[str, ...]:
    if alignment.basis == "agreement":
        return (
            r"F_1(h, h') = \frac{2\,|F_h \cap R_{h'}|}{|F_h| + |R_{h'}|}, \qquad "
            r"\text{score}(h) = \max_{h'} F_1(h, h')",
            r"\mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}",
        )
    if alignment.basis == "known":
        return (r"\text{score} = 1 - \mathrm{AER} = \frac{|A \cap S| + |A \cap P|}{|A| + |S|}",)
    return (r"\text{score} = \frac{H(\bar A) - \overline{H(A_t)}}{\log_2 \min(n_t, n_s)}",)


def _code(alignment: Study) -> list[object]:
    by: dict[str, list[object]] = {
        "agreement": [agreement, best_pair, learn],
        "sharpness": [sharpness],
    }
    code: list[object] = [study, *by.get(alignment.basis, [])]
    return code if alignment.checked is None else [*code, errors]


def _numbers(view: View, alignment: Study) -> dict[str, list[object]]:
    ranked = alignment.ranked()
    columns = head_columns(view, [alignment.heads[head] for _, head in ranked]) | {
        view.t("alignment.row"): [view.t("alignment.rows", ROWS[shift]) for shift, _ in ranked],
        view.t("alignment.scores", alignment.basis): [
            f"{alignment.scores[at]:.3f}" for at in ranked
        ],
    }
    if alignment.mean is not None:
        weights = alignment.mean.forward
        columns[view.t("alignment.weight")] = [f"{weights[at]:.3f}" for at in ranked]
    if alignment.checked is not None:
        columns[view.t("alignment.error")] = [
            f"{alignment.checked.errors[at]:.3f}" for at in ranked
        ]
    return columns


EXHIBIT = Exhibit(
    ranking,
    show,
    TRANSLATES,
    inputs={"model": lambda view: view.loaded.name, "back": opened.back_of},
    wait=Wait("alignment.working"),
)
