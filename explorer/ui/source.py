"""The input above a page's picture: the text and the model, or the encoder's picture."""

import os
from functools import partial

import streamlit as st

from explorer.components.picture import picture, sent_drawing, sent_hidden
from explorer.engine.turns import waiting
from explorer.exhibits.view import View
from explorer.library import split_step
from explorer.problems import InputProblem
from explorer.runs.edits import KeyHidden
from explorer.ui import session
from explorer.ui.session import show_problem
from explorer.ui.sidebar import new_text, pick_language, pick_model, shown_text
from explorer.uploads import MOST_PICTURE, open_picture
from models.pictures import ADDRESS, as_text, order_of, shown_picture
from models.pictures.faces import FACES, split_face
from models.pictures.patches import Picture
from models.rows import Stream


def ask_text(view: View, key: str) -> None:
    """Controls in one row for the sentence, read while it is typed, the model and the language;
    those of a picture below them. `key` begins the keys of all."""
    with st.container(horizontal=True, vertical_alignment="center", key=f"{key}-line"):
        _text(view, f"{key}.text")
        with st.container(width=270):
            current = split_step(view.loaded.name)[0]
            pick_model(current, f"{key}.model", label_visibility="collapsed")
        with st.container(width="content"):
            pick_language(f"{key}.lang")
    if view.loaded.config.picture is not None:
        pick_source(view, key)


def _text(view: View, key: str) -> None:
    """The box for the sentence; one of a single line would drop line ends."""
    ask = partial(st.text_input, live=True)
    if not {"\n", "\r"}.isdisjoint(shown_text()):
        ask, key = partial(st.text_area, height=110), f"{key}.lines"
    if st.session_state.get(key) != shown_text():  # any write overwrites letters just typed
        st.session_state[key] = shown_text()
    ask(
        view.t("sidebar.sentence"),
        key=key,
        label_visibility="collapsed",
        on_change=lambda: new_text(st.session_state[key]),
    )


def pick_source(view: View, key: str) -> None:
    """Show the picture that the model reads, and the ways to change it.

    A click on a patch hides it from all attention.
    """
    sizes = view.loaded.config.picture
    assert sizes is not None
    stream, marks = _stream(view), len(view.loaded.model.with_marks(_stream(view), ()))
    order = order_of(sizes)
    hidden = [
        edit.key - marks
        for edit in view.trace.edits
        if isinstance(edit, KeyHidden) and edit.stream == stream and edit.key >= marks
    ]
    left, right = st.columns([3, 2], gap="medium", vertical_alignment="center")
    with left:
        picture(
            shown_picture(view.text, sizes),
            sizes,
            tokens=view.trace.str_tokens(stream)[marks : marks + len(order)],
            order=order,
            hidden=hidden,
            key=f"{key}.drawn",
            on_drawn=partial(_draw, f"{key}.drawn", sizes),
            on_hidden=partial(_hide, f"{key}.drawn", len(order), stream, marks),
            words=view.words("components.picture"),
        )
    with right:
        with st.container(horizontal=True, vertical_alignment="bottom", key=f"{key}.source"):
            _word(view, key)
            if os.name == "posix":  # elsewhere no process can be limited
                _upload(view, key)
        st.caption(view.t("source.hint_any" if view.loaded.foreign else "source.hint"))
        if (problem := st.session_state.pop(f"{key}.refused", None)) is not None:
            show_problem(problem, view.lang)


def _stream(view: View) -> Stream:
    return view.loaded.model.reads[0]


def _draw(key: str, sizes: Picture) -> None:
    drawn = sent_drawing(key, sizes)
    if drawn is not None:
        new_text(as_text(drawn, sizes))


def _hide(key: str, n_patches: int, stream: Stream, marks: int) -> None:
    """Hide the chosen patches and no others; `marks` tokens precede the patches."""
    patches = sent_hidden(key, n_patches)
    if patches is None:
        return
    hides = [KeyHidden(stream, marks + patch) for patch in patches]
    every = {KeyHidden(stream, marks + patch) for patch in range(n_patches)}
    others = (edit for edit in session.state().edits if edit not in every)
    session.change(edits=(*others, *hides), step=None)


def _word(view: View, key: str) -> None:
    """The word to draw, read while it is typed, and its typeface."""
    drawn = view.text.startswith(ADDRESS)
    word, face = ("", next(iter(FACES))) if drawn else split_face(view.text)
    names = {"word": f"{key}.word", "face": f"{key}.face"}

    def change() -> None:
        new_text(f"{st.session_state[names['word']]} @{st.session_state[names['face']]}")

    if st.session_state.get(names["word"]) != word:  # any write overwrites letters just typed
        st.session_state[names["word"]] = word
    st.session_state[names["face"]] = face
    with st.container(width=150):
        st.text_input(view.t("source.word"), key=names["word"], live=True, on_change=change)
    with st.container(width=140):
        st.selectbox(
            view.t("source.face"),
            list(FACES),
            format_func=lambda name: view.t("source.faces", name),
            key=names["face"],
            on_change=change,
        )


def _upload(view: View, key: str) -> None:
    name = f"{key}.upload"

    def take() -> None:
        upload = st.session_state[name]
        if upload is None:
            return
        try:
            new_text(open_picture(upload.name, upload, view.loaded.tokenizer, waiting))
        except InputProblem as problem:
            st.session_state[f"{key}.refused"] = problem

    with st.popover(view.t("source.upload"), icon=":material/upload:"):
        st.file_uploader(
            view.t("source.upload_label", limit=MOST_PICTURE // 10**6),
            key=name,
            max_upload_size=MOST_PICTURE // 10**6,
            on_change=take,
        )
