"""Questions decided by training: guess first, then both variants are trained with three seeds."""

from collections.abc import Sequence

import streamlit as st

from explorer.exhibits.view import View
from explorer.pages.training import watching
from explorer.pages.training.choices import TrainingChoices
from explorer.pages.training.compared import chart, verdict
from explorer.training.comparing import arms, band
from explorer.training.questions import QUESTIONS, SEEDS, RunComparison
from explorer.training.rooms import Room
from explorer.training.runs import TrainingRun
from explorer.ui import controls, session
from explorer.ui.problem import show_refused

BY_ID = {question.id: question for question in QUESTIONS}
GUESSES = ("first", "second", "band")


def asked(view: View, room: Room | None) -> None:
    """Draw this part of the page."""
    question = _choose(view)
    st.subheader(view.t(f"training.questions.{question.id}.ask"), anchor=False)
    names = [view.t(f"training.questions.{question.id}.{side}") for side in ("first", "second")]
    guess = _guess(view, names)
    runs: Sequence[TrainingRun] = room.runs if room else ()
    first, second = question.runs(runs)
    answer = question.answer(runs)
    if guess and answer is None and not any(run.is_live for run in (*first, *second)):
        st.button(
            view.t("training.decide", n=2 * len(SEEDS), steps=question.first.steps),
            key="training.decide",
            type="primary",
            icon=":material/play_arrow:",
            on_click=watching.begin,
            args=(question.setups(),),
        )
    if not guess:
        st.caption(view.t("training.guess_first"))
        return
    done = sum(run.state == "done" for run in (*first, *second))
    if answer is None and done < 2 * len(SEEDS) and first:
        st.progress(done / (2 * len(SEEDS)), view.t("training.decided", done=done, n=6))
    if not first or not second or not (first[0].scores and second[0].scores):
        return
    if answer is not None:
        key = "guess_right" if guess == answer.outcome else "guess_wrong"
        words = verdict(view, answer, names, question.measure)
        controls.reading("training-asked", f"{view.t(f'training.{key}')} {words}")
    measure = "free" if question.measure == "beyond" else question.measure
    sides = [arms(each)[0] for each in (first, second)]
    chart(view, names, [band(arm, measure) for arm in sides], measure, question.first.steps)


def _choose(view: View) -> RunComparison:
    given = view.choices(TrainingChoices).question
    question = BY_ID.get(given, QUESTIONS[0])
    if given not in ("", *BY_ID):
        show_refused("question", given, view.lang)
    controls.pick(
        view.t("training.question"),
        range(len(QUESTIONS)),
        QUESTIONS.index(question),
        "training.question",
        lambda at: session.change(question=QUESTIONS[at].id, expected=""),
        format_func=lambda at: view.t(f"training.questions.{QUESTIONS[at].id}.ask"),
        label_visibility="collapsed",
    )
    return question


def _guess(view: View, names: Sequence[str]) -> str:
    given = view.choices(TrainingChoices).expected
    guess = given if given in GUESSES else None
    st.session_state["training.expected"] = guess
    labels = {
        "first": view.t("training.better", side=names[0]),
        "second": view.t("training.better", side=names[1]),
        "band": view.t("training.no_difference"),
    }
    st.segmented_control(
        view.t("training.guess"),
        GUESSES,
        format_func=labels.__getitem__,
        key="training.expected",
        on_change=lambda: session.change(expected=st.session_state["training.expected"] or ""),
    )
    return guess or ""
