"""What to know before reading a page, each with one click to go on: a sentence in a language that
the model does not read, or in capitals, and what a change of model could not keep.
"""

import re
from collections.abc import Callable

import streamlit as st

from explorer import text
from explorer.engine import cache
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View, examples_of, first_sentence
from explorer.library import LoadedModel, split_step
from explorer.problems import InputProblem
from explorer.runs.edits import about_masks
from explorer.runs.inputs import given_tokens
from explorer.text import shorten
from explorer.ui import session

_DROPPED = "hints.dropped"


def hints(view: View) -> None:
    """Everything of this kind that there is to say about the view."""
    _dropped(view)
    trained(view)
    reads = reading_language(view.loaded.name)
    written = text.script(view.text)
    if reads is None or written is None:
        return
    if written != reads:
        _other_language(view, reads, written)
    elif is_shouted(view.text):
        quiet = lowered(view.text)
        _offer(
            view.t("hints.capitals"),
            view.t("hints.lowered", text=escape(shorten(quiet, 60))),
            lambda: session.change(text=quiet, target=None, row=None, step=None),
        )


def reading_language(model: str) -> str | None:
    """The language that a shipped model reads, as its first example shows.

    None for one that reads single letters, and for a visitor's own, of which nothing is known.
    """
    base, _ = split_step(model)
    example = first_sentence(base)
    if not text.has(f"models.{base}", lang=text.LANGUAGES[0]) or max(map(len, example.split())) < 2:
        return None
    return text.script(example)


def can_read(loaded: LoadedModel, sentence: str) -> bool:
    """Whether this model can make something of a sentence: its language, characters and length."""
    if reading_language(loaded.name) not in (None, text.script(sentence)):
        return False
    try:
        given_tokens(loaded, sentence)
    except InputProblem:
        return False
    return not loaded.tokenizer.unknown(sentence)


def is_shouted(sentence: str) -> bool:
    """Whether all its words, at least two, are in capitals; a mask such as [MASK] is no word."""
    words = re.sub(r"\[[A-Z]+\]|<[A-Z]+>", " ", sentence)
    return words.isupper() and len(words.split()) > 1


def lowered(sentence: str) -> str:
    """A sentence in capitals as it is usually written: "I LOVE YOU." is "I love you."."""
    parts = re.split(r"(\[[A-Z]+\]|<[A-Z]+>)", sentence)
    lower = "".join(part if at % 2 else part.lower() for at, part in enumerate(parts))
    lower = re.sub(r"\bi\b", "I", lower)
    return re.sub(r"[^\W\d_]", lambda first: first[0].upper(), lower, count=1)


def change_model(before: str, name: str) -> None:
    """Open another model with the same words, where it can read them, and the same edits.

    Edits that do not fit it are named by the page and take no part.
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
    except InputProblem:  # it does not open; the page says why
        return True


def _dropped(view: View) -> None:
    """What the change to this model left behind, until the visitor changes anything."""
    state, left = st.session_state.get(_DROPPED, (None, []))
    words = " · ".join(escape(shorten(each, 60)) for each in left if each)
    if words and state == session.state():
        model = text.model_name(view.loaded.name, lang=view.lang)
        st.info(view.t("hints.dropped", model=model, text=words), icon=":material/info:")


def trained(view: View) -> None:
    """A twin that was trained under wrong masks, and under which masks it runs here."""
    model, _ = split_step(view.loaded.name)
    if not text.has(f"trained.{model}", lang=view.lang):
        return
    changed = any(about_masks(edit) for edit in view.trace.edits)
    here = view.t("trained.changed" if changed else "trained.right")
    st.caption(f"{view.t(f'trained.{model}')} {here}")


def _other_language(view: View, reads: str, written: str) -> None:
    names = text.in_order(cache.models(), lang=written)
    better = next((name for name in names if reading_language(name) == written), None)
    known = view.words("languages")
    said = view.t("hints.language", reads=known[reads], written=known[written])
    if better is None:
        st.info(said, icon=":material/translate:")
        return
    _offer(
        said,
        view.t("hints.read_with", model=text.model_name(better, lang=view.lang)),
        lambda: session.change_site(model=better, text=view.text, target=None, step=None),
    )


def _offer(said: str, label: str, take: Callable[[], None]) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="hint"):
        st.markdown(f":material/lightbulb: {said}")
        st.button(label, key="hints.take", on_click=take)
