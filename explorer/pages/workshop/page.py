"""Workshop: tasks solved in code, judged by exact values and by the trained model."""

import streamlit as st

from explorer import sandbox
from explorer.analysis.workshop.grading import Grade, grade
from explorer.analysis.workshop.tasks import KINDS, Task, task_of, tasks
from explorer.exhibits.view import View
from explorer.pages.workshop import cached
from explorer.pages.workshop.choices import WorkshopChoices
from explorer.pages.workshop.judged import judged
from explorer.pages.workshop.lists import overview, paper, sheets
from explorer.pages.workshop.pictures import pictures
from explorer.pages.workshop.said import reading_of
from explorer.ui import controls, session
from explorer.ui.current import latest
from explorer.ui.page import fragment
from explorer.ui.parts import pick_group, pick_part
from explorer.ui.problem import show_refused
from explorer.ui.share import shared, show_link
from explorer.ui.stage import hero, stage

_DRAFTS = "workshop.drafts"
"""Session key for typed programs, by task: widgets lose their value on a change of page."""


def render(view: View) -> None:
    """Draw the page."""
    controls.opening(view, "workshop")
    if not sandbox.available():
        st.info(view.t("workshop.absent"), icon=":material/extension_off:")
    _workshop(view)


@fragment
def _workshop(view: View) -> None:
    view = latest(view)
    with shared(view, "workshop", lambda: _share_code(view)), stage():
        part = pick_part(view, "workshop", WorkshopChoices.parts)
        if part == "task":
            _task(view)
        else:
            {"overview": overview, "sheets": sheets, "paper": paper}[part](view)


def _task(view: View) -> None:
    """One task: its description, the editor, and the program's result."""
    task = _choose(view)
    written, drawn = st.columns((5, 7), gap="large")
    with written:
        _asked(view, task)
        code = _editor(view, task)
        _help(view, task)
    made = cached.graded(task.id, code) if sandbox.available() else None
    solved = view.choices(WorkshopChoices).solved
    if made is not None and made.passed and task.id not in solved:
        session.change(solved=(*solved, task.id))
        session.write_link()
    with drawn, hero(), st.container():
        if made is not None:
            controls.reading("workshop", reading_of(view, task, made))
        pictures(view, task, made)
        if made is not None and made.printed:
            st.caption(view.t("workshop.printed"))
            st.code(made.printed, language=None, wrap_lines=True)
    if made is not None:
        judged(view, task, code, made)
    controls.small_print(
        view,
        "workshop",
        formula=(task.formula,),
        code=(task_of,) if made is None else (grade, sandbox.run),
        numbers=lambda: _numbers(view, task, made),
    )


def _choose(view: View) -> Task:
    """Controls for the kind and the task; an unknown task in a link is reported and ignored."""
    named = view.choices(WorkshopChoices).task
    task = _open_task(view)
    if named not in ("", task.id):
        show_refused("task", named, view.lang)
    solved = view.choices(WorkshopChoices).solved
    pick_group(
        view,
        "workshop",
        view.t("workshop.kind"),
        KINDS,
        task.kind,
        lambda kind: session.change(task=next(each.id for each in tasks() if each.kind == kind)),
    )
    of_kind = {each.id: each for each in tasks() if each.kind == task.kind}
    st.session_state["workshop.task"] = task.id
    st.selectbox(
        view.t("workshop.task"),
        list(of_kind),
        format_func=lambda name: of_kind[name].name[view.lang] + ("  ✓" if name in solved else ""),
        key="workshop.task",
        label_visibility="collapsed",
        on_change=lambda: session.change(task=st.session_state["workshop.task"]),
    )
    return task


