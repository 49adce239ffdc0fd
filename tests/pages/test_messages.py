"""Values that no widget and no view of ours would send: each is ignored."""

import json
from typing import Any

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.state.session_state import SessionState
from streamlit.testing.v1 import AppTest

from explorer.incoming import MOST_BYTES
from explorer.patches import check_messages

WRONG: tuple[Any, ...] = (
    *(None, True, -1, 2**70, 0.5, "", "x" * 500, "\x00", [], [[]], [-1, -1, -1, -1], [1e300] * 4),
    *([None] * 4, [[0, 0]] * 9, {}, {"head": {}}),
)
NAMES = (
    *("picked", "down", "taken", "rested", "painted", "drawn", "hidden", "due", "page"),
    *("sentence", "message"),
)
"""All events of all views."""
FIELDS = (
    *("opened", "pinned", "query", "key", "scale", "turn", "door", "mask", "link", "head", "step"),
    *("layer", "cells", "open", "lang", "sentence", "chosen"),
)
"""All names in their messages."""
UNREADABLE = (
    *("[", "NaN", "[1e999]", "[" * 100_000, json.dumps("\ud800"), json.dumps("x" * MOST_BYTES)),
    json.dumps({"message": {"sentence": "a \ud800"}}),
)
PAGES = ("start", "heads", "masks", "decoding")


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setattr(SessionState, "set_widgets_from_proto", SessionState.set_widgets_from_proto)
    check_messages()


def widgets(at: AppTest) -> dict[str, str]:
    """The kind of value of each widget, by its identity."""
    known = at.session_state._state._state._new_widget_state.widget_metadata
    return {name: widget.value_type for name, widget in known.items()}


def send(at: AppTest, states: list[WidgetState]) -> None:
    at._run(WidgetStates(widgets=states))


@pytest.mark.parametrize("page", PAGES)
def test_no_callback_of_a_view_raises(open_page, page):
    at = open_page(page)
    views = [name for name, kind in widgets(at).items() if kind.startswith("json")]
    assert views
    for number, wrong in enumerate(WRONG):
        fields = dict.fromkeys(FIELDS, wrong)
        forms = (wrong, fields, {"chosen": fields})
        message = {name: forms[(place + number) % 3] for place, name in enumerate(NAMES)}
        sent = json.dumps(message)
        send(at, [WidgetState(id=name, json_value=sent) for name in views])


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
    for value in values:
        send(at, [WidgetState(id=name, **value) for name in widgets(at) if "view" not in name])


def test_unreadable_json_is_ignored(open_page):
    at = open_page("start")
    before = at.session_state["state"]
    views = [name for name, kind in widgets(at).items() if kind == "json_value"]
    for text in UNREADABLE:
        send(at, [WidgetState(id=name, json_value=text) for name in views])
        assert at.session_state["state"] == before
