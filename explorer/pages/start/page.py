"""Start: an animation of the whole model on the user's sentence."""

import streamlit as st

from explorer import text
from explorer.analysis.start.flow import Flow, flow
from explorer.exhibits.shared import ScreenChoices
from explorer.exhibits.view import View
from explorer.numbers import percent
from explorer.pages.decoding import cached as decoding
from explorer.pages.path.back import new_here
from explorer.pages.start import cached
from explorer.pages.start.choices import SHUT
from explorer.pages.start.picture import plain_run, show, take_moves
from explorer.pages.start.rooted import is_of_heads
from explorer.problems import InputProblem
from explorer.runs.edits import Edit
from explorer.runs.generation import Generation, generate
from explorer.ui import controls, running, session
from explorer.ui.current import latest
from explorer.ui.hints import change_model
from explorer.ui.page import fragment
from explorer.ui.problem import message
from explorer.ui.share import shared
from explorer.ui.sidebar import new_text, pick_language, shown_text
from explorer.ui.source import pick_source
from explorer.ui.uploads import models
from models.strategies import Greedy, Strategy

MOST_NEW = {"next": 24, "same": 64, "src": 64}
"""Most generated tokens: of a continuation, of masks, of a translation."""


def render(view: View) -> None:
    """Draw the page."""
    _picture(view)


@fragment
def _picture(view: View) -> None:
    state = session.state()
    if (state.lang, state.model) != (view.state.lang, view.state.model):
        st.rerun(scope="app")  # the menu and the sidebar show them too
    with st.container():  # of messages, as in `shell.show`
        view = latest(view)
        if take_moves(view):
            view = latest(view)
        elif is_of_heads(view.state):
            session.change(door=SHUT)
            view = latest(view)
    _line(view)
    pick_source(view, "start")
    with shared(view, "start"):
        _drawn(view)


def _line(view: View) -> None:
    """Controls for the sentence, read while typing, and for the model."""
    with st.container(horizontal=True, vertical_alignment="center", key="start-line"):
        # Write only a changed value: any write overwrites letters just typed.
        if st.session_state.get("start.text") != shown_text():
            st.session_state["start.text"] = shown_text()
        st.text_input(
            view.t("sidebar.sentence"),
            key="start.text",
            live=True,
            label_visibility="collapsed",
            on_change=lambda: new_text(st.session_state["start.text"]),
        )
        names = text.in_order(models(), lang=view.lang)
        current = view.loaded.name.split("@")[0]
        st.session_state["start.model"] = current if current in names else None
        with st.container(width=270):
            st.selectbox(
                view.t("sidebar.model"),
                names,
                format_func=lambda name: text.model_name(name, lang=view.lang),
                key="start.model",
                label_visibility="collapsed",
                on_change=lambda: change_model(current, st.session_state["start.model"]),
            )
        with st.container(width="content"):
            pick_language("start.lang")


def _drawn(view: View) -> None:
    made = before = None
    try:
        made = _written(view, "start.written")
        before = _written(view, "start.before", edited=False) if view.edits else None
    except InputProblem as problem:
        if problem.key not in ("no_logits", "nothing_to_fill"):
            st.caption(message(problem, view.lang))
    except _WaitingError:
        return
    found = show(view, made, before)
    for said in controls.labels_said(view):
        st.markdown(said)
    if not view.choices(ScreenChoices).beamer:
        st.caption(f"{view.t('start.lead')} {view.t('start.try')}")
        new_here()
    controls.small_print(
        view,
        "start",
        formula=(
            r"x_i = E_{t_i} + P_i",
            r"x \leftarrow x + \mathrm{softmax}\!\left(" + view.scaled(r"QK^\top") + r"\right)V",
            r"p = \mathrm{softmax}(W x_i)",
        ),
        code=(view.loaded.model.read, flow, *([generate] if made is not None else [])),
        numbers=lambda: _numbers(view, found),
    )


class _WaitingError(Exception):
    """The text is still being generated; a progress bar is shown."""


def _asked(
    view: View, edits: tuple[Edit, ...]
) -> tuple[str, str, Strategy, tuple[Edit, ...], int, tuple[int, ...]]:
    """The arguments of the decoding: model, text, strategy, edits, and token limit."""
    model = view.loaded.model
    limit = MOST_NEW["src" if "src" in model.reads else model.predicts or "same"]
    return view.loaded.name, view.text, Greedy(), edits, limit, ()


def get_ready(view: View) -> None:
    """Precompute the results of a first visit. Raises InputProblem."""
    made = decoding.generate(*_asked(view, ()))
    cached.flow(plain_run(view), made, ())


def _written(view: View, name: str, *, edited: bool = True) -> Generation:
    """The model's greedy output. Raises InputProblem, `_WaitingError`."""
    key = _asked(view, view.edits if edited else ())
    job = running.job(name, key, lambda tell: decoding.generate(*key, progress=tell))
    words = view.t("decoding.working"), view.t("decoding.stop")
    if not running.finished(job, name, *words, view.lang):
        raise _WaitingError
    return job.result()


def _numbers(view: View, found: Flow) -> dict[str, list[object]]:
    """Each step's query position, and its most probable tokens with their probabilities."""
    tokens = found.lanes[-1].tokens
    return {
        view.t("place.query"): [f"{step.token} {tokens[step.token]}" for step in found.steps],
        view.t("decoding.token"): [
            " ".join(f"{token} {percent(chance)}" for token, chance in pairs)
            for pairs in (zip(step.tokens, step.chances, strict=True) for step in found.steps)
        ],
    }
