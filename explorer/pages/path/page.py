"""The guided tour: five chapters of steps, each a live picture and a question with a computed
answer."""

import streamlit as st

from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.pages.path.asked import PosedStep, Step
from explorer.pages.path.choices import PathChoices
from explorer.pages.path.course import CHAPTERS, STEPS, TASK_OF, chapter_of, number_of
from explorer.pages.path.lesson import as_it_is, lesson
from explorer.pages.path.printed import printed
from explorer.pages.path.views import class_sheet, contents, open_step, results, sheet, steps_of
from explorer.problems import InputProblem
from explorer.ui import controls, session
from explorer.ui.page import draw_page
from explorer.ui.parts import pick_part
from explorer.ui.problem import show_problem, show_refused
from explorer.ui.stage import hero

SIGNS = {True: "✓", False: "✗"}


def render(view: View) -> None:
    """Draw the page."""
    draw_page(view, "path", _drawn)


def _drawn(view: View) -> None:
    """Draw the page below its introduction."""
    try:
        _chosen_part(as_it_is(view))
    except InputProblem as problem:
        show_problem(problem, view.lang)


def _chosen_part(view: View) -> None:
    made = view.choices(PathChoices)
    if made.sheet_title:
        with hero():
            st.subheader(escape(made.sheet_title), anchor=False)
    part = pick_part(view, "path", PathChoices.parts)
    current = _current(view)
    unknown = [name for name in made.sheet if name not in STEPS]
    if unknown:
        show_refused("sheet", " ".join(unknown), view.lang)
    if part == "steps":
        _steps(view, current)
    elif part == "printed":
        printed(view, current)
    else:
        {"contents": contents, "results": results, "sheet": sheet, "class": class_sheet}[part](view)


def _current(view: View) -> str:
    """The open step; an unknown step in a link is reported and ignored."""
    asked_for, named = view.choices(PathChoices).lesson, steps_of(view)
    if asked_for not in ("", *STEPS):
        show_refused("lesson", asked_for, view.lang)
    return asked_for if asked_for in named else named[0]


def _steps(view: View, current: str) -> None:
    named = steps_of(view)
    inside = named
    if not view.choices(PathChoices).sheet:
        chapter = chapter_of(current)
        _pick_chapter(view, chapter)
        inside = tuple(step.id for step in CHAPTERS[chapter])
    _pick_step(view, inside, current)
    controls.sentence_line(view)
    step = STEPS[current]
    found = lesson(view, step, number_of(current))
    _onward(view, step, named, found)
    _small_print(view, step, found)


def _pick_chapter(view: View, current: str) -> None:
    st.session_state["path.chapter"] = current
    st.segmented_control(
        view.t("path.chapter"),
        tuple(CHAPTERS),
        format_func=lambda name: view.t(f"path.groups.{name}"),
        required=True,
        key="path.chapter",
        label_visibility="collapsed",
        on_change=lambda: open_step(CHAPTERS[st.session_state["path.chapter"]][0].id),
    )


def _pick_step(view: View, inside: tuple[str, ...], current: str) -> None:
    """The control for the steps of a chapter or sheet, by number, with the result of each."""
    made = view.choices(PathChoices)

    def label(step: str) -> str:
        given = made.answered(step)
        return number_of(step) + ("" if given is None else f" {SIGNS[given.right]}")

    st.session_state["path.step"] = current
    st.segmented_control(
        view.t("path.step"),
        inside,
        format_func=label,
        required=True,
        key="path.step",
        label_visibility="collapsed",
        on_change=lambda: open_step(st.session_state["path.step"]),
    )


def _onward(view: View, step: Step, named: tuple[str, ...], found: PosedStep | None) -> None:
    """Buttons for the previous and next step, and for the page for further exploration."""
    at = named.index(step.id)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            view.t("path.back"),
            key="path.back",
            icon=":material/arrow_back:",
            disabled=at == 0,
            on_click=open_step,
            args=(named[max(0, at - 1)],),
        )
        if at + 1 < len(named):
            st.button(
                view.t("path.next"),
                key="path.next",
                icon=":material/arrow_forward:",
                on_click=open_step,
                args=(named[at + 1],),
            )
        else:
            st.button(
                view.t("path.finish"),
                key="path.next",
                icon=":material/flag:",
                on_click=lambda: session.change(part="results"),
            )
        label = view.t("path.alone", page=view.t(f"{step.page}.title"))
        if st.button(label, key="path.alone", type="tertiary", icon=":material/explore:"):
            session.change(**place_of(found))
            session.visit(step.page)
        chapter = chapter_of(step.id)
        label = view.t("path.write_it")
        if step == CHAPTERS[chapter][-1] and st.button(
            label, key="path.write", type="tertiary", icon=":material/construction:"
        ):
            session.change(task=TASK_OF[chapter], part="task")
            session.visit("workshop")


def place_of(found: PosedStep | None) -> dict[str, object]:
    """The choices with which the page of a step opens, with the unedited model."""
    return {"edits": (), "pads": None, "part": "", "key": None} | dict(found.place if found else {})


def _small_print(view: View, step: Step, found: PosedStep | None) -> None:
    given = found and view.choices(PathChoices).answered(step.id)

    def numbers() -> dict[str, list[object]]:
        if found is None:
            return {view.t("path.step"): [number_of(step.id)]}
        right = ["", *([""] * len(found.question.options))]
        if given and given.mark == found.question.mark:
            right[found.question.right] = "✓"
        return {
            view.t("path.options"): list(found.question.options),
            view.t("path.n_right"): list(right[: len(found.question.options)]),
        }

    controls.small_print(view, "path", formula=(step.formula,), code=(step.find,), numbers=numbers)
