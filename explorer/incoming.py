"""What a browser sends for a widget or a view is checked here, before any callback.

A client may send anything: a value of another type, a file that is gone, megabytes of JSON, or text
that no page can show. Such a value is ignored, as if it had not been sent.
"""

import json
import math
from collections.abc import Iterable
from typing import Any

from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.runtime.state.common import WidgetMetadata, unpack_widget_state_value
from streamlit.runtime.state.session_state import SessionState
from streamlit.runtime.uploaded_file_manager import DeletedFile

MOST_BYTES = 1_000_000
"""Maximum size of the JSON that a view sends; .streamlit/config.toml limits whole messages."""
JSON = ("json_value", "json_trigger_value")


def fitting(
    sent: Iterable[WidgetState], known: "dict[str, WidgetMetadata[Any]]"
) -> list[WidgetState]:
    """The values that fit: of widgets that are `known`, by identity, or not drawn yet."""
    return [state for state in sent if _fits(state, known.get(state.id))]


def _fits(state: WidgetState, widget: "WidgetMetadata[Any] | None") -> bool:
    kind = state.WhichOneof("value")
    try:
        if kind in JSON and not _is_plain(_parsed(getattr(state, kind))):
            return False
        if widget is None or kind is None:
            return True
        if widget.value_type not in (kind, None):  # None: the last value was "nothing"
            return False
        value = widget.deserializer(unpack_widget_state_value(state))
    except Exception:  # Streamlit raises what it happens to meet
        return False
    files = value if isinstance(value, list) else [value]
    return not any(isinstance(file, DeletedFile) for file in files)


def differs(state: WidgetState, session: SessionState) -> bool:
    """Whether a widget has another value in the browser than in its session."""
    widget = session._new_widget_state.widget_metadata.get(state.id)
    if widget is None or not _fits(state, widget):
        return True
    try:
        return bool(widget.deserializer(unpack_widget_state_value(state)) != session[state.id])
    except KeyError:
        return True


def _parsed(text: str) -> Any:
    """JSON of at most MOST_BYTES. Raises ValueError for more, and for NaN."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"{len(text)} characters")

    def refuse(number: str) -> None:
        raise ValueError(number)

    return json.loads(text, parse_constant=refuse)


def _is_plain(value: Any) -> bool:
    """Whether all text in it can be written, and all numbers are finite."""
    if isinstance(value, dict):
        return all(map(_is_plain, (*value, *value.values())))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)
    return not isinstance(value, float) or math.isfinite(value)
