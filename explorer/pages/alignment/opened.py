"""The state of the Alignment page: the pair, the reverse model, and the aligner."""

from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from explorer.analysis.alignment.agreement import Aligner, one_head
from explorer.analysis.alignment.aligned import Alignment, align
from explorer.analysis.alignment.links import METHODS
from explorer.analysis.alignment.reading import Pair, Reading
from explorer.analysis.alignment.study import Study, other_direction
from explorer.engine import cache, jobs
from explorer.exhibits.view import View
from explorer.pages.alignment import cached
from explorer.pages.alignment.choices import NO_MODEL, READS, ROWS, AlignmentChoices
from explorer.runs.generation import StepsDone
from explorer.text import model_name
from explorer.ui import controls, running, session

JOB, READING = "alignment.study", "alignment.read_pair"


@dataclass(frozen=True, eq=False)
class Opened:
    """A view with the reverse model, and the results for all heads."""

    view: View
    back: str | None
    study: Study

    @property
    def name(self) -> str:
        """The source of links: `mean`, `best` or `head`."""
        asked = self.view.choices(AlignmentChoices).aligner
        if asked == "head":
            return asked
        found = self.study.aligner(asked)
        return "mean" if found is self.study.mean else "best"

    @property
    def place(self) -> tuple[int, int]:
        """Shift and number of the current head: the open one, or the best."""
        if self.name == "head":
            row = self.view.choices(AlignmentChoices).word_row
            heads = self.study.heads
            at = (self.view.layer, self.view.head)
            return ROWS.index(row), heads.index(at) if at in heads else 0
        shift, head = divmod(int(self.study.best.forward.argmax()), len(self.study.heads))
        return shift, head

    @property
    def aligner(self) -> Aligner:
        """The head weights for both directions. A manually opened head applies to one direction;
        the other one keeps its chosen aligner."""
        chosen = self.study.aligner(self.name if self.name != "head" else "")
        if self.name != "head":
            return chosen
        return replace(chosen, forward=one_head(self.study.scores.shape, *self.place))

    def align(self, readings: tuple[Reading, Reading | None]) -> Alignment:
        """The links of a pair, with the chosen aligner and method."""
        return align(*readings, self.aligner, self.view.choices(AlignmentChoices).symmetrise)

    def words_of(self, shift: int, head: int) -> str:
        """A head and its row in words."""
        layer, number = self.study.heads[head]
        return self.view.t(f"alignment.at_{ROWS[shift]}", layer=layer + 1, head=number + 1)


def back_of(view: View) -> str | None:
    """The reverse model: the chosen one, or the one suggested by the name."""
    asked = view.choices(AlignmentChoices).back
    options = cached.translators(cache.models())
    if asked == NO_MODEL:
        return None
    return asked if asked in options else other_direction(view.loaded.name, options)


def opened(view: View) -> Opened | None:
    """The results for all heads of this model; None while computing or after a stop."""
    back, model = back_of(view), view.loaded.name

    def work(tell: StepsDone) -> Study:
        return cached.study(model, back, progress=jobs.whole(tell))

    key = (model, back)
    found = running.awaited(JOB, key, work, view.t("alignment.working"), view.lang)
    return None if found is None else Opened(view, back, found)


def read_pair(choice: Opened, pair: Pair) -> tuple[Reading, Reading | None] | None:
    """The pair as read by both models; None while computing or after a stop.

    Raises InputProblem if one of them cannot read its text.
    """
    model, back = choice.view.loaded.name, choice.back

    def work(tell: StepsDone) -> tuple[Reading, Reading | None]:
        return cached.readings(model, back, pair, progress=jobs.whole(tell))

    words = choice.view.t("alignment.reading_pair")
    return running.awaited(READING, (model, back, pair), work, words, choice.view.lang)


def pick_back(view: View, back: str | None) -> None:
    """The control for the reverse model, or none."""
    options = (NO_MODEL, *cached.translators(cache.models()))
    controls.pick(
        view.t("alignment.back"),
        options,
        back or NO_MODEL,
        "alignment.back",
        lambda name: session.change(back=name),
        format_func=lambda name: (
            view.t("alignment.no_back") if name == NO_MODEL else model_name(name, lang=view.lang)
        ),
        help=view.t("alignment.back_help"),
    )


def pick_aligner(choice: Opened) -> None:
    """The controls for the aligner and the symmetrization."""
    view, study = choice.view, choice.study
    names = ("mean", "best", "head") if study.mean is not None else ("best", "head")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.session_state["alignment.aligner"] = choice.name
        st.segmented_control(
            view.t("alignment.aligner"),
            names,
            format_func=lambda name: view.t(f"alignment.aligners.{name}"),
            required=True,
            key="alignment.aligner",
            on_change=partial(_choose, "aligner", "alignment.aligner"),
        )
        if choice.back is not None:
            with st.container(width=230):
                controls.pick(
                    view.t("alignment.symmetrise"),
                    METHODS,
                    view.choices(AlignmentChoices).symmetrise,
                    "alignment.symmetrise",
                    lambda method: session.change(symmetrise=method),
                    format_func=lambda method: view.t(f"alignment.methods.{method}"),
                    help=view.t("alignment.symmetrise_help"),
                )
        with st.container(width=230):
            pick_back(view, choice.back)
    if choice.name == "head":
        with st.container(horizontal=True, vertical_alignment="bottom"):
            with st.container(width=200):
                controls.pick(
                    view.t("alignment.head"),
                    range(len(study.heads)),
                    choice.place[1],
                    "alignment.head",
                    lambda head: open_head(study, head),
                    format_func=lambda head: view.t(
                        "alignment.place",
                        layer=study.heads[head][0] + 1,
                        head=study.heads[head][1] + 1,
                    ),
                )
            st.session_state["alignment.row"] = view.choices(AlignmentChoices).word_row or READS
            st.segmented_control(
                view.t("alignment.row"),
                ROWS,
                format_func=lambda row: view.t(f"alignment.rows.{row}"),
                required=True,
                key="alignment.row",
                on_change=partial(_choose, "word_row", "alignment.row"),
            )


def open_head(study: Study, head: int, **more: str) -> None:
    """Open one cross-attention matrix."""
    layer, number = study.heads[head]
    session.change_site(site="cross", layer=layer, head=number, aligner="head", **more)


def _choose(field: str, key: str) -> None:
    session.change(**{field: st.session_state[key]})
