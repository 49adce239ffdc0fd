"""The sidebar: language, sentence, examples, file, own translation, model."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import streamlit as st

from explorer import library, text
from explorer.engine import cache
from explorer.engine.cache import examples_of
from explorer.engine.turns import waiting
from explorer.exhibits.block import escape
from explorer.exhibits.choices import THEMES, ScreenChoices
from explorer.exhibits.view import MOST_OTHERS, default_model, first_sentence, reading_language
from explorer.library import LoadedModel, at_step, split_step
from explorer.problems import InputProblem
from explorer.runs.inputs import MAX_TOKENS, limit
from explorer.runs.sentences import (
    FILE_TYPES,
    MAX_CHARS,
    header_in,
    one_per_line,
    sentences_from_file,
)
from explorer.ui import session
from explorer.ui.checking import checkable, self_check
from explorer.ui.current import app_text as _t
from explorer.ui.hints import change_model, reader_of
from explorer.ui.session import show_problem
from explorer.ui.sidebar.languages import pick_languages
from explorer.ui.trained import models
from explorer.uploads import in_template
from models.foreign.prompts import LINE_END
from models.foreign.tokens import PAIR

LANGUAGE_NAMES = {"en": "English", "zh": "中文"}
MOST_NAMES = 8  # columns of a table that are named
_END = -1  # no snapshot: the fully trained model


def sidebar() -> None:
    """Draw the sidebar; its widgets change the session's state."""
    with st.sidebar:
        with st.container(horizontal=True, vertical_alignment="center"):
            with st.container(key="brand", width="content"):
                st.markdown("Headlight")
            pick_language("sidebar.lang")
        model = session.state().model or default_model(cache.models())
        loaded: LoadedModel | None = None
        with suppress(InputProblem):  # the page shows the error
            loaded = cache.open_model(model)
        _sentence(loaded)
        with st.container(horizontal=True):
            st.button(_t("sidebar.run"), key="sidebar.run", on_click=session.count_run)
            _file()
        _examples(model)
        _prompt(loaded)
        _beside()
        _output(loaded)
        _model(model, loaded)
        _display()
        pages = session.pages()
        if pages:  # a page that runs alone, as in tests, has no menu
            label = _t("glossary.title")
            st.page_link(pages["glossary"], label=label, icon=":material/menu_book:")


def _display() -> None:
    """Controls for the classroom mode and the light or dark theme."""
    with st.popover(_t("sidebar.display"), width="stretch"):
        st.session_state["sidebar.beamer"] = session.state().of(ScreenChoices).beamer
        st.toggle(
            _t("sidebar.beamer"),
            key="sidebar.beamer",
            help=_t("sidebar.beamer_help"),
            on_change=chosen,
            args=("sidebar.beamer", "beamer"),
        )
        st.session_state["sidebar.theme"] = session.state().of(ScreenChoices).theme or None
        st.segmented_control(
            _t("sidebar.theme"),
            THEMES,
            format_func={"light": _t("sidebar.light"), "dark": _t("sidebar.dark")}.__getitem__,
            key="sidebar.theme",
            help=_t("sidebar.theme_help"),
            on_change=chosen,
            args=("sidebar.theme", "theme", lambda theme: theme or ""),
        )


def chosen(key: str, field: str, read: Callable[[Any], Any] = lambda value: value) -> None:
    """A widget's callback: store its value in the state."""
    session.change(**{field: read(st.session_state[key])})


def pick_language(key: str) -> None:
    """The control for the language of the app."""
    st.session_state[key] = session.state().lang
    st.segmented_control(
        "Language / 语言",
        text.LANGUAGES,
        format_func=LANGUAGE_NAMES.__getitem__,
        required=True,
        key=key,
        on_change=lambda: session.change_language(st.session_state[key]),
        label_visibility="collapsed",
    )


def shown_text() -> str:
    """The current sentence: the user's, or the default one."""
    state = session.state()
    if state.text is not None:
        return state.text
    return first_sentence(state.model or default_model(cache.models()))


def new_text(sentence: str) -> None:
    """A widget's callback: switch to another sentence, and from the model of a first visit to one
    that reads the sentence's language."""
    # Queries and steps belong to a sentence; the selected heads stay.
    choices: dict[str, Any] = {"text": sentence, "target": None, "row": None, "step": None}
    state, names, written = session.state(), cache.models(), text.script(sentence)
    model = state.model or default_model(names)
    if model == default_model(names, state.lang) and written not in (None, reading_language(model)):
        choices["model"] = reader_of(written) or model
    session.change(**choices)


