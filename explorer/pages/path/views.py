"""Views other than steps: contents, results, a teacher's sheet, class results."""

from collections.abc import Sequence
from urllib.parse import parse_qs, urlencode, urlsplit

import streamlit as st

from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.pages.path.choices import PathChoices, StepAnswer, read_answers
from explorer.pages.path.course import CHAPTERS, STEPS, chapter_of, number_of
from explorer.pages.path.lesson import OPEN, RIGHT, WRONG
from explorer.ui import session
from explorer.ui.tables import table

MOST_LINKS = 100
MOST_PASTED = 200_000
"""Most characters of pasted text: enough for a hundred long links."""


def steps_of(view: View) -> tuple[str, ...]:
    """The active steps: the existing steps of the sheet, else all."""
    picked = tuple(name for name in view.choices(PathChoices).sheet if name in STEPS)
    return picked or tuple(STEPS)


def title_of(view: View, step: str) -> str:
    """A step with its number."""
    return f"{number_of(step)} · {view.t(f'path.steps.{step}.title')}"


def open_step(step: str) -> None:
    """A widget's callback: go to a step."""
    session.change(lesson=step, part="steps")


def _known(view: View) -> dict[str, StepAnswer]:
    return {each.step: each for each in view.choices(PathChoices).answers if each.step in STEPS}


def _line(view: View, step: str, key: str) -> None:
    """A button for a step, with its result."""
    given = _known(view).get(step)
    icon = OPEN if given is None else RIGHT if given.right else WRONG
    st.button(
        title_of(view, step),
        key=f"path.{key}.{step}",
        icon=icon,
        type="tertiary",
        on_click=open_step,
        args=(step,),
    )


def contents(view: View) -> None:
    """All steps by chapter; the steps of a sheet in its order."""
    named = steps_of(view)
    if view.choices(PathChoices).sheet:
        with st.container(gap=None):
            for step in named:
                _line(view, step, "contents")
        st.button(
            view.t("path.whole"),
            key="path.whole",
            on_click=lambda: session.change(sheet=(), sheet_title="", lesson=""),
        )
        return
    with st.container(horizontal=True, gap="medium"):
        for name, steps in CHAPTERS.items():
            with st.container(width=330):
                st.markdown(f"**{view.t(f'path.groups.{name}')}**")
                with st.container(gap=None):
                    for each in steps:
                        _line(view, each.id, "contents")


def results(view: View) -> None:
    """The number of right answers by chapter, and the steps to repeat."""
    named, known = steps_of(view), _known(view)
    given = [known[step] for step in named if step in known]
    right = sum(each.right for each in given)
    words = {"right": right, "count": len(given), "all": len(named)}
    st.subheader(view.t("path.score_of", **words), anchor=False)
    rows = []
    for name in CHAPTERS:
        inside = [step for step in named if chapter_of(step) == name]
        answered = [known[step] for step in inside if step in known]
        if inside:
            counts = (sum(each.right for each in answered), len(answered), len(inside))
            rows.append([view.t(f"path.groups.{name}"), *map(str, counts)])
    table([view.t(f"path.{name}") for name in ("chapter", "n_right", "n_given", "n_steps")], rows)
    wrong = [step for step in named if step in known and not known[step].right]
    if wrong:
        st.markdown(f"**{view.t('path.again')}**")
        with st.container(gap=None):
            for step in wrong:
                _line(view, step, "again")
    elif given:
        st.markdown(view.t("path.nothing_again"))
    left = [step for step in named if step not in known]
    if left:
        st.button(
            view.t("path.go_on", step=title_of(view, left[0])),
            key="path.go_on",
            icon=":material/arrow_forward:",
            on_click=open_step,
            args=(left[0],),
        )
    _send(view)
    if given:
        st.button(
            view.t("path.start_over"),
            key="path.start_over",
            icon=":material/restart_alt:",
            on_click=lambda: session.change(answers=(), lesson=""),
        )


