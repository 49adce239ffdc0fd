"""Render a page of the app: its exhibits in sequence, with blocks drawn by Streamlit.

Nothing here knows an exhibit. What a control does is a `Change`; whatever the browser sent is read
before anything is drawn, since a widget calls back at the beginning of the run that it causes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import streamlit as st

from explorer.components.mount import view as canvas
from explorer.components.standalone import recorded
from explorer.engine.asking import Request, ask, is_answered
from explorer.exhibits import block as b
from explorer.exhibits.escape import plain
from explorer.exhibits.exhibit import Exhibit, exhibit_of
from explorer.exhibits.view import View
from explorer.problems import InputProblem
from explorer.render import html, paper
from explorer.ui import controls, history, painting, running, session, share
from explorer.ui.current import latest
from explorer.ui.page import fragment
from explorer.ui.parts import one_chosen, pick_part
from explorer.ui.problem import show_problem
from explorer.ui.stage import Place, hero, places, stage, staged
from explorer.ui.tables import table

Parts = Mapping[str, Sequence[str]]
_VISIT = "render.visit"


@dataclass
class Sheet:
    """The state of drawing one part of a page; collects its blocks for the formulas, code, numbers
    and exports below.
    """

    view: View
    page: str
    small: list[b.Small] = field(default_factory=list)
    has_picture: bool = False
    blocks: dict[str, list[b.Block]] = field(default_factory=dict)
    problems: set[tuple[str, str]] = field(default_factory=set)

    @property
    def drawn(self) -> list[b.Block]:
        """All blocks in the order in which they stand."""
        return [block for blocks in self.blocks.values() for block in blocks]


def draw_page(view: View, page: str, parts: Parts) -> None:
    """The page `page`: what it is about, and the exhibits of its part that is open.

    `parts` are the addresses of their exhibits by the name of each part, "" for one without parts.
    """
    controls.opening(view, page)
    _below(view, page, parts)


@fragment
def _below(view: View, page: str, parts: Parts) -> None:
    """The fragment that is redrawn after a change on the page, with the current choices."""
    visited = st.session_state.pop(_VISIT, None)
    if visited is not None:
        session.visit(visited)
    sheet = Sheet(latest(view), page)
    place = st.container(key=f"share-{page}", horizontal=True, horizontal_alignment="right")
    with recorded(share.file_name(sheet.view, page)), stage():
        _part(sheet, parts)
    with place, st.popover(sheet.view.t("take.title"), icon=":material/download:"):
        _exports(sheet)
    session.write_due_link()


def _part(sheet: Sheet, parts: Parts) -> None:
    view, names = sheet.view, tuple(parts)
    part = one_chosen(view, "part", names)
    if len(names) > 1:
        pick_part(view, sheet.page, names)
    exhibits = [exhibit_of(name) for name in parts[part]]
    drawn = {
        each: partial(_exhibit, sheet, each, place)
        for each, place in zip(exhibits, places(len(exhibits)), strict=True)
    }
    sheet.blocks = {each.name: [] for each in exhibits}
    # Draw first an exhibit whose inputs have just changed: it may be below the screen.
    first = [drawn[each] for each in exhibits if each.answers and _is_new(sheet, each)]
    painting.in_order([*drawn.values()], first=first[0] if first else None)
    for each in exhibits:
        if each.needs is not None and not each.needs.met(view.loaded):
            st.caption(view.t(f"needs.{each.needs.name}"))
    _small_print(sheet)


def _is_new(sheet: Sheet, exhibit: Exhibit[Any]) -> bool:
    answered = tuple(exhibit.chosen(exhibit.answers, sheet.view).values())
    return painting.is_new(exhibit.name, answered)


def _exhibit(sheet: Sheet, exhibit: Exhibit[Any], place: Place) -> None:
    with staged(place):
        _in_place(sheet, exhibit)


def _in_place(sheet: Sheet, exhibit: Exhibit[Any]) -> None:
    view = sheet.view
    if exhibit.needs is not None and not exhibit.needs.met(view.loaded):
        return
    try:
        request = exhibit.request(view)
        if request is None:
            _shown(sheet, exhibit, None)
        elif not request.takes_long or is_answered(request):
            _shown(sheet, exhibit, ask(request))
        else:
            _awaited(sheet, exhibit, request)
    except InputProblem as problem:
        if (problem.key, str(problem.values)) not in sheet.problems:
            show_problem(problem, sheet.view.lang)
        sheet.problems.add((problem.key, str(problem.values)))


def _awaited(sheet: Sheet, exhibit: Exhibit[Any], request: Request[Any]) -> None:
    """Show the progress of a computation, then the exhibit."""

    def work(tell: Callable[[int, int], bool]) -> tuple[Any]:
        return (ask(request, tell),)

    view, name = sheet.view, f"{exhibit.name}.job"
    found = running.awaited(name, request.address, work, view.t(exhibit.working), view.lang)
    if found is not None:
        _shown(sheet, exhibit, found[0])


def _shown(sheet: Sheet, exhibit: Exhibit[Any], answer: Any) -> None:
    shown = exhibit.show(answer, sheet.view)
    draw(sheet, _picture_first(sheet, _noted(sheet.blocks[exhibit.name], shown)))


def _picture_first(sheet: Sheet, blocks: Iterable[b.Block]) -> Iterator[b.Block]:
    """Place the first picture of a page, with its title and its sentence, above the controls."""
    for block in blocks:
        if sheet.has_picture or isinstance(block, b.Hero):
            sheet.has_picture = True
            yield block
            continue
        sheet.has_picture = any(isinstance(each, b.Picture) for each in _inside([block]))
        first = sheet.has_picture or isinstance(block, b.Sentence | b.Title)
        yield b.Hero((block,)) if first else block


def _noted(noted: list[b.Block], blocks: Iterable[b.Block]) -> Iterator[b.Block]:
    for block in blocks:
        noted.append(block)
        yield block


def draw(sheet: Sheet, blocks: Iterable[b.Block]) -> None:
    """Draw blocks in sequence, each as soon as it is available."""
    waiting: list[tuple[Any, b.Row]] = []
    for block in blocks:
        if isinstance(block, b.Row) and block.waits:
            waiting.append((_row(block), block))
            continue
        _DRAW[type(block)](sheet, block)
        for place, row in waiting:
            with place:
                draw(sheet, row.blocks)
        waiting = []


def _small_print(sheet: Sheet) -> None:
    """One row of buttons: the formulas, the code and the numbers of all exhibits."""
    formulas = [each for each in sheet.small if isinstance(each, b.Formula)]
    code = [each for each in sheet.small if isinstance(each, b.Code)]
    numbers = [each for each in sheet.small if isinstance(each, b.Numbers)]
    if sheet.small:
        controls.small_prints(
            sheet.view,
            sheet.page,
            formulas=[(each.lines, each.explained) for each in formulas],
            code=[thing for each in code for thing in each.objects],
            numbers=[each.columns for each in numbers],
        )


def _exports(sheet: Sheet) -> None:
    """The downloads: the page, a report, and every picture that has a static form."""
    view, page = sheet.view, sheet.page
    title, file = share.page_title(view, page), share.file_name(view, page)
    said = [plain(each.words) for each in _inside(sheet.drawn) if isinstance(each, b.Sentence)]
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
    stills = (each for each in _inside(sheet.drawn) if isinstance(each, b.Columns) and each.still)
    for number, each in enumerate(stills):
        name = f"{page}-{number + 1}" if number else page
        st.caption(each.words)
        assert each.still is not None
        share.download(view, name, "svg", each.still, "image/svg+xml", key=f"{name}.take.svg")


def _inside(blocks: Iterable[b.Block]) -> Iterator[b.Block]:
    """All blocks, including those inside groups."""
    for block in blocks:
        yield block
        if isinstance(block, b.Columns):
            for column in block.columns:
                yield from _inside(column)
        elif isinstance(block, b.Row | b.Box | b.Fold | b.Hero):
            yield from _inside(block.blocks)


# What a control does.


def _make(change: b.Change) -> None:
    """Apply a change to the choices; a new page is opened by the next run."""
    chosen = dict(change.choices(session.state()))
    if change.visit:
        st.session_state[_VISIT] = change.visit
    if change.elsewhere:
        session.change_site(**chosen)
        return
    if "edits" in chosen:
        history.change_edits(chosen.pop("edits"))
    session.change(**chosen)


def _changed(key: str, change: Callable[[Any], b.Change]) -> None:
    _make(change(st.session_state[key]))


def _sent(key: str, event: str, change: Callable[[Any], b.Change | None]) -> None:
    found = change(getattr(st.session_state.get(key), event, None))
    if found is not None:
        _make(found)


# How each block is drawn.


def _title(sheet: Sheet, block: b.Title) -> None:
    if block.large:
        st.subheader(block.words, anchor=False)
    else:
        st.markdown(f"**{block.words}**")


def _canvas(sheet: Sheet, block: b.Canvas) -> None:
    told = {
        f"on_{event}_change": partial(_sent, block.name, event, change)
        for event, change in block.on.items()
    }
    file = controls.picture_file(block.name)
    canvas(block.view)(key=block.name, data=block.pack(file), **told)


def _row(block: b.Row) -> Any:
    return st.container(
        horizontal=True,
        vertical_alignment="center" if block.middle else "bottom",
        gap=block.gap,
    )


def _row_drawn(sheet: Sheet, block: b.Row) -> None:
    with _row(block):
        draw(sheet, block.blocks)


def _columns(sheet: Sheet, block: b.Columns) -> None:
    places = st.columns(list(block.widths) or len(block.columns), gap=block.gap)
    for place, column in zip(places, block.columns, strict=True):
        with place:
            draw(sheet, column)


def _box(sheet: Sheet, block: b.Box) -> None:
    with st.container(width=block.width):
        draw(sheet, block.blocks)


def _fold(sheet: Sheet, block: b.Fold) -> None:
    with st.popover(block.label):
        draw(sheet, block.blocks)


def _hero(sheet: Sheet, block: b.Hero) -> None:
    with hero():
        draw(sheet, block.blocks)


def _pick(sheet: Sheet, block: b.Pick) -> None:
    st.session_state[block.key] = block.now
    change = block.change or (lambda option: b.choose(**{block.field: option}))
    hidden = "collapsed" if block.quiet else "visible"
    common: dict[str, Any] = {
        "key": block.key,
        "format_func": block.said,
        "on_change": partial(_changed, block.key, change),
        "help": block.help,
        "label_visibility": hidden,
    }
    with nullcontext() if block.width is None else st.container(width=block.width):
        if block.menu:
            st.selectbox(block.label, block.options, **common)
        else:
            st.segmented_control(block.label, block.options, required=True, **common)


def _slider(sheet: Sheet, block: b.Slider) -> None:
    st.session_state[block.key] = block.now
    change = partial(_changed, block.key, block.change)
    if block.stops:
        st.select_slider(
            block.label,
            sorted({*block.stops, int(block.now)}),
            key=block.key,
            format_func="{:,}".format,
            width=block.width or "stretch",
            on_change=change,
        )
        return
    st.slider(
        block.label,
        block.low,
        block.high,
        key=block.key,
        step=block.step,
        help=block.help,
        width=block.width or "stretch",
        disabled=block.disabled,
        on_change=change,
    )


def _toggle(sheet: Sheet, block: b.Toggle) -> None:
    st.session_state[block.key] = block.now
    change = partial(_changed, block.key, block.change)
    st.toggle(block.label, key=block.key, help=block.help, on_change=change)


def _button(sheet: Sheet, block: b.Button) -> None:
    st.button(
        block.label,
        key=block.key,
        icon=f":material/{block.icon}:" if block.icon else None,
        type="tertiary" if block.quiet else "secondary",
        disabled=block.disabled,
        on_click=partial(_make, block.change),
    )


def _several(sheet: Sheet, block: b.Several) -> None:
    st.session_state[block.key] = list(block.now)
    st.multiselect(
        block.label,
        block.options,
        key=block.key,
        max_selections=block.most,
        format_func=block.said,
        on_change=partial(_changed, block.key, block.change),
    )


def _text_box(sheet: Sheet, block: b.TextBox) -> None:
    st.session_state[block.key] = block.now
    change = partial(_changed, block.key, block.change)
    st.text_area(block.label, key=block.key, height=block.height, on_change=change)


def _undo(sheet: Sheet, block: b.Undo) -> None:
    for name, act, possible in (
        ("undo", history.undo, history.can_undo()),
        ("redo", history.redo, history.can_redo()),
    ):
        st.button(
            sheet.view.t(f"{block.prefix}.{name}"),
            key=f"{block.prefix}.{name}",
            icon=f":material/{name}:",
            disabled=not possible,
            on_click=act,
        )


def _reset() -> None:
    history.change_edits(())
    session.change(pads=None)


def _kept(sheet: Sheet, block: b.Small) -> None:
    sheet.small.append(block)


def _words(write: Callable[[str], Any]) -> Callable[[Sheet, Any], None]:
    return lambda sheet, block: write(block.words)


_DRAW: dict[type, Callable[[Sheet, Any], object]] = {
    b.Title: _title,
    b.Prose: _words(lambda words: st.markdown(words)),
    b.Note: _words(lambda words: st.caption(words)),
    b.Hint: lambda _, block: st.info(block.words, icon=f":material/{block.icon}:"),
    b.Sentence: lambda _, block: controls.reading(block.name, block.words),
    b.Verbatim: lambda _, block: st.code(block.text, language=block.language, wrap_lines=True),
    b.Table: lambda _, block: table(block.head, block.rows, block.align),
    b.Chart: lambda sheet, block: controls.chart(
        block.draw(dark=sheet.view.dark), block.name, block.alt, below_picture=block.waits
    ),
    b.Heatmaps: lambda sheet, block: controls.heatmaps(sheet.view, block.panels, block.name),
    b.Canvas: _canvas,
    b.Formula: _kept,
    b.Code: _kept,
    b.Numbers: _kept,
    b.Row: _row_drawn,
    b.Columns: _columns,
    b.Box: _box,
    b.Fold: _fold,
    b.Hero: _hero,
    b.SentenceLine: lambda sheet, _: controls.sentence_line(sheet.view),
    b.Changes: lambda sheet, block: controls.edits_bar(sheet.view, block.key, reset=_reset),
    b.Offer: lambda sheet, block: controls.offer(sheet.view, block.lesson),
    b.Pick: _pick,
    b.Slider: _slider,
    b.Toggle: _toggle,
    b.Button: _button,
    b.Undo: _undo,
    b.Several: _several,
    b.TextBox: _text_box,
}
