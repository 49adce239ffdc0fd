"""The frame of every page: sidebar, menu, its views, the view, and a message if there is none."""

import gc
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache as once, partial
from threading import Event

import streamlit as st
from streamlit.navigation.page import Page as StreamlitPage
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.util import calc_hash

from explorer.components.frame import Menu, frame
from explorer.engine import cache
from explorer.engine.turns import computing
from explorer.exhibits.choices import PartChoices, ScreenChoices
from explorer.exhibits.exhibit import OUTPUT, WORDS, exhibit_of
from explorer.exhibits.heads.choices import HeadsChoices
from explorer.exhibits.links import Links, State
from explorer.exhibits.start.choices import CHANGES, SHUT, StartChoices, with_mask
from explorer.exhibits.tour.choices import CHAPTER_OF, CHAPTERS
from explorer.exhibits.view import build, default_model
from explorer.guard import embedding
from explorer.pages import CHOICES, HOME, MENU, PAGES, Page, glossary, shelf
from explorer.problems import InputProblem
from explorer.render.app import draw_page
from explorer.text import LANGUAGES, family, t
from explorer.ui import session
from explorer.ui.current import app_text, first_view
from explorer.ui.hints import hints
from explorer.ui.session import show_problem
from explorer.ui.sidebar import new_text, shown_text, sidebar
from models.training.home import asset

_WORDS = {shelf.NAME: "shelf"}
"""The text table of a page, if it is not named like the page."""
LINKS = Links(ScreenChoices, PartChoices, *CHOICES)
"""The link format of this app; fails at import if two pages use the same name."""


POINTING = ("site", "layer", "head", "row", "key", "beside")
"""Choices in an address that belong to Heads."""
LATER = 3.0
"""Seconds after a server's start that are reserved for the first user's picture."""
BETWEEN = 0.3
"""Seconds between the imports of two pages: a click meanwhile waits for one import at most."""


@computing()
def run() -> None:
    """The app: called once per run by app.py."""
    _settle()
    # Before the menu, which would show its first page's icon in the tab, from an icon server.
    st.set_page_config(page_icon=str(asset("icon.svg")), layout="wide")
    begins = session.start(LINKS, first_state)
    lang = session.state().lang
    pages = _pages(lang)
    session.keep_pages(pages, HOME)
    current = st.navigation([*pages.values()], position="top")
    beamer = session.state().of(ScreenChoices).beamer
    st.set_page_config(
        page_title=f"{_title(current.url_path or HOME)} · Headlight",
        initial_sidebar_state="collapsed" if current is pages[HOME] or beamer else "auto",
    )
    if begins and current is pages[HOME] and is_of_heads(session.state()):
        session.visit("heads")
    state = session.state()
    screen = state.of(ScreenChoices)
    name = next(name for name, page in pages.items() if page is current)
    picked = frame(
        lang,
        screen.theme,
        screen.beamer,
        _views(lang, name),
        name,
        shown_text(),
        new_text,
        typed=(state.text, state.target),
        chosen=(current.url_path, state.model, session.runs()),
        words=family("frame", lang=lang) | {"sentence": app_text("frame.sentence")},
        origins=embedding() if st.context.is_embedded else None,
        on_message=_obey,
    )
    if picked is not None:
        session.visit(picked)
    current.run()


def is_of_heads(state: State) -> bool:
    """Whether the choices belong to Heads, which was at the root in earlier versions, and none to
    Start."""
    if state.of(StartChoices) != StartChoices():
        return False
    plain = State()
    return state.of(HeadsChoices) != HeadsChoices() or any(
        getattr(state, name) != getattr(plain, name) for name in POINTING
    )


def _obey(message: Mapping[str, object]) -> None:
    """Make the choices that the page around the app asks for: a widget's callback."""
    chosen = message.get("chosen")
    asked = chosen if isinstance(chosen, Mapping) else {}
    if message.get("lang") in LANGUAGES:
        session.change_language(str(message["lang"]))
    if isinstance(message.get("sentence"), str):
        new_text(str(message["sentence"]))
    if asked:
        session.take_link({str(name): str(value) for name, value in asked.items()})
    name = asked.get("mask")
    if isinstance(name, str) and name in CHANGES:
        session.change(edits=with_mask(session.state().edits, name), step=None)


def _pages(lang: str) -> dict[str, StreamlitPage]:
    """All views by name. The menu shows one of each group: the open one, else the first."""
    draw: dict[str, Callable[[], None]] = {page.name: partial(show, page) for page in PAGES}
    draw[shelf.NAME] = partial(show_alone, shelf.NAME, shelf.render)
    draw[glossary.NAME] = partial(show_alone, glossary.NAME, glossary.render)
    context = get_script_run_ctx()
    assert context is not None
    asked = context.pages_manager
    opened = asked.intended_page_script_hash or calc_hash(asked.intended_page_name or "")
    pages = {}
    for group in MENU:
        names = (*group.views, *group.inner)
        shown = next((name for name in names if calc_hash(name) == opened), group.views[0])
        for name in names:
            pages[name] = st.Page(
                draw[name],
                title=t("menu", group.name, lang=lang),
                icon=group.icon,
                url_path=name,
                default=name == HOME,
                visibility="visible" if name == shown else "hidden",
            )
    return pages