def _sentence(loaded: LoadedModel | None) -> None:
    first, second = _pair(loaded)
    room = MAX_TOKENS if loaded is None else limit(loaded)
    is_drawn = loaded is not None and loaded.config.picture is not None
    st.session_state["sidebar.text"] = first
    st.text_area(
        _t("sidebar.sentence" if second is None else "sidebar.first"),
        key="sidebar.text",
        height=110,
        placeholder=_t("sidebar.sentence_hint"),
        help=None if is_drawn else _t("sidebar.sentence_help", chars=f"{MAX_CHARS:,}", tokens=room),
        on_change=lambda: new_text(_joined(st.session_state["sidebar.text"], second)),
    )
    if second is not None:
        st.session_state["sidebar.second"] = second
        st.text_area(
            _t("sidebar.second"),
            key="sidebar.second",
            height=80,
            placeholder=_t("sidebar.second_hint"),
            help=_t("sidebar.second_help", pair=PAIR),
            on_change=lambda: new_text(_joined(first, st.session_state["sidebar.second"])),
        )


def _pair(loaded: LoadedModel | None) -> tuple[str, str | None]:
    """The current sentence, split for a model that reads pairs; None: it reads single texts."""
    if loaded is None or not loaded.reads_pairs:
        return shown_text(), None
    first, pair, second = shown_text().partition(PAIR)
    return (first.strip(), second.strip()) if pair else (first, "")


def _joined(first: str, second: str | None) -> str:
    return f"{first.strip()} {PAIR} {second.strip()}" if second and second.strip() else first


def _prompt(loaded: LoadedModel | None) -> None:
    """For a chat model: a button that puts its chat template around the sentence, for editing."""
    if loaded is None or os.name != "posix":  # elsewhere no process can be limited
        return
    template = loaded.template
    if template is not None and not template.is_in(shown_text()):
        st.button(
            _t("sidebar.prompt"),
            key="sidebar.prompt",
            help=_t("sidebar.prompt_help", line_end=LINE_END),
            on_click=_to_prompt,
            args=(loaded.name,),
        )
    if (problem := st.session_state.pop("sidebar.prompt_refused", None)) is not None:
        show_problem(problem, session.state().lang)


def _to_prompt(model: str) -> None:
    """A widget's callback: put the sentence into the chat template of the model."""
    try:
        new_text(in_template(cache.open_model(model), shown_text(), waiting))
    except InputProblem as problem:
        st.session_state["sidebar.prompt_refused"] = problem


def _examples(model: str) -> None:
    """The example sentences, a widget per group: a button per sentence slows every run down."""
    shown = shown_text()
    with st.popover(_t("sidebar.examples"), width="stretch"):
        for group, sentences in examples_of(model).items():
            key = f"sidebar.example.{group}"
            st.session_state[key] = shown if shown in sentences else None
            label, change = _t("sentences", group), partial(_pick_example, key)
            st.pills(label, sentences, key=key, format_func=escape, on_change=change)


def _pick_example(key: str) -> None:
    """A widget's callback: switch to the picked sentence; a second click keeps it."""
    if (sentence := st.session_state[key]) is not None:
        new_text(sentence)


def _file() -> None:
    with st.popover(_t("sidebar.file"), width="stretch"):
        uploaded = st.file_uploader(
            _t("sidebar.file_label", types=", ".join(FILE_TYPES)),
            # The project checks the type itself, for a better message.
            key="sidebar.file",
            max_upload_size=1,
            label_visibility="visible",
            on_change=_run_first,
        )
        if uploaded is None:
            return
        try:
            sentences = sentences_from_file(uploaded.name, uploaded.getvalue())
        except InputProblem as problem:
            show_problem(problem, session.state().lang)
            return
        if header := header_in(uploaded.name, uploaded.getvalue()):
            names = ", ".join(map(escape, header[:MOST_NAMES]))
            st.caption(_t("sidebar.file_header", names=names))
        st.selectbox(
            _t("sidebar.file_pick", count=len(sentences)),
            sentences,
            index=None,
            key="sidebar.pick",
            placeholder=_t("sidebar.file_placeholder"),
            on_change=_picked,
        )
        st.multiselect(
            _t("sidebar.file_beside"),
            sentences,
            key="sidebar.pick_beside",
            max_selections=MOST_OTHERS,
            placeholder=_t("sidebar.file_beside_placeholder"),
            on_change=chosen,
            args=("sidebar.pick_beside", "beside", one_per_line),
        )
        if any(len(line.splitlines()) > 1 for line in st.session_state["sidebar.pick_beside"]):
            st.caption(_t("sidebar.line_ends"))
    shown = shown_text()
    at = sentences.index(shown) if shown in sentences else -1
    with st.container(horizontal=True, width="content", gap="xsmall"):
        sides = (("‹", "sidebar.file_before", at - 1), ("›", "sidebar.file_after", at + 1))
        for label, key, to in sides:
            st.button(
                label,
                key=key,
                help=_t(key),
                disabled=not 0 <= to < len(sentences),
                on_click=new_text,
                args=(sentences[max(to, 0) % len(sentences)],),
            )


