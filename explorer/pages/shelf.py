"""My models: the models found on the shelf and in the user's folders. Needs no open model."""

import streamlit as st

from explorer import library, shelf, text
from explorer.engine import cache
from explorer.exhibits.block import escape
from explorer.exhibits.heads.sides import compare_with
from explorer.exhibits.view import default_model
from explorer.library import split_step
from explorer.numbers import byte_size
from explorer.shelf import Listed
from explorer.ui import session
from explorer.ui.hints import change_model
from explorer.ui.share import show_link
from models.foreign.finding import VARIABLE, missing, without_models
from models.refusals import Refusal

NAME = "models"
"""Its address: /models. It is linked from the model menu, not from the menu of pages."""


def render() -> None:
    """Draw the page."""
    with (
        st.container(key="share-models", horizontal=True, horizontal_alignment="right"),
        st.popover(_t("take.title"), icon=":material/download:"),
    ):
        show_link(session.state())
    with st.container(key="lead-models"):
        st.markdown(_t("shelf.lead"))
    listed = shelf.survey(library.CHECKPOINTS)
    opens = [model for model in listed if not model.problem]
    own = [model for model in opens if model.own]
    by_name = {model.name: model for model in opens if not model.own}
    shipped = [by_name[name] for name in text.in_order(by_name, lang=session.state().lang)]
    st.subheader(_t("shelf.own"), anchor=False)
    for folder in missing():  # name only: the server's path is private
        st.warning(_t("shelf.missing", folder=escape(folder.name)), icon=":material/folder_off:")
    for folder in without_models():
        st.warning(_t("shelf.empty", folder=escape(folder.name)), icon=":material/folder_open:")
    if not own:
        st.info(_t("shelf.none", variable=VARIABLE), icon=":material/lightbulb:")
        st.code("headlight app --models DIR", language=None)
    for model in own:
        _line(model)
    refused = [(model, model.problem) for model in listed if model.problem is not None]
    if refused:
        st.subheader(_t("shelf.refused"), anchor=False)
        for model, problem in refused:
            _refused(model, problem)
    st.subheader(_t("shelf.shipped"), anchor=False)
    for model in shipped:
        _line(model)


def _t(key: str, /, *names: str, **values: object) -> str:
    return text.t(key, *names, lang=session.state().lang, **values)


def _parameters(count: int) -> str:
    return text.in_units(count, lang=session.state().lang)


def _current() -> str:
    """The open model, without its training step."""
    return split_step(session.state().model or default_model(cache.models()))[0]


def _line(listed: Listed) -> None:
    """One model with its numbers, and buttons to open it."""
    warning = ""
    if listed.lacks_tokens:
        sizes = {"count": f"{listed.n_tokens:,}", "size": f"{listed.vocab_size:,}"}
        warning = _t("sidebar.few_tokens", **sizes)
    _offer(listed.name, _numbers(listed), warning)


def _offer(name: str, numbers: str, warning: str = "") -> None:
    current = _current()
    with st.container(horizontal=True, vertical_alignment="center", border=True):
        with st.container(gap=None, key=f"shelf.words.{name}"):
            st.markdown(f"**{escape(_title(name))}**")
            st.caption(numbers)
            if warning:
                st.warning(warning, icon=":material/warning:")
        is_open = name == current
        if not is_open and st.button(
            _t("shelf.compare"),
            key=f"shelf.compare.{name}",
            type="tertiary",
            icon=":material/compare:",
            help=_t("shelf.compare_help", model=escape(_title(current))),
        ):
            session.change(**compare_with(session.state(), name))
            session.visit("heads")
        if st.button(
            _t("shelf.opened" if is_open else "shelf.open"),
            key=f"shelf.open.{name}",
            type="primary" if is_open else "secondary",
        ):
            if not is_open:
                change_model(current, name)
            session.visit("heads")
        if st.button(
            _t("card.title"), key=f"shelf.card.{name}", type="tertiary", icon=":material/badge:"
        ):
            if not is_open:
                change_model(current, name)
            session.visit("card")


def _numbers(listed: Listed) -> str:
    family = escape(listed.family)
    return _t(
        "shelf.numbers",
        family=family,
        parameters=_parameters(listed.parameters),
        layers=listed.n_layers,
        heads=listed.n_heads,
        d_model=listed.d_model,
        size=byte_size(listed.n_bytes),
        memory=byte_size(listed.memory),
        dtype=listed.dtype,
    )


def _refused(listed: Listed, problem: Refusal) -> None:
    """A model that cannot be opened: the reason, and a command that helps, if any."""
    command = str(problem.values.get("command", ""))
    why = text.refusal(problem, lang=session.state().lang).removesuffix(command).rstrip(":： ")
    with st.container(border=True):
        st.markdown(f"**{escape(_title(listed.name))}**")
        st.caption(
            " · ".join(filter(None, (escape(listed.family), escape(str(listed.folder.name)))))
        )
        st.error(escape(why), icon=":material/block:")
        if command:
            st.code(command, language="bash", wrap_lines=True)


def _title(name: str) -> str:
    return text.model_name(name, lang=session.state().lang)
