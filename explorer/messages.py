"""Messages between a browser and its session: what is taken in, and what is not sent again.

A client may send anything for a widget or a view: a value of another type, a file that is gone,
megabytes of JSON, or text that no page can show. Such a value is ignored, as if it had not been
sent, before any callback.

A rerun sends every element of its fragment again, and the browser removes those that it does not
get. A switch of a mask moves about a dozen of 120. The others are held back here; what must be
removed is enclosed in a container that is sent whole, with a fragment of its own, so that the
browser looks for removed elements in that container only. It also dims only those while a fragment
runs, unless that takes long: to dim all of it takes two renders in which every style changes.
"""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
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
        if widget.value_type != kind:
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


# What is sent.

Path = tuple[int, ...]
WHOLE = "headlight-whole"
"""The fragment of containers that are sent whole; no fragment of Streamlit has this name."""
NOTHING = "headlight-nothing"
"""A run that sent nothing, so that the browser removes nothing."""

PLAIN = ("flex_container", "vertical", "horizontal", "column")


@dataclass(frozen=True)
class Shown:
    """What the browser shows at a path: the `kind` of a container ("" for an element), the hash of
    its message ("" if it may be outdated), and the identity of a widget or view."""

    kind: str
    hash: str
    identity: str


class Screen:
    """What the browser of one session shows, so that a rerun of a fragment sends what moved."""

    def __init__(self) -> None:
        self._shown: dict[Path, Shown] = {}
        self._drawn: dict[Path, ForwardMsg] = {}  # in this run
        self._held: set[Path] = set()  # of these
        self._outdated: set[Path] = set()  # containers with an element to remove
        self._is_part = False
        self._begun = ForwardMsg()  # of the last run of a fragment, as Streamlit sent it

    def choose(self, changed: Iterable[str]) -> None:
        """Send these widgets and views again: the browser changed them, and the run may set them
        back."""
        names = {*changed}
        for path, shown in self._shown.items():
            if shown.identity in names:
                self._shown[path] = replace(shown, hash="")

    def moved(self, messages: Iterable[ForwardMsg]) -> list[ForwardMsg]:
        """The messages of a session that must be sent, in order."""
        return [sent for message in messages for sent in self._sent(message)]

    def _sent(self, message: ForwardMsg) -> Iterator[ForwardMsg]:
        match message.WhichOneof("type"):
            case "new_session" if message is not self._begun:
                self._begin(message)
            case "delta":
                path = tuple(message.metadata.delta_path)
                if self._is_shown(path, message):
                    self._held.add(path)
                    return
            case "script_finished":
                yield from self._finish(message)
        yield message

    def _begin(self, message: ForwardMsg) -> None:
        self._is_part = bool(message.metadata.run.fragment_ids)
        self._drawn, self._held = {}, set()
        if not self._is_part:
            self._forget(())
            return
        message.new_session.ClearField("app_pages")  # the browser reads neither
        message.new_session.ClearField("custom_theme")
        self._begun = ForwardMsg()
        self._begun.CopyFrom(message)
        if not self._outdated:  # an interrupted run may have left a spinner: the browser removes it
            message.metadata.run.fragment_ids[:] = [WHOLE]

    def dims(self, run: str) -> ForwardMsg | None:
        """The message that dims what this run of a fragment has not drawn yet; None if it is over,
        or has drawn a spinner, which the message would remove."""
        goes_on = self._is_part and self._begun.metadata.run.script_run_id == run
        return self._begun if goes_on and not self._outdated else None

    def _forget(self, beneath: Path, first: int = 0) -> None:
        """Send everything below a container again, from its `first` child on."""
        for path, shown in self._shown.items():
            if path[: len(beneath)] == beneath and path[len(beneath) :] >= (first,):
                self._shown[path] = replace(shown, hash="")

    def _remove(self, gone: set[Path]) -> None:
        """Forget what is at these paths and below them."""
        for path in [*self._shown]:
            if any(path[:length] in gone for length in range(1, len(path) + 1)):
                del self._shown[path]

    def _is_shown(self, path: Path, message: ForwardMsg) -> bool:
        """Note what is drawn at a path, and return whether the browser shows it already."""
        delta, before = message.delta, self._shown.get(path)
        if delta.WhichOneof("type") == "new_transient":  # such as a spinner: it shifts what follows
            self._outdated.add(path[:-1])
            self._forget(path[:-1], path[-1])
            return False
        self._drawn[path] = message
        now = _noted(message)
        if before is not None and not before.kind and before.identity not in ("", now.identity):
            self._outdated.add(path[:-1])  # the browser keeps a replaced widget until the end
        if before is not None and before.kind != now.kind:
            self._remove({path})
        if delta.new_element.has_one_shot_effect and not now.identity:  # such as a toast
            now = replace(now, hash="")
        self._shown[path] = now
        return self._is_part and before == now and now.hash != ""

    def _finish(self, message: ForwardMsg) -> Iterator[ForwardMsg]:
        """At the end of a run: what must be sent before the browser removes outdated elements."""
        if message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY:
            self._shown = {path: self._shown[path] for path in self._drawn}
            self._outdated = set()
        if message.script_finished != ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY:
            return
        gone = {at for at in self._shown if at not in self._drawn and at[:-1] in self._drawn}
        self._outdated |= {path[:-1] for path in gone}
        whole = {self._container(path) for path in self._outdated if path in self._drawn}
        if whole:
            yield from self._again(whole)
            clearing = ForwardMsg()
            clearing.CopyFrom(message)
            clearing.metadata.run.fragment_ids[:] = [WHOLE]
            yield clearing
        message.metadata.run.script_run_id = NOTHING
        self._remove(gone)
        self._outdated, self._drawn, self._held, self._is_part = set(), {}, set(), False

    def _container(self, path: Path) -> Path:
        """The innermost container around a path, or itself, that cannot be a widget."""
        while path[:-1] in self._drawn and self._shown[path].kind not in PLAIN:
            path = path[:-1]
        return path

    def _again(self, whole: set[Path]) -> Iterator[ForwardMsg]:
        """Whole containers, of which some elements were held back."""
        for path, message in self._drawn.items():
            if path in whole:
                again = ForwardMsg()
                again.CopyFrom(message)
                again.delta.fragment_id = WHOLE
                self._shown[path] = replace(self._shown[path], hash="")
                yield again
            elif path in self._held and any(path[: len(at)] == at for at in whole):
                yield message


def _noted(message: ForwardMsg) -> Shown:
    delta = message.delta
    kind = delta.new_element.WhichOneof("type")
    named = getattr(delta.new_element, kind) if kind else delta.add_block
    return Shown(delta.add_block.WhichOneof("type") or "", message.hash, getattr(named, "id", ""))