def _asked(view: View, task: Task) -> None:
    """The task description and its formula."""
    st.markdown(f"**{task.text[view.lang]}**")
    if task.clinic:
        label = view.t("workshop.pitfall", title=view.t(f"clinic.{task.clinic}.title"))
        if st.button(label, key="workshop.clinic", type="tertiary", icon=":material/stethoscope:"):
            session.change(case=task.clinic)
            session.visit("clinic")
    st.markdown(f"$${view.formula(task.formula)}$$")
    if task.note[view.lang]:
        st.markdown(task.note[view.lang])


def _editor(view: View, task: Task) -> str:
    """The user's program; initially the link's, else the starter code."""
    drafts: dict[str, str] = st.session_state.setdefault(_DRAFTS, {})
    brought = dict(view.choices(WorkshopChoices).programs)
    code = drafts.get(task.id, brought.get(task.id, task.starter))
    key = f"workshop.code.{task.id}"
    st.session_state[key] = code

    def keep() -> None:
        drafts[task.id] = st.session_state[key]

    def restart() -> None:
        drafts[task.id] = task.starter

    with st.container(key="workshop-editor"):
        st.text_area(
            view.t("workshop.editor", signature=task.signature.removeprefix("def ").rstrip(":")),
            key=key,
            height=max(120, 28 * (code.count("\n") + 3)),
            max_chars=sandbox.MOST_CHARACTERS,
            on_change=keep,
            disabled=not sandbox.available(),
        )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            view.t("workshop.run"),
            key="workshop.run",
            type="primary",
            icon=":material/play_arrow:",
            disabled=not sandbox.available(),
        )
        if code != task.starter:
            st.button(
                view.t("workshop.restart"),
                key="workshop.restart",
                type="tertiary",
                on_click=restart,
            )
    return code.replace("\r\n", "\n")


def _share_code(view: View) -> None:
    """A link with the open task's program, for sharing."""
    task = _open_task(view)
    code = st.session_state.get(_DRAFTS, {}).get(task.id)
    if code is None:
        return
    chosen = session.links().change(
        view.state, task=task.id, part="task", programs=((task.id, code),)
    )
    st.caption(view.t("workshop.share_code"))
    show_link(chosen, "workshop.qr")


def _open_task(view: View) -> Task:
    """The open task; the first if the link names no existing task."""
    return task_of(view.choices(WorkshopChoices).task) or tasks()[0]


def _help(view: View, task: Task) -> None:
    """Three hints, one after another, and the solution, each on request."""
    key = f"workshop.hints.{task.id}"
    shown: int = st.session_state.get(key, 0)
    for number, hint in enumerate(task.hints[view.lang][:shown], 1):
        st.markdown(f":material/lightbulb: **{view.t('workshop.hint', n=number)}** {hint}")
    if shown > 3:
        st.markdown(f"**{view.t('workshop.solution')}** {task.solution[view.lang]}")
        st.code(task.reference, language="python", wrap_lines=True)
        return

    def more() -> None:
        st.session_state[key] = shown + 1

    label = view.t("workshop.hint_ask", n=shown + 1) if shown < 3 else view.t("workshop.give_up")
    st.button(label, key="workshop.more_help", icon=":material/lightbulb:", on_click=more)


def _numbers(view: View, task: Task, made: Grade | None) -> dict[str, list[object]]:
    """Every case with its expected value, and the number of right values."""
    if task.is_check:
        values = made.values[0] if made is not None and made.values else [None] * len(task.suspects)
        return {
            view.t("workshop.suspect"): [each.words[view.lang] for each in task.suspects],
            view.t("workshop.wanted"): [str(each.right) for each in task.suspects],
            view.t("workshop.found"): [str(value) for value in values],
        }
    wanted = (task.wanted,) if made is None else made.wanted
    found = made.values if made is not None and made.values else ((None,),) * len(wanted)
    return {
        view.t("workshop.case"): list(range(1, len(wanted) + 1)),
        view.t("workshop.wanted"): [str(list(row))[:200] for row in wanted],
        view.t("workshop.found"): [str(list(row))[:200] for row in found],
    }