def _run_first() -> None:
    """A widget's callback: run the first sentence of a file."""
    uploaded = st.session_state["sidebar.file"]
    if uploaded is None:
        return
    with suppress(InputProblem):  # the run that follows shows it
        new_text(sentences_from_file(uploaded.name, uploaded.getvalue())[0])


def _beside() -> None:
    with st.expander(_t("sidebar.beside"), expanded=bool(session.state().beside)):
        st.session_state["sidebar.beside"] = session.state().beside
        st.text_area(
            _t("sidebar.beside"),
            key="sidebar.beside",
            height=100,
            max_chars=MOST_OTHERS * 1000,  # must fit into a link
            placeholder=_t("sidebar.beside_hint"),
            help=f"{_t('sidebar.beside_help', count=MOST_OTHERS)} {_t('sidebar.line_ends')}",
            label_visibility="collapsed",
            on_change=chosen,
            args=("sidebar.beside", "beside"),
        )


def _picked() -> None:
    sentence = st.session_state["sidebar.pick"]
    if sentence is not None:
        new_text(sentence)


def _output(loaded: LoadedModel | None) -> None:
    """The box for an output of one's own; a model that fills in masks takes none."""
    if loaded is not None and not loaded.config.is_causal:
        return
    words = ["sidebar.target", "sidebar.target_hint", "sidebar.target_help"]
    if loaded is not None and "src" not in loaded.model.reads:
        words = ["sidebar.continuation", "sidebar.continuation_hint", "sidebar.continuation_help"]
    label, hint, explanation = map(_t, words)
    with st.expander(label, expanded=bool(session.state().target)):
        st.session_state["sidebar.target"] = session.state().target or ""
        st.text_area(
            label,
            key="sidebar.target",
            height=80,
            placeholder=hint,
            help=explanation,
            label_visibility="collapsed",
            on_change=lambda: session.change(
                target=st.session_state["sidebar.target"] or None, row=None
            ),
        )


def _snapshot(model: str) -> None:
    """For a model with training snapshots: the choice of a snapshot."""
    steps = library.snapshots(model, library.CHECKPOINTS)
    if not steps:
        return
    _, step = split_step(model)
    st.session_state["sidebar.moment"] = _END if step is None else step
    st.select_slider(
        _t("sidebar.moment"),
        (*steps, _END),
        format_func=lambda step: (
            _t("sidebar.moment_end") if step == _END else _t("sidebar.moment_step", step=step)
        ),
        key="sidebar.moment",
        help=_t("sidebar.moment_help"),
        on_change=_pick_snapshot,
        args=(model,),
    )


def _pick_snapshot(model: str) -> None:
    step = st.session_state["sidebar.moment"]
    session.change(model=at_step(model, None if step == _END else step))


def pick_model(current: str, key: str, **more: Any) -> bool:
    """The menu of the models that this session can open; whether it lists the `current` one."""
    names = text.in_order(models(), lang=session.state().lang)
    # A model missing on this server is replaced by a default: show no name.
    st.session_state[key] = current if current in names else None
    st.selectbox(
        _t("sidebar.model"),
        names,
        placeholder=_t("sidebar.model_hint"),
        format_func=partial(text.model_name, lang=session.state().lang),
        key=key,
        on_change=lambda: change_model(current, st.session_state[key]),
        **more,
    )
    return current in names


def _model(whole: str, loaded: LoadedModel | None) -> None:
    is_listed = pick_model(split_step(whole)[0], "sidebar.model")
    if not is_listed:
        return
    _snapshot(whole)
    if loaded is None:
        return
    if loaded.languages:
        pick_languages(loaded)
    config = loaded.config
    st.caption(
        _t(
            "sidebar.sizes",
            layers=" + ".join(str(stack.n_layers) for stack in loaded.stacks),
            heads=config.n_heads,
            d_model=config.d_model,
            parameters=text.in_units(loaded.n_parameters, lang=session.state().lang),
        )
    )
    if loaded.lacks_tokens:
        count, size = loaded.tokenizer.vocab_size, config.vocab_size
        st.warning(
            _t("sidebar.few_tokens", count=f"{count:,}", size=f"{size:,}"),
            icon=":material/warning:",
        )
    edits = checkable(session.state().edits)
    self_check(whole, ((), edits) if edits else ((),))
