"""My models: what was found on the shelf and in the visitor's folders. It needs no opened model."""

import streamlit as st

from explorer import library, shelf, text
from explorer.library import split_step
from explorer.pages.heads.pair import compare_with
from explorer.shelf import Listed
from explorer.ui import cache, session
from explorer.ui.escape import escape
from explorer.ui.hints import change_model
from explorer.ui.view import default_model
from models.foreign.finding import VARIABLE

NAME = "models"
"""Its address: /models. In the menu of pages it does not stand, but behind that of models."""


def render() -> None:
    """The page."""
    st.markdown(_t("shelf.lead"))
    listed = shelf.survey(library.CHECKPOINTS)
    opens = [each for each in listed if not each.problem]
    own = [each for each in opens if each.own]
    by_name = {each.name: each for each in opens if not each.own}
    shipped = [by_name[name] for name in text.in_order(by_name, lang=session.state().lang)]
    st.subheader(_t("shelf.own"), anchor=False)
    if not own:
        st.info(_t("shelf.none", variable=VARIABLE), icon=":material/lightbulb:")
        st.code("headlight app --models DIR", language=None)
    for each in own:
        _line(each)
    refused = [each for each in listed if each.problem]
    if refused:
        st.subheader(_t("shelf.refused"), anchor=False)
        for each in refused:
            _refused(each)
    st.subheader(_t("shelf.shipped"), anchor=False)
    for each in shipped:
        _line(each)


def _t(key: str, **values: object) -> str:
    return text.t(key, lang=session.state().lang, **values)


def _line(each: Listed) -> None:
    """One model in numbers, and the button that opens it."""
    current, _ = split_step(session.state().model or default_model(cache.models()))
    with st.container(horizontal=True, vertical_alignment="center", border=True):
        with st.container():
            st.markdown(f"**{escape(_title(each.name))}**")
            st.caption(_numbers(each))
        is_open = each.name == current
        if not is_open and st.button(
            _t("shelf.compare"),
            key=f"shelf.compare.{each.name}",
            type="tertiary",
            icon=":material/compare:",
            help=_t("shelf.compare_help", model=escape(_title(current))),
        ):
            compare_with(each.name)
            session.visit("heads")
        if st.button(
            _t("shelf.opened" if is_open else "shelf.open"),
            key=f"shelf.open.{each.name}",
            type="primary" if is_open else "secondary",
        ):
            if not is_open:
                change_model(current, each.name)
            session.visit("heads")


def _numbers(each: Listed) -> str:
    family = escape(each.family)
    if not each.parameters:  # a GGUF file: its header takes seconds
        return _t("shelf.gguf", size=megabytes(each.n_bytes))
    return _t(
        "shelf.numbers",
        family=family,
        parameters=f"{each.parameters / 1e6:,.1f}",
        layers=each.n_layers,
        heads=each.n_heads,
        d_model=each.d_model,
        size=megabytes(each.n_bytes),
        memory=megabytes(each.memory),
        dtype=each.dtype,
    )


def _refused(each: Listed) -> None:
    """A model that cannot be opened: why, and the command that helps where there is one."""
    why, found, command = each.problem.partition(": python -c ")
    with st.container(border=True):
        st.markdown(f"**{escape(_title(each.name))}**")
        st.caption(" · ".join(filter(None, (escape(each.family), escape(str(each.folder.name))))))
        st.error(escape(why), icon=":material/block:")
        if found:
            st.code(f"python -c {command}", language="bash", wrap_lines=True)


def _title(name: str) -> str:
    return text.model_name(name, lang=session.state().lang)


def megabytes(n_bytes: int) -> str:
    """Bytes in words, in units of 1000: 98.4 MB, 1.2 GB."""
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"
