"""Draw blocks with Streamlit."""

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import streamlit as st

from explorer.components.heads_view import heads_view, sent_cell, sent_selection
from explorer.components.mount import sent, view as canvas
from explorer.exhibits import block as b
from explorer.exhibits.block import escape
from explorer.exhibits.view import View
from explorer.render.controls import CONTROLS, Sheet, apply, save
from explorer.ui import controls, session

_RULES = {"l": ":--", "r": "--:"}


def draw(sheet: Sheet, blocks: Iterable[b.Block]) -> None:
    """Draw blocks in sequence, each as soon as it is available."""
    for block in blocks:
        if isinstance(block, b.Hero):
            outside, sheet.in_picture = sheet.in_picture, True
            with sheet.above:
                draw(sheet, block.blocks)
            sheet.in_picture = outside
        else:
            _DRAW[type(block)](sheet, block)


def _address(change: b.Change) -> str:
    """The address of the page that a change opens."""
    links, now = session.links(), session.state()
    left = links.elsewhere(now) if change.elsewhere else now
    return session.address(change.visit, links.change(left, **change.choices(now)))


def _sent(key: str, event: str, change: Callable[[Any], b.Change | None]) -> None:
    update = change(getattr(st.session_state.get(key), event, None))
    if update is not None:
        apply(update)


def _title(sheet: Sheet, block: b.Title) -> None:
    if block.large:
        st.subheader(block.words, anchor=False)
    else:
        st.markdown(f"**{block.words}**")


def _hint(sheet: Sheet, block: b.Hint) -> None:
    box = st.error if block.fails else st.warning if block.warns else st.info
    box(block.words, icon=f":material/{block.icon}:")


def _reading(sheet: Sheet, block: b.Sentence) -> None:
    controls.reading(block.name, block.words, sheet.told if sheet.in_picture else None)


def _document(sheet: Sheet, block: b.Document) -> None:
    before, *rest = re.split(r"^## (.*)\n", block.markdown, flags=re.MULTILINE)
    with st.container(border=True, key=block.key):
        st.markdown(before.replace("# ", "### ", 1))  # below the headings of the page
        for title, text in zip(rest[::2], rest[1::2], strict=True):
            with st.expander(title):
                st.markdown(text)


def _chart(sheet: Sheet, block: b.Chart) -> None:
    key, more = block.name, {}
    if block.clicks:  # a new key forgets the selected point, so that the next click counts
        key = f"{block.name}.{st.session_state.setdefault(f'{block.name}.turn', 0)}"
        more = {"on_select": partial(_clicked, key, block), "selection_mode": "points"}
    figure = block.draw(dark=sheet.view.dark)
    controls.chart(figure, key, block.alt, b.picture_file(sheet.file, block.name), **more)


def _clicked(key: str, block: b.Chart) -> None:
    point = controls.clicked_point(key, len(block.clicks))
    if point is not None:
        st.session_state[f"{block.name}.turn"] += 1
        apply(block.clicks[point])


def _canvas(sheet: Sheet, block: b.Canvas) -> None:
    told = {
        f"on_{event}_change": partial(_sent, block.name, event, change)
        for event, change in block.on.items()
    }
    data = block.payload(b.picture_file(sheet.file, block.name), _address)
    canvas(block.view)(key=block.name, data=data, **told)


def _all_heads(sheet: Sheet, block: b.AllHeads) -> None:
    heads_view(
        block.grid,
        key=block.name,
        file=b.picture_file(sheet.file, block.name),
        on_picked=partial(_selected, block),
        on_down=partial(_down, block),
        on_asked=partial(_asked, block),
        **block.options,
    )


def _selected(block: b.AllHeads) -> None:
    selection = sent_selection(block.name, block.grid.shape, len(block.options["aggregates"]))
    change = None if selection is None else block.change(selection)
    if change is not None:
        apply(change)


def _down(block: b.AllHeads) -> None:
    place = sent_cell(block.name, block.grid.shape)
    if place is not None and block.down is not None:
        apply(block.down(place))


def _asked(block: b.AllHeads) -> None:
    name = sent(block.name, "asked")
    change = block.asked(name) if isinstance(name, str) else None
    if change is not None:
        apply(change)


def _metrics(sheet: Sheet, block: b.Metrics) -> None:
    with st.container(horizontal=True):
        for label, value in block.values:
            st.metric(label, value, width="content")


def _row(sheet: Sheet, block: b.Row) -> None:
    with st.container(horizontal=True, vertical_alignment=block.align, gap=block.gap):
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
    with st.container() if block.here else sheet.above:
        controls.sentence_line(view, block.key, block.mapped)


def _output(view: View, output: str, note: str) -> None:
    """The text and an output in the colours of the two streams, and a note."""
    text = view.trace.text
    with controls.sentence_place(f"{text}{output}"):
        colours = {"source": f":green[{escape(text)}]", "output": f":orange[{escape(output)}]"}
        st.markdown(view.t("place.translated", **colours), width="content")
        st.caption(note, width="content")


def _table(_: Sheet, block: b.Table) -> None:
    """A table in Markdown. On a narrow screen it scrolls (page.css)."""
    rules = [_RULES[side] for side in block.align or "l" + "r" * (len(block.head) - 1)]
    lines = (block.head, rules, *block.rows)
    st.markdown("\n".join("| " + " | ".join(line) + " |" for line in lines))


def export(sheet: Sheet, block: b.Export) -> None:
    """Draw blocks among the page's exports."""
    is_local = st.get_option("server.address") in ("localhost", "127.0.0.1", "::1")
    for piece in block.blocks(is_local):
        if isinstance(piece, b.Download):
            save(sheet, piece, ":material/download:")
        else:
            draw(sheet, (piece,))


def _reset() -> None:
    session.change_edits(())
    session.change(pads=None)


def _changes(sheet: Sheet, block: b.Changes) -> None:
    with sheet.above:
        controls.edits_bar(sheet.view, block.key, reset=_reset)


def _kept(sheet: Sheet, block: b.Small) -> None:
    sheet.small.append(block)


_DRAW: dict[type, Callable[[Sheet, Any], object]] = {
    b.Title: _title,
    b.Prose: lambda _, block: st.markdown(controls.explained(block.words), help=block.help),
    b.Note: lambda _, block: st.caption(controls.explained(block.words), help=block.help),
    b.Hint: _hint,
    b.Sentence: _reading,
    b.Verbatim: lambda _, block: st.code(block.text, language=block.language, wrap_lines=True),
    b.Document: _document,
    b.Table: _table,
    b.Metrics: _metrics,
    b.ProgressBar: lambda _, block: st.progress(block.share, block.words or None),
    b.Chart: _chart,
    b.Matrices: lambda sheet, block: _canvas(sheet, block.canvas(sheet.view)),
    b.Canvas: _canvas,
    b.AllHeads: _all_heads,
    b.Formula: _kept,
    b.Code: _kept,
    b.Numbers: _kept,
    b.Row: _row,
    b.Columns: _columns,
    b.Pane: _box,
    b.Fold: _fold,
    b.SentenceLine: _sentence,
    b.Changes: _changes,
    b.Export: lambda sheet, block: None,
    b.Live: lambda sheet, block: sheet.live.append(block),
    **CONTROLS,
}
