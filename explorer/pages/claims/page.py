"""Claims: common statements about Transformers; guess first, then the experiment runs."""

import inspect
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import streamlit as st

from explorer.analysis.claims import CLAIMS, GROUPS, VERDICTS, Claim, Finding, Verdict
from explorer.components.standalone import Text, record
from explorer.engine import jobs
from explorer.engine.cache import Run
from explorer.exhibits.escape import plain
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.figures.measured import measured
from explorer.pages.claims.choices import ClaimsChoices
from explorer.pages.claims.formulas import FORMULAS
from explorer.problems import InputProblem
from explorer.runs.generation import StepsDone
from explorer.ui import controls, running, session
from explorer.ui.findings import finding_label, finding_of, finding_table, finding_words, in_a_row
from explorer.ui.page import draw_page
from explorer.ui.parts import pick_group
from explorer.ui.problem import show_problem, show_refused
from explorer.ui.stage import hero

BY_ID = {claim.id: claim for claim in CLAIMS}


def render(view: View) -> None:
    """Draw the page."""
    draw_page(view, "claims", _drawn, count=len(CLAIMS))


def _drawn(view: View) -> None:
    """Draw the page below its introduction."""
    claim = _choose(view)
    with hero():
        st.subheader(view.t(f"claims.{claim.id}.claim"), anchor=False)
        guess = _guess(view)
        finding = None if guess is None else _run(view, claim)
        if guess is not None and finding is not None:
            _verdict(view, claim, guess, finding)
            _picture(view, finding)
            finding_table(view, finding)
    with st.container(horizontal=True):
        if finding is not None:
            st.button(
                view.t("claims.again"), key="claims.again", on_click=_forget, args=(view, claim)
            )
        following = CLAIMS[(CLAIMS.index(claim) + 1) % len(CLAIMS)]
        st.button(
            view.t("claims.next"),
            key="claims.next",
            icon=":material/arrow_forward:",
            on_click=lambda: session.change(claim=following.id, guess=""),
        )
    controls.small_print(
        view,
        "claims",
        formula=(FORMULAS[claim.id],),
        code=(claim.test, *_filled_in(claim.test)),
        numbers=lambda: _numbers(view, finding),
    )


def _filled_in(test: Callable[..., Finding]) -> list[object]:
    """The default arguments of an experiment that tests may replace: how a small model is trained,
    how time is measured, what entries are sampled from.
    """
    defaults = [parameter.default for parameter in inspect.signature(test).parameters.values()]
    return [
        each
        for each in defaults
        if inspect.isfunction(each) and each.__module__.startswith(("explorer.", "models."))
    ]


def _choose(view: View) -> Claim:
    """Controls for the group and the claim; an unknown claim in a link is reported and ignored."""
    claim = BY_ID.get(view.choices(ClaimsChoices).claim, CLAIMS[0])
    if view.choices(ClaimsChoices).claim not in ("", *BY_ID):
        show_refused("claim", view.choices(ClaimsChoices).claim, view.lang)
    pick_group(
        view,
        "claims",
        view.t("claims.group"),
        GROUPS,
        claim.group,
        lambda group: session.change(claim=_of(group)[0].id, guess=""),
    )
    group = _of(claim.group)
    controls.pick(
        view.t("claims.claim"),
        range(len(group)),
        group.index(claim),
        "claims.claim",
        lambda index: session.change(claim=group[index].id, guess=""),
        format_func=lambda index: view.t(f"claims.{group[index].id}.claim"),
        label_visibility="collapsed",
    )
    return claim


def _of(group: str) -> list[Claim]:
    return [claim for claim in CLAIMS if claim.group == group]


