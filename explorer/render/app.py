"""Render a page of the app: its exhibits in sequence, whichever they are."""

import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeGuard

import streamlit as st

from explorer.components import pulse
from explorer.engine.asking import Request, ask, is_answered
from explorer.engine.jobs import Tell
from explorer.engine.turns import computing
from explorer.exhibits import block as b
from explorer.exhibits.escape import plain
from explorer.exhibits.exhibit import Exhibit, PageChoices, exhibits_of
from explorer.exhibits.view import View
from explorer.problems import InputProblem
from explorer.render import html, paper
from explorer.render.controls import Sheet, save, visit_due
from explorer.render.drawing import draw, export
from explorer.ui import controls, running, session, share
from explorer.ui.current import latest
from explorer.ui.hints import hint_for
from explorer.ui.parts import one_chosen, pick_part
from explorer.ui.session import show_problem
from explorer.ui.source import ask_text, pick_source
from explorer.ui.stage import Place, in_order, is_new, places, stage, staged

Page = type[PageChoices]


def draw_page(view: View, page: str, choices: Page) -> None:
    """Draw a page: its introduction or controls of the text, and the exhibits of the open part."""
    if not choices.asks:
        controls.opening(view, page)
    elif hint := hint_for(view):
        with st.container(horizontal=True, vertical_alignment="center", key="hint"):
            hint.show()
    if choices.reads_pictures:
        pick_source(view, page)
    _below(view, page, choices)


@st.fragment
@computing()
def _below(view: View, page: str, choices: Page) -> None:
    """The fragment that is redrawn after a change on the page, with the current choices."""
    visit_due()
    with st.container():  # of messages, as in `shell.show`
        view = choices.opens(latest(view))
        sheet = Sheet(view, page, share.file_name(view, page))
    if choices.asks:
        ask_text(sheet.view, page)
    place = st.container(key=f"share-{page}", horizontal=True, horizontal_alignment="right")
    with stage():
        _part(sheet, choices)
    with place, st.popover(sheet.view.t("take.title"), icon=":material/download:"):
        _exports(sheet)
    session.write_due_link()
    for each in sheet.drawn:  # last, so that it cannot interrupt this run
        if isinstance(each, b.Live):
            pulse(each.key, each.seconds)


def _part(sheet: Sheet, choices: Page) -> None:
    view, parts = sheet.view, choices.parts
    exhibits = exhibits_of(parts[one_chosen(view, "part", tuple(parts))], view)
    shared = set.intersection(*map(set, parts.values()))
    if len(parts) > 1 and any(each.name not in shared for each in exhibits):
        pick_part(view, sheet.page, choices)
    drawn = {
        each: partial(_exhibit, sheet, each, place)
        for each, place in zip(exhibits, places(len(exhibits)), strict=True)
    }
    sheet.blocks = {each.name: [] for each in exhibits}
    # Draw first an exhibit whose inputs have just changed: it may be below the screen.
    first = [each for each in exhibits if each.answers and _is_new(sheet, each)]
    early = {each: partial(_below_picture, sheet, drawn[each]) for each in first[:1]}
    drawn |= early
    in_order([*drawn.values()], first=next(iter(early.values()), None))
    needs = (each.needs for each in exhibits if each.needs is not None)
    say = st.caption if sheet.has_picture else st.info
    for name in dict.fromkeys(need.name for need in needs if not need.met(view.loaded)):
        say(view.t(f"needs.{name}"))
    _small_print(sheet)


def _is_new(sheet: Sheet, exhibit: Exhibit[Any]) -> bool:
    answered = tuple(exhibit.chosen(exhibit.answers, sheet.view).values())
    return is_new(exhibit.name, answered)


def _below_picture(sheet: Sheet, draw_it: Callable[[], None]) -> None:
    """Draw an exhibit whose picture is not the page's first, although it is drawn before that."""
    before, sheet.has_picture = sheet.has_picture, True
    draw_it()
    sheet.has_picture = before


def _exhibit(sheet: Sheet, exhibit: Exhibit[Any], place: Place) -> None:
    with staged(place):
        _in_place(sheet, exhibit)


def _in_place(sheet: Sheet, exhibit: Exhibit[Any]) -> None:
    view = sheet.view
    if exhibit.needs is not None and not exhibit.needs.met(view.loaded):
        return
    try:
        request = None
        if exhibit.after not in sheet.blocks or exhibit.after in sheet.answers:
            request = exhibit.request(view, sheet.answers.get(exhibit.after))
        if request is None:
            _shown(sheet, exhibit, None)
        elif is_answered(request):
            _shown(sheet, exhibit, ask(request))
        elif request.takes_long and exhibit.long(view):
            _awaited(sheet, exhibit, request)
        else:
            with st.spinner(view.t(exhibit.working)) if exhibit.working else nullcontext():
                found = ask(request)
            _shown(sheet, exhibit, found)
    except InputProblem as problem:
        if (problem.key, str(problem.values)) not in sheet.problems:
            show_problem(problem, sheet.view.lang)
        sheet.problems.add((problem.key, str(problem.values)))


