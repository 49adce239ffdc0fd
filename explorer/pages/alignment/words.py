"""The sentence and its translation with lines between their words, and their matrix."""

import numpy as np
import streamlit as st

from explorer.analysis.alignment.agreement import Aligner, links_of, matrix
from explorer.analysis.alignment.aligned import Alignment, align
from explorer.analysis.alignment.links import strongest, symmetrised
from explorer.analysis.alignment.reading import Pair, read, read_back
from explorer.analysis.alignment.words import UNSPACED
from explorer.exhibits.saying import in_a_row
from explorer.exhibits.view import View
from explorer.figures.alignment.links import lines
from explorer.figures.alignment.links import matrix as matrix_figure
from explorer.numbers import percent
from explorer.pages.alignment.opened import Opened, pick_aligner, read_pair
from explorer.ui import controls
from explorer.ui.stage import hero

MOST_LINES = 160
"""Most words (of the longer text) for which lines are drawn; the matrix has no limit."""


def pair_of(view: View) -> Pair | None:
    """The sentence and its translation by the unedited model; None if the output has no words."""
    traced = view.before()
    return (traced.text, traced.output) if traced.output.strip() else None


def aligned_words(choice: Opened) -> None:
    """Draw this part of the page."""
    view = choice.view
    pair = pair_of(view)
    controls.sentence_line(view)
    if pair is None:
        st.info(view.t("alignment.nothing"), icon=":material/lightbulb:")
        return
    readings = read_pair(choice, pair)
    if readings is None:
        return
    found = choice.align(readings)
    with hero():
        controls.reading("alignment", _reading(choice, found))
        _pictures(view, found)
    pick_aligner(choice)
    st.caption(in_a_row(_notes(choice, found)))
    controls.small_print(
        view,
        "alignment",
        formula=_formula(choice),
        code=_code(choice),
        numbers=lambda: _numbers(view, found),
    )


def found_by(found: Alignment) -> np.ndarray:
    """The direction that found each link: [tgt_word, src_word] of "both", "forward", "reverse" or
    ""."""
    names = [
        [found.source(tgt, src) for src in range(len(found.src))] for tgt in range(len(found.tgt))
    ]
    return np.array(names, dtype=object).reshape(found.links.shape)


def _pictures(view: View, found: Alignment) -> None:
    words, by = view.words("figures.alignment"), found_by(found)
    titles = (view.stream("src"), view.stream("tgt"))
    left, right = st.columns([2, 3], gap="large")
    if max(len(found.src), len(found.tgt)) <= MOST_LINES:
        with left:
            figure = lines(
                found.src,
                found.tgt,
                found.links,
                by,
                found.weights,
                titles=titles,
                dark=view.dark,
                words=words,
            )
            controls.chart(figure, "alignment.lines", alt=view.t("alignment.lines_alt"))
    with right:
        figure = matrix_figure(
            found.src,
            found.tgt,
            found.weights,
            found.links,
            by,
            titles=titles,
            dark=view.dark,
            words=words,
            heatmap_words=view.words("figures.heatmap"),
        )
        controls.chart(figure, "alignment.matrix", alt=view.t("alignment.matrix_alt"))


def _reading(choice: Opened, found: Alignment) -> str:
    """The reading: number of linked words, of links found by both models, and crossing links."""
    view, both = choice.view, found.forward & found.reverse & found.links
    said = [
        view.t(
            "alignment.reading",
            by=_by(choice),
            links=int(found.links.sum()),
            linked=int(found.links.any(1).sum()),
            tgt=len(found.tgt),
        )
    ]
    if found.back is not None:
        said.append(view.t("alignment.reading_both", both=int(both.sum())))
    moved = _moved(found)
    if moved is None:
        said.append(view.t("alignment.reading_order"))
    else:
        tgt, src = moved
        said.append(
            view.t(
                "alignment.reading_moved",
                crossings=found.crossings,
                source=controls.quoted(view, found.src[src]),
                target=controls.quoted(view, found.tgt[tgt]),
                src=src + 1,
                n_src=len(found.src),
                tgt=tgt + 1,
                n_tgt=len(found.tgt),
            )
        )
    return in_a_row(said)


def _by(choice: Opened) -> str:
    view = choice.view
    if choice.name == "mean":
        return view.t("alignment.by_mean", count=choice.study.scores.size // 2)
    return choice.words_of(*choice.place)


def _moved(found: Alignment) -> tuple[int, int] | None:
    """The link (target, source) whose ends are farthest apart; None if no links cross."""
    if not found.crossings:
        return None
    places = np.argwhere(found.links)
    along = places / np.maximum(np.array(found.links.shape) - 1, 1)
    tgt, src = places[np.abs(along[:, 0] - along[:, 1]).argmax()].tolist()
    return tgt, src


def _notes(choice: Opened, found: Alignment) -> list[str]:
    """Notes on the training data of the aligner, and on the definition of a word."""
    view, study = choice.view, choice.study
    notes = [] if choice.back is None else [view.t("alignment.signs")]
    if choice.name == "mean":
        weights = study.aligner("mean").forward
        shift, head = divmod(int(weights.argmax()), len(study.heads))
        notes.append(
            view.t(
                "alignment.learned",
                back=choice.back,
                learned=study.n_learned,
                held=study.n_held,
                heaviest=choice.words_of(shift, head),
                weight=percent(float(weights.max())),
            )
        )
    elif choice.name == "best":
        notes.append(view.t(f"alignment.chosen_{study.basis}", back=choice.back or ""))
    if choice.back is None:
        notes.append(view.t("alignment.one_way"))
    if any(
        low <= letter <= high for text in found.pair for letter in text for low, high in UNSPACED
    ):
        notes.append(view.t("alignment.unspaced"))
    return notes


def _formula(choice: Opened) -> tuple[str, ...]:
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


def _code(choice: Opened) -> list[object]:
    further: list[object] = [] if choice.back is None else [read_back]
    return [read, *further, Aligner, matrix, strongest, symmetrised, links_of, align]


def _numbers(view: View, found: Alignment) -> dict[str, list[object]]:
    places = np.argwhere(found.links.T)
    if not len(places):
        return {view.t("alignment.link"): ["–"]}
    columns: dict[str, list[object]] = {
        view.t("alignment.link"): [f"{src}-{tgt}" for src, tgt in places],
        view.stream("src"): [found.src[src] for src, _ in places],
        view.stream("tgt"): [found.tgt[tgt] for _, tgt in places],
        view.t("alignment.found_by"): [
            view.t(f"figures.alignment.{found.source(tgt, src)}") for src, tgt in places
        ],
        view.t("alignment.forward"): [f"{found.weights[tgt, src]:.3f}" for src, tgt in places],
    }
    back = found.back
    if back is not None:
        columns[view.t("alignment.reverse")] = [f"{back[tgt, src]:.3f}" for src, tgt in places]
    return columns
