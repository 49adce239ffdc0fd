"""The second test: the user's mask in the trained model, its certificate and its translation."""

import numpy as np
import streamlit as st

from explorer.analysis.certificate.certify import Finding
from explorer.analysis.clinic import Symptom
from explorer.analysis.workshop import planted
from explorer.analysis.workshop.grading import Grade
from explorer.analysis.workshop.tasks import Task
from explorer.engine import jobs
from explorer.engine.cache import Run
from explorer.exhibits.view import View
from explorer.numbers import digits
from explorer.pages.workshop import cached
from explorer.pages.workshop.said import fault_words
from explorer.runs.generation import StepsDone
from explorer.ui import controls, running

_ASKED = "workshop.planted"
"""The last program that this session tried in the model, with its task."""


def judged(view: View, task: Task, code: str, made: Grade) -> None:
    """The model with this mask: at once if it is right, else on request."""
    if not task.planted or made.fault is not None or (made.wrong and made.wrong.shape):
        return
    st.markdown(f"**{view.t('workshop.in_model')}**")
    if not planted.fits(task, view.loaded):
        st.caption(view.t("workshop.no_place"))
        return
    wanted = made.passed or st.session_state.get(_ASKED) == (task.id, code)
    run = Run(view.loaded.name, view.text, view.target)
    if not wanted and not cached.written.is_kept(run, task.id, code):

        def ask() -> None:
            st.session_state[_ASKED] = (task.id, code)

        st.button(
            view.t("workshop.plant"), key="workshop.plant", icon=":material/science:", on_click=ask
        )
        return
    try:
        _shown(view, task, code, run)
    except planted.PlantedError as problem:
        st.warning(fault_words(view, task, problem.args[0]))


def _shown(view: View, task: Task, code: str, run: Run) -> None:
    def work(tell: StepsDone) -> tuple[tuple[Finding, ...], tuple[Finding, ...], Symptom]:
        step = jobs.whole(tell)
        own = cached.examined(run, task.id, code, progress=lambda done, n: step(done, 3 * n))
        right = cached.examined(
            run, task.id, task.reference, progress=lambda done, n: step(n + done, 3 * n)
        )
        told = cached.written(
            run, task.id, code, progress=lambda done, n: step(2 * n + done, 3 * n)
        )
        return own, right, told

    found = running.awaited(
        "workshop.job", (run, task.id, code), work, view.t("workshop.planting"), view.lang
    )
    if found is None:
        return
    own, right, symptom = found
    _certificate(view, own, right)
    _written(view, symptom)


def _certificate(view: View, own: tuple[Finding, ...], right: tuple[Finding, ...]) -> None:
    """Promises broken by the mask but kept by the reference mask."""
    expected = {each.name for each in right if not each.passed}
    broken = [each for each in own if not each.passed]
    surprising = [each for each in broken if each.name not in expected]
    missing = [each for each in own if each.passed and each.name in expected]
    kept = len(own) - len(broken)
    if not surprising and not missing:
        key = "as_expected" if broken else "certified"
        st.markdown(
            f":green[:material/verified:] {view.t(f'workshop.{key}', kept=kept, count=len(own))}"
        )
    else:
        said = view.t("workshop.breaks", count=len(surprising), of=len(own))
        st.markdown(f":red[:material/cancel:] {said}" if surprising else view.t("workshop.unlike"))
    for finding in surprising:
        st.markdown(f"- **{view.t(finding.title_key)}** {view.t(finding.meaning_key)}")
    for finding in broken:
        if finding.name in expected:
            words = view.t("workshop.expected", promise=view.t(finding.title_key))
            st.markdown(f"- :gray[{words}]")


def _written(view: View, found: Symptom) -> None:
    """The model's output with and without the mask."""
    if view.trace.predicts == "next":
        silent = np.isnan(found.logprobs_after).any()
        key = "clinic.writes_nothing" if silent else "clinic.writes_end"
        st.markdown(
            f"{view.t('workshop.writes')} {controls.marked_words(found.words) or view.t(key)}"
        )
    if found.changed:
        before, after = digits(found.loss_before), digits(found.loss_after)
        st.markdown(view.t("clinic.loss", before=before, after=after))
    else:
        st.caption(view.t("workshop.same"))