def _awaited(sheet: Sheet, exhibit: Exhibit[Any], request: Request[Any]) -> None:
    """Show the progress of a computation, then the exhibit."""

    def work(tell: Tell) -> tuple[Any]:
        return (ask(request, tell),)

    view, name = sheet.view, f"{exhibit.name}.job"
    found = running.awaited(
        name,
        request.address,
        work,
        view.t(exhibit.working or "shell.working"),
        view.lang,
        stop=exhibit.stop,
        most_ahead=running.MANY if sheet.has_picture else math.inf,
    )
    if found is None:
        _drawn(sheet, exhibit, exhibit.pending(view))
    else:
        _shown(sheet, exhibit, found[0])


def _shown(sheet: Sheet, exhibit: Exhibit[Any], answer: Any) -> None:
    if answer is not None:
        sheet.answers[exhibit.name] = answer
    _drawn(sheet, exhibit, exhibit.show(answer, sheet.view))


def _drawn(sheet: Sheet, exhibit: Exhibit[Any], blocks: Iterable[b.Block]) -> None:
    draw(sheet, _picture_first(sheet, _noted(sheet.blocks[exhibit.name], blocks)))


def _picture_first(sheet: Sheet, blocks: Iterable[b.Block]) -> b.Blocks:
    """Place the first picture of a page, with its title and its sentence, above the controls."""
    for block in blocks:
        if sheet.has_picture or isinstance(block, b.Hero):
            sheet.has_picture = True
            yield block
            continue
        sheet.has_picture = any(isinstance(each, b.Picture) for each in _inside([block]))
        first = sheet.has_picture or isinstance(block, b.Sentence | b.Title)
        yield b.Hero((block,)) if first else block


def _noted(noted: list[b.Block], blocks: Iterable[b.Block]) -> b.Blocks:
    for block in blocks:
        noted.append(block)
        yield block


def _small_print(sheet: Sheet) -> None:
    """One row of buttons: the formulas, the code and the numbers of all exhibits."""
    formulas = [each for each in sheet.small if isinstance(each, b.Formula)]
    code = [each for each in sheet.small if isinstance(each, b.Code)]
    code.sort(key=lambda each: not each.first)
    numbers = [each for each in sheet.small if isinstance(each, b.Numbers)]
    if sheet.small:
        controls.small_prints(
            sheet.view,
            sheet.page,
            formulas=[(each.lines, each.explained) for each in formulas],
            code=list(dict.fromkeys(thing for each in code for thing in each.objects)),
            numbers=[each.columns for each in numbers],
        )


def _exports(sheet: Sheet) -> None:
    """The downloads: the page, a report, and every picture that has a static form."""
    view, page = sheet.view, sheet.page
    title, file = share.page_title(view, page), sheet.file
    every = [*_inside(sheet.drawn)]
    sentences = any(isinstance(each, b.Sentence) for each in every)
    words = (each for each in every if _is_reading(each)) if sentences else ()
    said = [plain(each.words) for each in words]
    if not said:
        tables = (each for each in every if isinstance(each, b.Table))
        said = [plain(": ".join(row)) for each in tables for row in each.rows]
    share.kept(view, page, said, lambda: html.page(title, sheet.drawn, view, file))
    if any(isinstance(each, b.Picture) for each in _inside(sheet.drawn)):
        st.caption(view.t("take.png"))
    st.caption(view.t("take.report"))
    share.download(
        view,
        f"{page}-report",
        "html",
        lambda: paper.report(title, sheet.drawn, view, file),
        "text/html",
        key=f"{page}.take.report",
        label=view.t("take.paper"),
    )
    for each in every:
        if isinstance(each, b.Link) and each.key:
            st.caption(each.words)
            share.show_link(session.links().change(view.state, **each.choices), each.key)
    stills = (each for each in _inside(sheet.drawn) if isinstance(each, b.Columns) and each.still)
    for each in every:
        if isinstance(each, b.Download) and each.export:
            save(sheet, each)
    for number, each in enumerate(stills):
        name = f"{page}-{number + 1}" if number else page
        st.caption(each.words)
        assert each.still is not None
        share.download(view, name, "svg", each.still, "image/svg+xml", key=f"{name}.take.svg")
    for each in every:
        if isinstance(each, b.Export):
            export(sheet, each)


def _is_reading(block: b.Block) -> TypeGuard[b.Sentence | b.Title]:
    return isinstance(block, b.Sentence) or (isinstance(block, b.Title) and block.large)


def _inside(blocks: Iterable[b.Block]) -> b.Blocks:
    """All blocks, including those inside groups."""
    for block in blocks:
        yield block
        if isinstance(block, b.Columns):
            for column in block.columns:
                yield from _inside(column)
        elif isinstance(block, b.Row | b.Pane | b.Fold | b.Hero):
            yield from _inside(block.blocks)
