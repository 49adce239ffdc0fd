"""Hints above a page: a sentence in a language that the model does not read, with a button for a
model that does, and choices lost when the model was changed."""

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from explorer import text
from explorer.engine import cache
from explorer.engine.cache import examples_of
from explorer.exhibits.block import escape
from explorer.exhibits.saying import trained
from explorer.exhibits.view import View, reading_language
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.text import shorten
from explorer.ui import session

_DROPPED = "hints.dropped"


@dataclass(frozen=True, eq=False)
class SentenceHint:
    """What is wrong with the sentence, and a button that fixes it; `label` "" for none."""

    said: str
    label: str = ""
    take: Callable[[], None] = lambda: None

    def show(self) -> None:
        """Draw it in the open row."""
        st.markdown(f":material/lightbulb: {self.said}", width="content")
        if self.label:
            st.button(self.label, key="hints.take", on_click=self.take, width="content")


def hints(view: View) -> None:
    """Show the choices lost when this model was opened, until the user changes anything, and how
    the model was trained."""
    state, left = st.session_state.get(_DROPPED, (None, []))
    if state == session.state() and any(left):
        words = " · ".join(escape(shorten(choice, 60)) for choice in left if choice)
        model = text.model_name(view.loaded.name, lang=view.lang)
        st.info(view.t("hints.dropped", model=model, text=words), icon=":material/info:")
    if words := trained(view):
        st.caption(words)


def hint_for(view: View) -> SentenceHint | None:
    """The hint about the language of the sentence, if the model does not read it."""
    reads = reading_language(view.loaded.name)
    written = text.script(view.text)
    if reads is None or written is None or written == reads:
        return None
    notice = view.t("hints.language", reads=view.t("languages", reads))
    if (better := reader_of(written)) is None:
        return SentenceHint(notice)
    return SentenceHint(
        notice,
        view.t("hints.read_with", model=text.model_name(better, lang=view.lang)),
        lambda: session.change_site(model=better, text=view.text, target=None, step=None),
    )


def can_read(loaded: LoadedModel, sentence: str) -> bool:
    """Whether this model can read a sentence: its language, characters and length."""
    if reading_language(loaded.name) not in (None, text.script(sentence)):
        return False
    return cache.can_take(loaded, sentence) and not loaded.tokenizer.of("src").unknown(sentence)


def change_model(before: str, name: str) -> None:
    """Open another model with the same text, if it can read it, and the same edits.

    Edits that do not apply to it are listed on the page and ignored.
    """
    state = session.state()
    dropped = {}
    if state.text is not None and not _opens_and_reads(name, state.text):
        dropped = {"text": None, "target": None}
    elif state.target is not None and examples_of(before) != examples_of(name):
        dropped = {"target": None}
    session.change_site(model=name, step=None, **dropped)
    st.session_state[_DROPPED] = (session.state(), [getattr(state, field) for field in dropped])


def _opens_and_reads(name: str, sentence: str) -> bool:
    try:
        return can_read(cache.open_model(name), sentence)
    except InputProblem:  # it does not open; the page shows the reason
        return True


def reader_of(language: str) -> str | None:
    """The first shipped model that reads this language; None if there is none."""
    names = text.in_order(cache.models(), lang=language)
    return next((name for name in names if reading_language(name) == language), None)
