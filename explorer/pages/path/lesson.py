"""One step as shown to a learner: text, a live picture, a question, and the explanation."""

from dataclasses import replace

import streamlit as st

from explorer import text
from explorer.analysis.path import Missing
from explorer.components.standalone import Text, record
from explorer.engine import cache
from explorer.exhibits.escape import escape, plain
from explorer.exhibits.view import View, build, default_model, first_sentence
from explorer.pages.path.asked import PosedStep, Question, Step, asked
from explorer.pages.path.choices import PathChoices, StepAnswer
from explorer.ui import controls, session
from explorer.ui.stage import hero

RIGHT, WRONG, OPEN = ":material/check_circle:", ":material/cancel:", ":material/circle:"


def as_it_is(view: View) -> View:
    """The same sentence in the unedited model, without padding or a selection.

    Raises InputProblem.
    """
    state = replace(
        *(view.state,),
        **{"model": view.loaded.name, "text": view.text, "edits": (), "pads": 0},
        **{"site": "cross", "layer": None, "head": None, "row": None, "key": None, "step": None},
    )
    return build(state, view.dark)


def lead(view: View, step: str) -> str:
    """The introduction of a step, with the model's sizes filled in."""
    config = view.loaded.config
    sizes = {"heads": config.n_heads, "d_head": config.d_head, "d_model": config.d_model}
    return view.t(
        f"path.steps.{step}.lead",
        divisor=view.divisor,
        width=config.n_heads * config.d_head,
        **sizes,
    )


def answer_to(view: View, step: Step, question: Question) -> StepAnswer | None:
    """The answer to this question, if valid; a link is untrusted."""
    given = view.choices(PathChoices).answered(step.id)
    if given is None or given.mark != question.mark or given.option >= len(question.options):
        return None
    return replace(given, right=given.option == question.right)


def lesson(view: View, step: Step, number: str) -> PosedStep | None:
    """Draw a step and return it; None if this run does not show it. Raises InputProblem."""
    words = f"path.steps.{step.id}"
    with hero():
        st.subheader(f"{number} · {view.t(f'{words}.title')}", anchor=False)
        found = asked(view, step)
        if isinstance(found, Missing):
            st.markdown(lead(view, step.id))
            _elsewhere(view, step, found)
            return None
        given = answer_to(view, step, found.question)
        left, right = st.columns((3, 2), gap="large")
        with left:
            found.picture(given is not None)
        with right:
            st.markdown(lead(view, step.id))
            _ask(view, step, found, given)
    return found


def _ask(view: View, step: Step, found: PosedStep, given: StepAnswer | None) -> None:
    """The question; after the answer also the right option and the explanation."""
    words, question = f"path.steps.{step.id}", found.question
    said = view.t(f"{words}.ask", **found.values)
    record(Text(plain(said)))
    st.markdown(f"**{said}**")
    if given is None:
        key = f"path.ask.{step.id}.{question.mark}"
        st.session_state[key] = None
        st.radio(
            plain(said),
            range(len(question.options)),
            format_func=question.options.__getitem__,
            key=key,
            label_visibility="collapsed",
            on_change=lambda: _take(step, question, st.session_state[key]),
        )
        before = view.choices(PathChoices).answered(step.id)
        st.caption(view.t("path.waiting" if before is None else "path.asked_before"))
        return
    icons = {given.option: WRONG, question.right: RIGHT}
    lines = [f"{icons.get(at, OPEN)} {each}" for at, each in enumerate(question.options)]
    with st.container(key="path-options"):
        st.markdown("  \n".join(lines))
    _keep(view, given)
    verdict = "path.right" if given.right else "path.wrong"
    icon = RIGHT if given.right else WRONG
    controls.reading("path", f"{icon} {view.t(verdict, answer=question.answer)}")
    told = view.t(f"{words}.{found.told}", **found.values)
    record(Text(plain(told), is_reading=True))
    st.markdown(told)


def _take(step: Step, question: Question, option: int | None) -> None:
    """A widget's callback: the first answer to a question counts."""
    if option is None:
        return
    made = session.state().of(PathChoices)
    answer = StepAnswer(step.id, option, option == question.right, question.mark)
    session.change(answers=made.with_answer(answer))


def _keep(view: View, given: StepAnswer) -> None:
    """Store this answer, and update the link, if the stored one differs."""
    made = view.choices(PathChoices)
    if made.answered(given.step) != given:
        session.change(answers=made.with_answer(given))
        session.write_link()


def _elsewhere(view: View, step: Step, found: Missing) -> None:
    """Explain why this run does not show the lesson, with a button that opens one that does."""
    st.info(view.t(f"path.missing.{found.why}"), icon=":material/lightbulb:")
    model, sentence = where_it_shows(step, view.lang)
    if model not in cache.models() or (model, sentence) == (view.loaded.name, view.text):
        return
    name = text.model_name(model, lang=view.lang)
    if st.button(
        view.t("path.try_there", text=escape(sentence), model=name),
        key=f"path.there.{step.id}",
        icon=":material/arrow_forward:",
    ):
        chosen = {"text": sentence, "target": None, "edits": (), "pads": None}
        session.change_site(model=model, lesson=step.id, **chosen)
        st.rerun(scope="app")  # the sidebar shows the sentence too


def where_it_shows(step: Step, lang: str) -> tuple[str, str]:
    """A model for this language and a sentence that shows the step."""
    model = default_model(cache.models(), lang)
    known = text.telling(step.telling, model) if step.telling else None
    return model, known or first_sentence(model)
