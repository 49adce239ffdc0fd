"""Render a page of the app: its exhibits in sequence, whichever they are."""

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeGuard

import streamlit as st

from explorer.components.frame import pulse
from explorer.engine.caching import Request, ask, is_answered
from explorer.engine.turns import computing
from explorer.exhibits import block as b
from explorer.exhibits.block import plain
from explorer.exhibits.choices import PartChoices, ScreenChoices
from explorer.exhibits.exhibit import Exhibit, PageChoices, exhibits_of
from explorer.exhibits.picking import pick_part
from explorer.exhibits.saying import file_name
from explorer.exhibits.view import View
from explorer.problems import InputProblem
from explorer.render import html, paper
from explorer.render.controls import Sheet, save, visit_due
from explorer.render.drawing import draw, export
from explorer.ui import controls, running, session, share
from explorer.ui.current import latest
from explorer.ui.hints import hint_for
from explorer.ui.running import is_new, pause
from explorer.ui.session import show_problem
from explorer.ui.source import ask_text, pick_source

Page = type[PageChoices]


def draw_page(view: View, page: str, choices: Page) -> None:
    """Draw a page: its introduction or controls of the text, and the exhibits of the open part."""
    if not choices.asks:
        controls.opening(view, page)
    elif hint := hint_for(view):
        with st.container(horizontal=True, vertical_alignment="center", key="hint"):
            hint.show()
    if choices.reads_pictures and view.loaded.config.picture is not None:
        pick_source(view, page)
    _below(view, page, choices)


@st.fragment
@computing()
def _below(view: View, page: str, choices: Page) -> None:
    """The fragment that is redrawn after a change on the page, with the current choices."""
    visit_due()
    with st.container():  # of messages, as in `shell.show`
        view = choices.opens(latest(view))
    if choices.asks:
        ask_text(view, page)
    share_place = st.container(key=f"share-{page}", horizontal=True, horizontal_alignment="right")
    # Classroom mode leaves the menu of the parts among the controls.
    beamer = view.choices(ScreenChoices).beamer
    parts = nullcontext() if beamer else st.container(key="parts")
    stage, told = st.container(key="stage"), st.container(key="told")
    sheet = Sheet(view, page, file_name(view, page), stage, told)
    _part(sheet, choices, parts)
    with share_place:
        _take(sheet)
    session.write_due_link()
    for block in sheet.live:  # last, so that it cannot interrupt this run
        pulse(block.key, block.seconds)


def _part(sheet: Sheet, choices: Page, menu: AbstractContextManager[object]) -> None:
    """Draw the exhibits of the open part, and in `menu` the choice of another.

    Each has two places: one above the controls, for its main picture, and one below. An exhibit of
    which only the choices in `early` have changed is painted before those above it, since it may be
    below the screen.
    """
    view, parts = sheet.view, choices.parts
    chosen = view.choices(PartChoices).part
    part = chosen if chosen in parts else next(iter(parts))
    addresses = parts[part]
    exhibits = exhibits_of(addresses, view)
    if len(parts) > 1:
        own = {*addresses} - {*addresses}.intersection(*parts.values())
        if not own or any(exhibit.name in own for exhibit in exhibits):
            with menu:
                draw(sheet, (pick_part(view, sheet.page, choices, part),))
    above, below = {}, {}
    early: list[Exhibit[Any]] = []
    late: list[Exhibit[Any]] = []
    for exhibit in exhibits:
        sheet.blocks[exhibit.name], below[exhibit.name] = [], st.container()
        with sheet.above:
            above[exhibit.name] = st.container()
        watched = choices.early.get(exhibit.name)
        is_early = watched is not None and is_new(
            exhibit.name, tuple(view.chosen(choice, choices) for choice in watched)
        )
        (early if is_early else late).append(exhibit)
    for exhibit in (*early, *late):
        sheet.above = above[exhibit.name]
        has_picture, sheet.has_picture = sheet.has_picture, sheet.has_picture or bool(early)
        with below[exhibit.name]:
            _exhibit(sheet, exhibit)
        if early:  # its picture is not the first on the page
            sheet.has_picture = has_picture
            early.clear()
            pause()
    say, needs = st.caption if sheet.has_picture else st.info, []
    for exhibit in exhibits:
        need = exhibit.needs
        if need is not None and need not in needs and not need.met(view.loaded):
            needs.append(need)
            say(view.t("needs", need.name))
    if sheet.small:
        controls.small_prints(view, sheet.page, sheet.small)