def _guess(view: View) -> Verdict | None:
    """The user's guess, None if there is none yet."""
    given = view.choices(ClaimsChoices).guess
    guess: Verdict | None = next((each for each in VERDICTS if each == given), None)
    st.session_state["claims.guess"] = guess
    st.segmented_control(
        view.t("claims.guess"),
        VERDICTS,
        format_func=lambda verdict: view.t(f"claims.verdicts.{verdict}"),
        key="claims.guess",
        on_change=lambda: session.change(guess=st.session_state["claims.guess"] or ""),
    )
    if guess is None:
        st.caption(view.t("claims.waiting"))
    return guess


def _unedited(view: View) -> Run:
    """The run without edits: a claim is about the model as trained."""
    return replace(view.run, edits=())


def _run(view: View, claim: Claim) -> Finding | None:
    """The experiment; None while it runs, after a stop, or if it does not apply to the model."""
    run, words = _unedited(view), view.t("claims.working")
    try:
        if not claim.slow:
            with st.spinner(words):
                return finding_of(run, claim.id)

        def work(tell: StepsDone) -> Finding:
            step = jobs.whole(tell)
            return finding_of(
                run, claim.id, progress=lambda done: step(round(100 * min(done, 1.0)), 100)
            )

        return running.awaited("claims.job", (run, claim.id), work, words, view.lang)
    except InputProblem as problem:
        show_problem(problem, view.lang)
        return None


def _forget(view: View, claim: Claim) -> None:
    finding_of.forget(_unedited(view), claim.id)
    st.session_state.pop("claims.job", None)


def _verdict(view: View, claim: Claim, guess: Verdict, finding: Finding) -> None:
    made = view.choices(ClaimsChoices)
    guessed = made.after(CLAIMS.index(claim), guess == finding.verdict)
    if guessed != made.guessed:
        session.change(guessed=guessed)
        session.write_link()
    outcomes = [each for each in guessed if each is not None]
    verdict = view.t(f"claims.verdicts.{finding.verdict}")
    if guess == finding.verdict:
        words = ":material/check_circle: " + view.t("claims.right", verdict=verdict)
    else:
        said = view.t(f"claims.verdicts.{guess}")
        words = ":material/cancel: " + view.t("claims.wrong", guess=said, verdict=verdict)
    controls.reading("claims", words)
    found = finding_words(view, claim.id, finding)
    record(Text(plain(f"{view.t(f'claims.{claim.id}.claim')} {found}"), is_reading=True))
    st.markdown(found)
    score = view.t("claims.score", right=sum(outcomes), count=len(outcomes))
    st.caption(in_a_row((view.t("claims.own" if claim.own else "claims.fixed"), score)))


def _picture(view: View, finding: Finding) -> None:
    """The figure of an experiment: its curve, or one of its columns as bars; none for plain
    numbers."""
    if finding.curve is not None:
        curve = finding.curve
        rows = {row.name: finding_label(view, row) for row in finding.rows}
        figure = lines(
            curve.x,
            curve.ys,
            [rows.get(name) or view.t(f"claims.columns.{name}") for name in curve.names],
            x_title=view.t(f"claims.columns.{curve.x_name}"),
            y_title=view.t(f"claims.columns.{curve.y_name}"),
            log_y=curve.log_y,
            dark=view.dark,
        )
    elif finding.bars:
        at = finding.columns.index(finding.bars)
        figure = measured(
            [finding_label(view, row) for row in finding.rows],
            np.array([row.values[at] for row in finding.rows], float),
            title=view.t(f"claims.columns.{finding.bars}"),
            dark=view.dark,
        )
    else:
        return
    controls.chart(figure, "claims.picture", alt=view.t("claims.alt"))


def _numbers(view: View, finding: Finding | None) -> dict[str, list[object]]:
    if finding is None:
        return {view.t("claims.claim"): [view.t(f"claims.{claim.id}.claim") for claim in CLAIMS]}
    columns: dict[str, list[object]] = {
        view.t("claims.row"): [finding_label(view, row) for row in finding.rows]
    }
    for at, name in enumerate(finding.columns):
        columns[view.t(f"claims.columns.{name}")] = [float(row.values[at]) for row in finding.rows]
    return columns
