"""Lists of all tasks: progress, a link with results, class results, a printable version."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from urllib.parse import parse_qsl, urlencode, urlsplit

import streamlit as st

from explorer import sandbox
from explorer.analysis.workshop.tasks import KINDS, Task, task_of, tasks
from explorer.engine import jobs
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.pages.workshop import cached
from explorer.pages.workshop.choices import (
    MOST_CARRIED,
    WorkshopChoices,
    read_ids,
    read_programs,
    write_programs,
)
from explorer.runs.generation import StepsDone
from explorer.ui import running, session
from explorer.ui.tables import table

MOST_LINKS, MOST_PASTED = 60, 800_000
"""Most links of a class, and most characters of all of them."""


def overview(view: View) -> None:
    """Every task, with solved ones marked, and the link that shares the results."""
    made = view.choices(WorkshopChoices)
    known = {task.id for task in tasks()}
    done = len(known & set(made.solved))
    st.markdown(view.t("workshop.progress", done=done, count=len(known)))
    st.progress(done / max(1, len(known)))
    for kind in KINDS:
        of_kind = [task for task in tasks() if task.kind == kind]
        st.markdown(f"**{view.t(f'workshop.groups.{kind}')}**")
        with st.container(horizontal=True, key=f"workshop-list-{kind}"):
            for task in of_kind:
                st.button(
                    task.name[view.lang],
                    key=f"workshop.open.{task.id}",
                    icon=":material/check_circle:" if task.id in made.solved else None,
                    type="tertiary",
                    on_click=_open,
                    args=(task.id,),
                )
    _results(view)


def _open(task: str) -> None:
    session.change(task=task, part="task")


def _results(view: View) -> None:
    """A link with the user's name and programs, made on request."""
    made = view.choices(WorkshopChoices)
    st.markdown(f"**{view.t('workshop.send')}**")
    st.session_state["workshop.solver"] = made.solver
    st.text_input(
        view.t("workshop.name"),
        key="workshop.solver",
        max_chars=40,
        on_change=lambda: session.change(solver=st.session_state["workshop.solver"]),
    )
    drafts: dict[str, str] = dict(made.programs) | st.session_state.get("workshop.drafts", {})
    sent = {name: drafts[name] for name in made.solved if name in drafts}
    packed = write_programs(tuple(sent.items()))
    if len(packed) > MOST_CARRIED:
        st.warning(view.t("workshop.too_much"))
        return
    chosen = {"lang": view.lang, "part": "overview", "solver": made.solver}
    chosen |= {"solved": "~".join(made.solved), "programs": packed}
    address = urlencode({name: value for name, value in chosen.items() if value})
    st.caption(view.t("workshop.sent", count=len(sent)))
    st.code(f"{st.context.url or ''}?{address}", language=None, wrap_lines=True)


def sheets(view: View) -> None:
    """Class results from pasted links: programs are run again here, and nothing is stored."""
    st.markdown(view.t("workshop.class_lead"))
    pasted = st.text_area(
        view.t("workshop.paste"), key="workshop.pasted", height=160, max_chars=MOST_PASTED
    )
    links = [line.strip() for line in pasted.splitlines() if line.strip()][:MOST_LINKS]
    if not links:
        return
    found = [_learner(link) for link in links]
    if unread := found.count(None):
        st.warning(view.t("workshop.unread", count=unread))
    learners = [each for each in found if each is not None]

    def work(tell: StepsDone) -> list[list[str]]:
        step = jobs.whole(tell)
        return [_proved(each, partial(step, at, len(learners))) for at, each in enumerate(learners)]

    proved = running.awaited(
        "workshop.sheet", pasted, work, view.t("workshop.rerunning"), view.lang
    )
    if proved is None:
        return
    rows = []
    for learner, solved in zip(learners, proved, strict=True):
        rest = [each for each in learner.claimed if each not in solved]
        rows.append((escape(learner.name) or "–", _names(view, solved), _names(view, rest)))
    head = (view.t("workshop.name"), view.t("workshop.proved"), view.t("workshop.claimed"))
    table(head, rows, "lll")


@dataclass(frozen=True)
class Learner:
    """The contents of a results link: the tasks `claimed` as solved, and programs by task."""

    name: str
    claimed: tuple[str, ...]
    programs: tuple[tuple[str, str], ...]


def _proved(learner: Learner, step: Callable[[], None]) -> list[str]:
    """The tasks solved by a learner's programs, when run here."""
    found = []
    for task, code in learner.programs:
        step()
        if sandbox.available() and cached.graded(task, code).passed:
            found.append(task)
    return found


def _learner(link: str) -> Learner | None:
    """Parse a results link; None for any other text."""
    try:
        said = dict(parse_qsl(urlsplit(link).query)) if len(link) < 4 * MOST_CARRIED else {}
        claimed, programs = read_ids(said["solved"]), read_programs(said.get("programs", ""))
    except (KeyError, ValueError):
        return None
    name = " ".join(said.get("solver", "").split())[:40]
    known = {task.id for task in tasks()}
    own = tuple(each for each in programs if each[0] in known)
    return Learner(name, tuple(each for each in claimed if each in known), own)


def _names(view: View, ids: list[str]) -> str:
    found = [task_of(name) for name in ids]
    names = ", ".join(task.name[view.lang] for task in found if task is not None)
    return f"**{len(ids)}** {names}" if ids else "0"


def paper(view: View) -> None:
    """A printable version of all tasks: description, formula, and space to write."""
    st.caption(view.t("workshop.paper_lead"))
    for kind in KINDS:
        st.subheader(view.t(f"workshop.groups.{kind}"), anchor=False)
        for number, task in enumerate((t for t in tasks() if t.kind == kind), 1):
            _on_paper(view, number, task)


def _on_paper(view: View, number: int, task: Task) -> None:
    with st.container(key=f"workshop-paper-{task.id}"):
        asked = f"{task.text[view.lang]} {task.note[view.lang]}"
        st.markdown(f"**{number}. {task.name[view.lang]}** {asked}")
        st.markdown(f"$${view.formula(task.formula)}$$")
        st.code(task.signature if not task.clinic else task.starter, language="python")