def _send(view: View) -> None:
    """A name field, and the link with the answers."""
    st.markdown(f"**{view.t('path.send')}**")
    st.markdown(view.t("path.send_note"))
    st.session_state["path.learner"] = view.choices(PathChoices).learner
    st.text_input(
        view.t("path.learner"),
        key="path.learner",
        max_chars=40,
        width=320,
        on_change=lambda: session.change(learner=_typed("path.learner")),
    )
    st.code(_link(view, lesson="", part="results"), language=None, wrap_lines=True)


def _typed(key: str) -> str:
    return " ".join(str(st.session_state[key]).split())


def _link(view: View, **chosen: object) -> str:
    """A link to this sentence with the unedited model and further choices."""
    here = {"model": view.loaded.name, "text": view.text, "edits": (), "pads": None}
    state = session.links().change(session.state(), **here, **chosen)
    return f"{st.context.url or ''}?{urlencode(session.links().write(state))}"


def sheet(view: View) -> None:
    """Controls for a teacher to pick steps in any order and a title; shows the link."""
    made = view.choices(PathChoices)
    st.markdown(view.t("path.sheet_lead"))
    st.session_state["path.sheet"] = [step for step in made.sheet if step in STEPS]
    st.multiselect(
        view.t("path.sheet_steps"),
        tuple(STEPS),
        format_func=lambda step: title_of(view, step),
        key="path.sheet",
        placeholder=view.t("path.sheet_all"),
        on_change=lambda: session.change(sheet=tuple(st.session_state["path.sheet"]), lesson=""),
    )
    st.session_state["path.sheet_title"] = made.sheet_title
    st.text_input(
        view.t("path.sheet_title"),
        key="path.sheet_title",
        max_chars=100,
        on_change=lambda: session.change(sheet_title=_typed("path.sheet_title")),
    )
    st.caption(view.t("path.sheet_link"))
    fresh = {"answers": (), "learner": "", "lesson": "", "part": ""}
    st.code(_link(view, **fresh), language=None, wrap_lines=True)
    st.caption(view.t("path.sheet_note"))


def class_sheet(view: View) -> None:
    """Learners' links as a table; nothing is stored."""
    st.markdown(view.t("path.class_lead"))
    pasted = st.text_area(
        view.t("path.class_links"), key="path.class", height=180, max_chars=MOST_PASTED
    )
    lines = [line.strip() for line in pasted[:MOST_PASTED].splitlines() if line.strip()]
    if not lines:
        return
    found = [read_results(line) for line in lines[:MOST_LINKS]]
    good = [each for each in found if each is not None]
    if len(lines) > MOST_LINKS:
        st.warning(view.t("path.class_many", most=MOST_LINKS, count=len(lines)))
    bad = [str(at + 1) for at, each in enumerate(found) if each is None]
    if bad:
        st.warning(view.t("path.class_bad", count=len(bad), lines=", ".join(bad[:20])))
    if good:
        _table_of(view, good)


def read_results(link: str) -> tuple[str, dict[str, bool]] | None:
    """The name and the results by step of a learner's link; None if it has none."""
    try:
        params = parse_qs(urlsplit(link).query)
        answers = read_answers(params["answers"][0])
    except (KeyError, ValueError):  # RefusedError is one
        return None
    learner = " ".join(params.get("learner", [""])[0].split())[:40]
    outcomes = {each.step: each.right for each in answers if each.step in STEPS}
    return (learner, outcomes) if outcomes else None


def _table_of(view: View, found: Sequence[tuple[str, dict[str, bool]]]) -> None:
    named = [step for step in steps_of(view) if any(step in each for _, each in found)]
    marks = {True: "✓", False: "✗", None: "–"}
    rows = []
    for name, outcomes in found:
        cells = [marks[outcomes.get(step)] for step in named]
        right = sum(bool(outcomes.get(step)) for step in named)
        shown = escape(name) if name else view.t("path.nobody")
        rows.append([shown, f"{right} / {len(named)}", *cells])
    share = [sum(bool(each.get(step)) for _, each in found) for step in named]
    rows.append([view.t("path.class_right"), "", *(f"{right} / {len(found)}" for right in share)])
    head = [view.t("path.learner"), view.t("path.n_right"), *(number_of(step) for step in named)]
    table(head, rows)
    st.caption(" · ".join(title_of(view, step) for step in named))
    st.caption(view.t("path.class_note"))