def _title(name: str) -> str:
    return app_text(_WORDS.get(name, name), "title")


def _lacking(lang: str) -> dict[str, str]:
    """Why the open model has nothing to show in a view, by the view's name."""
    try:
        loaded = cache.open_model(session.state().model or default_model(cache.models()))
    except InputProblem:  # the page shows the error
        return {}
    needs = {page.name: page.needs for page in PAGES if page.needs is not None}
    return {
        name: t("needs", need.name, lang=lang)
        for name, need in needs.items()
        if not need.met(loaded)
    }


def _views(lang: str, current: str) -> Menu:
    """The menu for narrow screens: each group with its views, the `current` one if it is an inner
    page, and why one is empty."""
    lacking = _lacking(lang)
    return [
        (
            t("menu", group.name, lang=lang),
            [
                (name, _title(name), lacking.get(name, ""))
                for name in (*group.views, *group.inner)
                if name == current or name in group.views
            ],
        )
        for group in MENU
    ]


def _view_links(current: str) -> None:
    """Links to the views of this group; one that this model has nothing for is dimmed."""
    pages, lang = session.pages(), session.state().lang
    if not pages:  # a page that runs alone, as in tests, has no menu
        return
    group = next(group for group in MENU if current in group.views + group.inner)
    views = group.views if current in group.views else (*group.views, current)
    if len(views) == 1:
        return
    lacking = _lacking(lang)
    with st.container(key="views", horizontal=True, width="content"):
        for name in views:
            reason = lacking.get(name)
            label = _title(name)
            st.page_link(pages[name], label=label, disabled=reason is not None, help=reason)


def get_ready() -> None:
    """Prepare a first visit: import its picture, open its model, run its sentence."""
    with computing(), suppress(InputProblem):  # the page reports it
        exhibit_of("start.picture").answer(build(first_state(LANGUAGES[0]), dark=False))


def get_ready_for_others(over: Event) -> None:
    """Import the other pages after `LATER`, so that no user waits for these imports.

    Stops once the server is `over`.
    """
    pause = LATER
    for page in PAGES:
        if over.wait(pause):
            return
        page.load()
        pause = BETWEEN
    gc.collect()
    gc.freeze()


@once
def _settle() -> None:
    """Exclude the imported objects from later garbage collections.

    A full collection takes 150 ms with torch loaded, of every thread's time, which is why
    Streamlit's own after each run is disabled (runner.postScriptGC in .streamlit/config.toml).
    """
    gc.freeze()


def first_state(lang: str) -> State:
    """The state of a first visit: the model that comes first in this language.

    That of a link without a model is omitted.
    """
    model = default_model(cache.models(), lang)
    return State(lang=lang, model="" if model == default_model(cache.models()) else model)


def show_alone(name: str, render: Callable[[], None]) -> None:
    """A page that needs no model, in its frame; also available if no model opens."""
    sidebar()
    with st.container(key="head", horizontal=True, vertical_alignment="center"):
        st.title(_title(name), anchor=False, width="content")
        _view_links(name)
    render()
    session.write_link()


def _back_to_path(page: str) -> None:
    """A small button to the page's chapter; none in presentation mode, or for pages without one."""
    chapter, state = CHAPTER_OF.get(page), session.state()
    if chapter is None or state.of(ScreenChoices).beamer:
        return
    named = t("tour.groups", chapter, lang=state.lang)
    label = t("tour.chapter_of", lang=state.lang, chapter=named)
    if st.button(label, help=label, key="tour.way", type="tertiary", icon=":material/route:"):
        session.change(lesson=next(iter(CHAPTERS[chapter]["steps"])), part="")
        session.visit("tour")


def show(page: Page) -> None:
    """One page in its frame, after `session.start`. The frame is drawn whatever the input."""
    if page.name == HOME and is_of_heads(session.state()):
        session.change(door=SHUT)
    sidebar()
    lang = session.state().lang
    with st.container(key="head", horizontal=True, vertical_alignment="center"):
        if not session.state().of(ScreenChoices).beamer:  # the menu has the title too
            st.title(_title(page.name), anchor=False, width="content")
        _view_links(page.name)
        if page.name != HOME:
            _back_to_path(page.name)
    # Messages are in one container, so that the page below keeps its place when they disappear:
    # the browser would create it anew, and a text box that is typed in would lose the focus.
    with st.container():
        try:
            view = first_view(page.usual_pads)
        except InputProblem as problem:  # nothing to show: no model opens
            show_problem(problem, lang)
            st.info(t("shell.nothing", lang=lang), icon=":material/lightbulb:")
            return
        hints(view)
        if not page.follows_edits and view.edits:
            st.caption(t("shell.unedited", lang=lang))
        needs = page.needs
        if needs in (OUTPUT, WORDS) and not needs.met(view.loaded):  # others show what there is
            st.info(t("needs", needs.name, lang=lang), icon=":material/info:")
            if pages := session.pages():
                label = t("needs.other_model", lang=lang)
                st.page_link(pages[shelf.NAME], label=label, icon=":material/arrow_forward:")
            return
    draw_page(view, page.name, page.choices)