def _exhibit(sheet: Sheet, exhibit: Exhibit[Any]) -> None:
    """Draw an exhibit, or the progress of its computation, or why there is no answer."""
    view, wait = sheet.view, exhibit.wait
    if exhibit.needs is not None and not exhibit.needs.met(view.loaded):
        return
    try:
        request = None
        if wait.after not in sheet.blocks or wait.after in sheet.answers:
            request = exhibit.request(view, sheet.answers.get(wait.after))
        answered: tuple[Any] | None
        if request is None or is_answered(request):
            answered = (None if request is None else ask(request),)
        elif request.takes_long and wait.long(view):
            answered = _awaited(sheet, exhibit, request)
        else:
            with st.spinner(view.t(wait.words)) if wait.words else nullcontext():
                answered = (ask(request),)
        if answered is None:
            blocks = wait.blocks(view)
        else:
            if answered[0] is not None:
                sheet.answers[exhibit.name] = answered[0]
            blocks = exhibit.show(answered[0], view)
        draw(sheet, _picture_first(sheet, exhibit.name, blocks))
    except InputProblem as problem:
        if (problem.key, str(problem.values)) not in sheet.problems:
            show_problem(problem, view.lang)
        sheet.problems.add((problem.key, str(problem.values)))


def _awaited(sheet: Sheet, exhibit: Exhibit[Any], request: Request[Any]) -> tuple[Any] | None:
    """The answer of a long computation, in a tuple; until then None, with the progress shown."""
    view, wait = sheet.view, exhibit.wait
    return running.awaited(
        f"{exhibit.name}.job",
        request.address,
        lambda tell: (ask(request, tell),),
        view.t(wait.words or "shell.working"),
        view.lang,
        stop=wait.stop,
        most_ahead=running.MANY if sheet.has_picture else math.inf,
    )


def _picture_first(sheet: Sheet, name: str, blocks: Iterable[b.Block]) -> b.Blocks:
    """Note the blocks of an exhibit; place the first picture of a page, with its title and its
    sentence, above the controls."""
    for block in blocks:
        sheet.blocks[name].append(block)
        if sheet.has_picture or isinstance(block, b.Hero):
            sheet.has_picture = True
            yield block
            continue
        sheet.has_picture = any(isinstance(piece, b.Picture) for piece in b.inside([block]))
        first = sheet.has_picture or isinstance(block, b.Sentence | b.Title)
        yield b.Hero((block,)) if first else block


@st.fragment
@computing()
def _take(sheet: Sheet) -> None:
    """The downloads; listed only while they are open."""
    label, key = sheet.view.t("take.title"), f"{sheet.page}.take"
    with st.popover(label, icon=":material/download:", key=key, on_change="rerun") as place:
        if place.open:
            _exports(sheet)


def _exports(sheet: Sheet) -> None:
    """The downloads: the page, a report, and every picture that has a static form."""
    view, page = sheet.view, sheet.page
    title, file = share.page_title(view, page), sheet.file
    every = [*b.inside(sheet.drawn)]
    if any(isinstance(piece, b.Sentence) for piece in every):
        lines = [plain(piece.words) for piece in every if _is_reading(piece)]
    else:
        tables = (piece for piece in every if isinstance(piece, b.Table))
        lines = [plain(": ".join(row)) for piece in tables for row in piece.rows]
    st.caption(view.t("take.page"))
    whole = partial(html.page, title, sheet.drawn, view, file)
    save(sheet, b.Download(f"{page}.take.page", view.t("take.html"), whole, "html"))
    share.show_link(view.state)
    if lines:
        st.caption(view.t("take.reading"))
        st.code("\n".join(lines), language=None, wrap_lines=True)
    if any(isinstance(piece, b.Picture) for piece in every):
        st.caption(view.t("take.png"))
    st.caption(view.t("take.report"))
    report, label = partial(paper.report, title, sheet.drawn, view, file), view.t("take.paper")
    save(sheet, b.Download(f"{page}.take.report", label, report, "html", "report"))
    for piece in every:
        if isinstance(piece, b.Link) and piece.key:
            st.caption(piece.words)
            share.show_link(session.links().change(view.state, **piece.choices), piece.key)
    for piece in every:
        if isinstance(piece, b.Download) and piece.export:
            save(sheet, piece)
    stills = (still for still in map(_still, every) if still is not None)
    for number, (shown, svg) in enumerate(stills, 1):
        end = f"{number}" if number > 1 else ""
        st.caption(shown)
        key, label = f"{page}.take.svg{end}", view.t("take.svg")
        save(sheet, b.Download(key, label, svg, "svg", end))
    for piece in every:
        if isinstance(piece, b.Export):
            export(sheet, piece)


def _is_reading(block: b.Block) -> TypeGuard[b.Sentence | b.Title]:
    return isinstance(block, b.Sentence) or (isinstance(block, b.Title) and block.large)


def _still(block: b.Block) -> tuple[str, Callable[[], str]] | None:
    """What the still picture of a block shows, and that picture as an SVG; None without one."""
    if isinstance(block, b.Matrices) and block.captioned:
        return " · ".join(title for title, _ in block.panels), block.svg
    if isinstance(block, b.Columns) and block.still is not None:
        return block.words, block.still
    return None
