"""Draw blocks with Streamlit.

The effect of a control is a `Change`. It is applied before anything is drawn, since Streamlit calls
a widget's callback at the beginning of the run that the widget causes.
"""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import streamlit as st

from explorer.components import heads_view, sent_cell, sent_selection
from explorer.components.mount import view as canvas
from explorer.exhibits import block as b
from explorer.exhibits.escape import escape
from explorer.exhibits.links import State
from explorer.exhibits.view import View
from explorer.ui import controls, history, session, share
from explorer.ui.markdown import has_more, sections
from explorer.ui.parts import pick_model
from explorer.ui.stage import hero, staged
from explorer.ui.tables import table

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
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def drawn(self) -> list[b.Block]:
        """All blocks in page order, including those inside groups."""
        return [block for blocks in self.blocks.values() for block in blocks]


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


def visit_due() -> None:
    """Open the page that a control asked for in the last run."""
    visited = st.session_state.pop(_VISIT, None)
    if visited in session.page_names():
        session.visit(visited)


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


def _address(change: b.Change) -> str:
    """The address of the page that a change opens."""
    links, now = session.links(), session.state()
    left = links.elsewhere(now) if change.elsewhere else now
    return session.address(change.visit, links.change(left, **change.choices(now)))


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


def _hint(sheet: Sheet, block: b.Hint) -> None:
    box = st.warning if block.warns else st.info
    box(block.words, icon=f":material/{block.icon}:")


def _document(sheet: Sheet, block: b.Document) -> None:
    with st.container(border=True, key=block.key):
        before, rest = sections(block.markdown, below=2)
        st.markdown(before)
        for title, text in rest:
            with st.expander(title):
                st.markdown(text)
    if has_more(block.markdown):
        st.caption(block.cut)


def _chart(sheet: Sheet, block: b.Chart) -> None:
    key, more = block.name, {}
    if block.clicks:  # a new key forgets the selected point, so that the next click counts
        key = f"{block.name}.{st.session_state.setdefault(f'{block.name}.turn', 0)}"
        more = {"on_select": partial(_clicked, key, block), "selection_mode": "points"}
    figure = block.draw(dark=sheet.view.dark)
    controls.chart(figure, key, block.alt, below_picture=block.waits, **more)


def _clicked(key: str, block: b.Chart) -> None:
    point = controls.clicked_point(key, len(block.clicks))
    if point is not None:
        st.session_state[f"{block.name}.turn"] += 1
        _make(block.clicks[point])


def _canvas(sheet: Sheet, block: b.Canvas) -> None:
    told = {
        f"on_{event}_change": partial(_sent, block.name, event, change)
        for event, change in block.on.items()
    }
    data = block.payload(controls.picture_file(block.name), _address)
    canvas(block.view)(key=block.name, data=data, **told)


def _all_heads(sheet: Sheet, block: b.AllHeads) -> None:
    heads_view(
        block.grid,
        key=block.name,
        file=controls.picture_file(block.name),
        on_picked=partial(_selected, block),
        on_down=partial(_down, block),
        **block.options,
    )


def _selected(block: b.AllHeads) -> None:
    selection = sent_selection(block.name, block.grid.shape, len(block.options["aggregates"]))
    change = None if selection is None else block.change(selection)
    if change is not None:
        _make(change)


def _down(block: b.AllHeads) -> None:
    place = sent_cell(block.name, block.grid.shape)
    if place is not None and block.down is not None:
        _make(block.down(place))


def _metrics(sheet: Sheet, block: b.Metrics) -> None:
    with st.container(horizontal=True):
        for label, value in block.values:
            st.metric(label, value, width="content")


def _row(block: b.Row) -> Any:
    return st.container(
        horizontal=True,
        vertical_alignment=block.align,
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


def _box(sheet: Sheet, block: b.Pane) -> None:
    with st.container(
        width=block.width or "stretch",
        height=block.height or "content",
        border=block.framed,
        key=block.key,
        gap=block.gap,
    ):
        draw(sheet, block.blocks)


def _fold(sheet: Sheet, block: b.Fold) -> None:
    icon = f":material/{block.icon}:" if block.icon else None
    with (st.expander if block.inline else st.popover)(block.label, icon=icon):
        draw(sheet, block.blocks)


def _sentence(sheet: Sheet, block: b.SentenceLine) -> None:
    view = block.view or sheet.view
    if block.output is not None:
        _output(view, block.output, block.note)
        return
    with staged(st.container()) if block.here else nullcontext():
        controls.sentence_line(view, block.key, block.mapped)


def _output(view: View, output: str, note: str) -> None:
    """The text and an output in the colours of the two streams, and a note."""
    text = view.trace.text
    with controls.sentence_place(f"{text}{output}"):
        colours = {"source": f":green[{escape(text)}]", "output": f":orange[{escape(output)}]"}
        st.markdown(view.t("place.translated", **colours), width="content")
        st.caption(note, width="content")


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
            st.selectbox(block.label, block.options, accept_new_options=block.open, **common)
        elif block.listed:
            st.radio(block.label, block.options, **common)
        elif block.optional:
            st.pills(block.label, block.options, **common)
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
        format=block.form,
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
        type="primary" if block.primary else "tertiary" if block.quiet else "secondary",
        disabled=block.disabled,
        on_click=partial(_make, block.change),
    )


