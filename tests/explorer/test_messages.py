"""Values that no widget and no view of ours would send: each is ignored."""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.state.common import WidgetMetadata
from streamlit.runtime.state.session_state import SessionState, WStates
from streamlit.testing.v1 import AppTest

from explorer import components, library, shell
from explorer.components.mount import view
from explorer.messages import MOST_BYTES
from explorer.patches import check_messages
from explorer.scripts import FOLDER, link

SHIPPED = library.CHECKPOINTS
WRONG: tuple[Any, ...] = (
    *(None, True, -1, 2**70, 0.5, "", "x" * 500, "\x00", [], [[]], [-1, -1, -1, -1], [1e300] * 4),
    *([None] * 4, [[0, 0]] * 9, {}, {"head": {}}),
)
READ = re.compile(r'(?:\.get\(|\[)"(\w+)"')
FIELDS = {
    name
    for source in (*Path(components.__file__).parent.glob("*.py"), Path(shell.__file__))
    for name in READ.findall(source.read_text("utf-8"))
}
"""All names that are looked up in a message, and some others."""
SENT = re.compile(r'(?:setTriggerValue|send)\("(\w+)"')
EVENTS = {
    (path.stem, event)
    for path in FOLDER.glob("*.css")
    if path.with_suffix(".js").exists()
    for event in SENT.findall(link(FOLDER, f"{path.stem}.js"))
}
"""Every view with each event that its script sends."""
UNREADABLE = (
    *("[", "NaN", "[1e999]", "[" * 100_000, json.dumps("\ud800"), json.dumps("x" * MOST_BYTES)),
    json.dumps({"message": {"sentence": "a \ud800"}}),
)
PAGES = ("start", "heads", "masks", "decoding")
VIEWS = (
    *((page, {}) for page in ("heads", "masks", "model")),
    ("decoding", {"part": "branches"}),
    ("heads", {"model": "pictured", "text": "Brown @serif"}),
    ("", {}),  # the whole app, with its frame
)
"""Pages which together have every view."""


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setattr(SessionState, "set_widgets_from_proto", SessionState.set_widgets_from_proto)
    monkeypatch.setattr(WStates, "set_widget_metadata", WStates.set_widget_metadata)
    check_messages()


def known(at: AppTest) -> dict[str, WidgetMetadata[Any]]:
    """The widgets by their identity."""
    return at.session_state._state._state._new_widget_state.widget_metadata


def send(at: AppTest, states: list[WidgetState]) -> None:
    at._run(WidgetStates(widgets=states))


@pytest.fixture
def called(monkeypatch) -> Iterator[set[tuple[str, str]]]:
    events: set[tuple[str, str]] = set()
    register = st.components.v2.component

    def heard(name: str, event: str, callback: Callable[[], None]) -> None:
        events.add((name.removeprefix("headlight_"), event))
        callback()

    def component(name: str, **files: Any) -> Callable[..., Any]:
        mount = register(name, **files)

        def mounted(**given: Any) -> Any:
            for option, callback in given.items():
                if option.startswith("on_"):
                    event = option.removeprefix("on_").removesuffix("_change")
                    given[option] = partial(heard, name, event, callback)
            return mount(**given)

        return mounted

    monkeypatch.setattr(st.components.v2, "component", component)
    view.cache_clear()
    yield events
    view.cache_clear()


def _app() -> None:
    from explorer.shell import run

    run()


def test_no_callback_of_a_view_raises(open_page, called, shelf, tmp_path, monkeypatch):
    for folder in (*shelf.iterdir(), SHIPPED / "reader"):
        name = "pictured" if folder.parent == SHIPPED else folder.name
        (tmp_path / name).symlink_to(folder)
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path)
    for page, params in VIEWS:
        app = AppTest.from_function(_app, default_timeout=60)
        at = open_page(page, **params) if page else app.run()
        for number, wrong in enumerate(WRONG):
            fields = dict.fromkeys(FIELDS, wrong)
            forms = (wrong, fields, {"chosen": fields})
            states = []
            for key, widget in known(at).items():
                names = sorted(widget.callbacks or {})
                values = {name: forms[(at + number) % 3] for at, name in enumerate(names)}
                if widget.value_type == "json_value":
                    states.append(WidgetState(id=key, json_value=json.dumps(values)))
                elif widget.value_type == "json_trigger_value":
                    events = [{"event": name, "value": value} for name, value in values.items()]
                    states.append(WidgetState(id=key, json_trigger_value=json.dumps(events)))
            send(at, states)
    assert called == EVENTS


@pytest.mark.parametrize("page", PAGES)
def test_no_value_of_another_type_reaches_a_widget(open_page, page):
    at = open_page(page)
    values: tuple[dict[str, Any], ...] = (
        *({"bool_value": True}, {"int_value": -7}, {"double_value": 1e300}, {"bytes_value": b"?"}),
        *({"string_value": "none of them"}, {"json_value": "{}"}, {"trigger_value": True}, {}),
        *({"string_array_value": {"data": ["none of them"]}}, {"int_array_value": {"data": [-9]}}),
        {"double_array_value": {"data": [1e300, -1e300]}},
        {
            "file_uploader_state_value": {
                "uploaded_file_info": [{"file_id": "gone", "name": "a.txt"}]
            }
        },
    )
    # Streamlit forgets a widget's type after an empty message. A press would leave the page.
    after_nothing = (({}, value) if "trigger_value" not in value else () for value in values)
    for value in (*values, *chain.from_iterable(after_nothing)):
        send(at, [WidgetState(id=name, **value) for name in known(at) if "view" not in name])


def test_unreadable_json_is_ignored(open_page):
    at = open_page("start")
    before = at.session_state["state"]
    views = [name for name, widget in known(at).items() if widget.value_type == "json_value"]
    for text in UNREADABLE:
        send(at, [WidgetState(id=name, json_value=text) for name in views])
        assert at.session_state["state"] == before
