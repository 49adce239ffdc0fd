"""Draw controls with Streamlit, and apply their changes.

A change is applied before anything is drawn, since Streamlit calls a widget's callback at the
beginning of the run that the widget causes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import streamlit as st

from explorer.exhibits import block as b
from explorer.exhibits.links import State
from explorer.exhibits.view import View
from explorer.ui import controls, session, share, trained
from explorer.ui.controls import pick_model
from explorer.ui.current import redraw_around

_VISIT = "render.visit"
Place = st.delta_generator.DeltaGenerator


@dataclass
class Sheet:
    """One part of a page while it is drawn: its blocks, for the formulas, code, numbers and exports
    below them. `file` is the prefix of the names of saved files.

    Every page begins with its sentence and its main pictures. `above` is their place, above the
    controls of the current exhibit; `told` is the place of the rest of their text. `in_picture`:
    whether a main picture is being drawn.
    """

    view: View
    page: str
    file: str
    above: Place
    told: Place
    in_picture: bool = False
    small: list[b.Small] = field(default_factory=list)
    live: list[b.Live] = field(default_factory=list)
    has_picture: bool = False
    blocks: dict[str, list[b.Block]] = field(default_factory=dict)
    problems: set[tuple[str, str]] = field(default_factory=set)
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def drawn(self) -> list[b.Block]:
        """All blocks in page order, including those inside groups."""
        return [block for blocks in self.blocks.values() for block in blocks]


def visit_due() -> None:
    """Open the page that a control asked for in the last run."""
    visited = st.session_state.pop(_VISIT, None)
    if visited in session.pages():
        session.visit(visited)


def apply(change: b.Change) -> None:
    """Apply a change to the choices; a new page is opened by the next run."""
    chosen = dict(change.choices(session.state()))
    if change.model is not None:
        chosen["model"] = trained.keep(change.model())
    if "text" in chosen:
        redraw_around()
    if change.visit:
        st.session_state[_VISIT] = change.visit
    if change.elsewhere:
        session.change_site(**chosen)
        return
    if "edits" in chosen:
        session.change_edits(chosen.pop("edits"))
    session.change(**chosen)


def _changed(
    key: str, change: Callable[[Any], b.Change], fits: Callable[[Any], bool] = lambda value: True
) -> None:
    """Apply a change to the value of a widget, unless it is none that the widget offers."""
    value = st.session_state[key]
    if fits(value):
        apply(change(value))


def _pick(sheet: Sheet, block: b.Pick) -> None:
    st.session_state[block.key] = block.now

    def fits(value: Any) -> bool:
        is_none = value is None and block.form == "optional"
        return value in block.options or block.form == "open" or is_none

    common: dict[str, Any] = {
        "label": block.label,
        "options": list(block.options),
        "key": block.key,
        "format_func": lambda option: block.options.get(option, option),
        "on_change": partial(_changed, block.key, block.change, fits),
        "help": block.display.help,
        "label_visibility": "collapsed" if block.display.quiet else "visible",
    }
    if block.display.width is not None:
        common["width"] = block.display.width
    if block.form in ("menu", "open"):
        st.selectbox(accept_new_options=block.form == "open", **common)
    elif block.form == "list":
        st.radio(**common)
    elif block.form == "optional":
        st.pills(**common)
    else:
        st.segmented_control(required=True, **common)


def _slider(sheet: Sheet, block: b.Slider) -> None:
    st.session_state[block.key] = block.now
    scale = block.scale
    low, high = (scale.low, scale.high) if isinstance(scale, b.Span) else (scale[0], scale[-1])

    def fits(value: Any) -> bool:
        return isinstance(value, int | float) and low <= value <= high

    common = _displayed(block) | {"on_change": partial(_changed, block.key, block.change, fits)}
    if isinstance(scale, b.Span):
        draw = st.number_input if block.typed else st.slider
        draw(min_value=low, max_value=high, step=scale.step, format=scale.form, **common)
    else:
        stops = sorted({*scale, int(block.now)})
        st.select_slider(options=stops, format_func="{:,}".format, **common)


def _displayed(block: b.Slider | b.TextBox) -> dict[str, Any]:
    display = block.display
    shown = {"help": display.help, "width": display.width or "stretch"}
    return {"label": block.label, "key": block.key, "disabled": display.disabled, **shown}


def _toggle(sheet: Sheet, block: b.Toggle) -> None:
    st.session_state[block.key] = block.now
    change = partial(_changed, block.key, block.change)
    st.toggle(block.label, key=block.key, help=block.help, on_change=change)


def _button(sheet: Sheet, block: b.Button) -> None:
    st.button(
        block.label,
        key=block.key,
        icon=f":material/{block.icon}:" if block.icon else None,
        type="tertiary" if block.kind == "quiet" else block.kind,
        disabled=block.disabled,
        help=block.help,
        on_click=partial(apply, block.change),
    )


def _download(sheet: Sheet, block: b.Download) -> None:
    if not block.export:
        save(sheet, block, ":material/download:")


def save(sheet: Sheet, block: b.Download, icon: str | None = None) -> None:
    """The button that saves a file."""
    end = f"-{block.export}" if block.export else ""
    file = f"{block.name or sheet.file}{end}.{block.ending}"
    common: dict[str, Any] = {"key": block.key, "on_click": "ignore", "help": block.help}
    st.download_button(block.label, block.make, file, icon=icon, **common)


def _upload(sheet: Sheet, block: b.Upload) -> None:
    def read(file: Any) -> b.Change:
        return block.change(None if file is None else (file.name, file.getvalue()))

    change = partial(_changed, block.key, read)
    st.file_uploader(block.label, key=block.key, max_upload_size=1, on_change=change)


def _several(sheet: Sheet, block: b.Several) -> None:
    st.session_state[block.key] = list(block.now)
    st.multiselect(
        block.label,
        list(block.options),
        key=block.key,
        max_selections=block.most,
        placeholder=block.display.hint or sheet.view.t("place.none_chosen"),
        format_func=block.options.__getitem__,
        on_change=partial(
            _changed,
            block.key,
            block.change,
            lambda values: all(v in block.options for v in values),
        ),
    )


def _text_box(sheet: Sheet, block: b.TextBox) -> None:
    st.session_state[block.key] = block.now

    def fits(text: str) -> bool:
        return len(text) <= (block.most or len(text))

    common = _displayed(block) | {"on_change": partial(_changed, block.key, block.change, fits)}
    common |= {"max_chars": block.most, "placeholder": block.display.hint}
    if block.height is None:
        st.text_input(**common)
    else:
        st.text_area(height=block.height, **common)


def _pick_model(sheet: Sheet, block: b.PickModel) -> None:
    def choose(name: str) -> None:
        apply(block.change(name))

    with st.container(width=block.width):
        pick_model(sheet.view, block.now, block.label, block.help, choose, block.key)


def _link(sheet: Sheet, block: b.Link) -> None:
    if not block.key:
        chosen = session.links().change(State(lang=sheet.view.lang), **block.choices)
        st.code(share.address(chosen), language=None, wrap_lines=True)


def _undo(sheet: Sheet, block: b.Undo) -> None:
    steps: tuple[session.EditStep, ...] = ("undo", "redo")
    for name in filter(session.edits_of, steps):
        st.button(
            sheet.view.t(block.prefix, name),
            key=f"{block.prefix}.{name}",
            icon=f":material/{name}:",
            on_click=session.restore_edits,
            args=(name,),
        )


CONTROLS: dict[type, Callable[[Sheet, Any], object]] = {
    b.Offer: lambda sheet, block: controls.offer(sheet.view, block.lesson),
    b.Remember: lambda _, block: apply(block.change),
    b.Pick: _pick,
    b.Slider: _slider,
    b.Toggle: _toggle,
    b.Button: _button,
    b.Undo: _undo,
    b.Several: _several,
    b.TextBox: _text_box,
    b.PickModel: _pick_model,
    b.Link: _link,
    b.Download: _download,
    b.Upload: _upload,
}
"""The function that draws each kind of control."""