def _download(sheet: Sheet, block: b.Download) -> None:
    if not block.export:
        save(sheet, block)


def save(sheet: Sheet, block: b.Download) -> None:
    """The button that saves a file."""
    name, end = share.file_name(sheet.view, sheet.page), f"-{block.export}" if block.export else ""
    icon, file = None if end else ":material/download:", f"{name}{end}.{block.ending}"
    st.download_button(block.label, block.make, file, key=block.key, on_click="ignore", icon=icon)


def export(sheet: Sheet, block: b.Export) -> None:
    """Draw blocks among the page's exports."""
    is_local = st.get_option("server.address") in ("localhost", "127.0.0.1", "::1")
    for each in block.blocks(is_local):
        if isinstance(each, b.Download):
            save(sheet, each)
        else:
            draw(sheet, (each,))


def _upload(sheet: Sheet, block: b.Upload) -> None:
    def read(file: Any) -> b.Change:
        return block.change(None if file is None else (file.name, file.getvalue()))

    change = partial(_changed, block.key, read)
    st.file_uploader(block.label, key=block.key, max_upload_size=1, on_change=change)


def _several(sheet: Sheet, block: b.Several) -> None:
    st.session_state[block.key] = list(block.now)
    st.multiselect(
        block.label,
        block.options,
        key=block.key,
        max_selections=block.most,
        placeholder=sheet.view.t("place.none_chosen"),
        format_func=block.said,
        on_change=partial(_changed, block.key, block.change),
    )


def _text_box(sheet: Sheet, block: b.TextBox) -> None:
    st.session_state[block.key] = block.now
    common: dict[str, Any] = {
        "key": block.key,
        "max_chars": block.most,
        "help": block.help,
        "width": block.width or "stretch",
        "disabled": block.disabled,
        "on_change": partial(_changed, block.key, block.change),
    }
    if block.height is None:
        st.text_input(block.label, placeholder=block.hint, **common)
    else:
        st.text_area(block.label, height=block.height, **common)


def _pick_model(sheet: Sheet, block: b.PickModel) -> None:
    def choose(name: str) -> None:
        _make(block.change(name))

    with st.container(width=block.width):
        pick_model(sheet.view, block.now, block.label, block.help, choose, block.key)


def _number_box(sheet: Sheet, block: b.NumberBox) -> None:
    st.session_state[block.key] = block.now
    st.number_input(
        block.label,
        block.low,
        block.high,
        key=block.key,
        help=block.help,
        width=block.width or "stretch",
        on_change=partial(_changed, block.key, block.change),
    )


def _link(sheet: Sheet, block: b.Link) -> None:
    if not block.key:
        chosen = session.links().change(State(lang=sheet.view.lang), **block.choices)
        st.code(share.address(chosen), language=None, wrap_lines=True)


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


_DRAW: dict[type, Callable[[Sheet, Any], object]] = {
    b.Title: _title,
    b.Prose: lambda _, block: st.markdown(controls.explained(block.words), help=block.help),
    b.Note: lambda _, block: st.caption(controls.explained(block.words), help=block.help),
    b.Hint: _hint,
    b.Sentence: lambda _, block: controls.reading(block.name, block.words),
    b.Verbatim: lambda _, block: st.code(block.text, language=block.language, wrap_lines=True),
    b.Document: _document,
    b.Table: lambda _, block: table(block.head, block.rows, block.align),
    b.Metrics: _metrics,
    b.Progress: lambda _, block: st.progress(block.share),
    b.Chart: _chart,
    b.Heatmaps: lambda sheet, block: controls.heatmaps(sheet.view, block.panels, block.name),
    b.Canvas: _canvas,
    b.AllHeads: _all_heads,
    b.Formula: _kept,
    b.Code: _kept,
    b.Numbers: _kept,
    b.Row: _row_drawn,
    b.Columns: _columns,
    b.Pane: _box,
    b.Fold: _fold,
    b.Hero: _hero,
    b.SentenceLine: _sentence,
    b.Changes: lambda sheet, block: controls.edits_bar(sheet.view, block.key, reset=_reset),
    b.Offer: lambda sheet, block: controls.offer(sheet.view, block.lesson),
    b.Remember: lambda _, block: _make(block.change),
    b.Pick: _pick,
    b.Slider: _slider,
    b.Toggle: _toggle,
    b.Button: _button,
    b.Undo: _undo,
    b.Several: _several,
    b.TextBox: _text_box,
    b.NumberBox: _number_box,
    b.PickModel: _pick_model,
    b.Link: _link,
    b.Download: _download,
    b.Export: lambda sheet, block: None,
    b.Upload: _upload,
}
