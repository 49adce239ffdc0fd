"""All changes to Streamlit and uvicorn, each with its reason and, if it is for speed, its gain."""

import asyncio
import signal
import socket
from dataclasses import replace
from typing import Any

from streamlit import net_util
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.runtime import Runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.caching.ttl_cache import TTLCache
from streamlit.runtime.scriptrunner import RerunData
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import (
    ScriptRequests,
    ScriptRequestType,
    _has_active_trigger_value,
)
from streamlit.runtime.session_manager import SessionInfo
from streamlit.runtime.state.common import WidgetMetadata
from streamlit.runtime.state.session_state import SessionState, WStates
from uvicorn import Server
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from explorer.admission import watch
from explorer.messages import Screen, differs, fitting

EVERY = 1.0
"""Seconds between two checks for expired sessions."""
LONG = 0.5
"""Seconds until the browser dims what a running fragment has not drawn yet."""


def patch() -> None:
    """Change Streamlit before the app starts; the server changes uvicorn when it does."""
    stay_inside()
    send_what_moved()
    keep_the_page()
    check_messages()


def stay_inside() -> None:
    """Keep Streamlit from asking a service on the internet for this machine's address.

    Its welcome message does so before this module is imported; .streamlit/config.toml disables it.
    """
    net_util.get_external_ip = lambda: None


def check_messages() -> None:
    """Let sessions take in only values that fit their widgets, also after an empty message: it has
    no type, which Streamlit would then note as the widget's."""
    usual, note = SessionState.set_widgets_from_proto, WStates.set_widget_metadata

    def take_in(self: SessionState, sent: WidgetStates) -> None:
        known = self._new_widget_state.widget_metadata
        usual(self, WidgetStates(widgets=fitting(sent.widgets, known)))

    def keep_type(self: WStates, widget_meta: WidgetMetadata[Any]) -> None:
        if widget_meta.value_type is None:
            own = self.widget_metadata[widget_meta.id].value_type
            widget_meta = replace(widget_meta, value_type=own)
        note(self, widget_meta)

    SessionState.set_widgets_from_proto = take_in  # type: ignore[method-assign, assignment]
    WStates.set_widget_metadata = keep_type  # type: ignore[method-assign]


def send_at_once() -> None:
    """Let every connection send without delay, and limit all of them.

    TCP otherwise holds a small message back until the other end has acknowledged the previous one,
    up to 40 ms later (Nagle's algorithm, RFC 896; delayed acknowledgements, RFC 1122).
    asyncio disables that if a listening socket names TCP as its protocol; Streamlit's does
    not. So each small file took 44 ms, and messages of the websocket, which begins as such a
    connection, were delayed too.
    """
    connected = AutoHTTPProtocol.connection_made

    def connection_made(self: Any, transport: asyncio.BaseTransport) -> None:
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected(self, transport)
        watch(self, self.loop)

    AutoHTTPProtocol.connection_made = connection_made  # type: ignore[method-assign]


def send_what_moved() -> None:
    """Send no element of a fragment that the browser already shows: 124 messages become 40.

    All others are sent whole. Instead of one that the browser has, Streamlit sends a hash; after
    several presses in a row, the browser may have dropped it: its connection breaks, and presses
    are lost.
    """
    take, rerun = AppSession.flush_browser_queue, AppSession.request_rerun

    def screen(session: AppSession) -> Screen:
        shown: Screen = session.__dict__.setdefault("headlight_screen", Screen())
        return shown

    def dim(self: AppSession, run: str) -> None:
        message = screen(self).dims(run)
        if message is not None:
            self._enqueue_forward_msg(message)

    def flush(self: AppSession) -> list[ForwardMsg]:
        messages = screen(self).moved(take(self))
        for message in messages:
            if message.HasField("new_session"):
                self._event_loop.call_later(LONG, dim, self, message.metadata.run.script_run_id)
        return messages

    def request_rerun(self: AppSession, client_state: ClientState | None) -> None:
        if client_state is not None:
            client_state.ClearField("cached_message_hashes")
            sent, session = client_state.widget_states.widgets, self._session_state
            screen(self).choose(state.id for state in sent if differs(state, session))
        rerun(self, client_state)

    AppSession.flush_browser_queue = flush  # type: ignore[method-assign]
    AppSession.request_rerun = request_rerun  # type: ignore[method-assign]


def keep_the_page() -> None:
    """Rerun a part of a page on the page that is open by then, or that was requested before.

    A request names the page that the browser shows. While that is still busy, the server may have
    gone on to the next page; Streamlit would then return to the earlier one, run nothing of it but
    that part, and leave the page empty. If the next page is still waiting to be run, Streamlit
    would merge both requests into a run of the earlier one: the user's click or Back is lost.

    A press or a timer reruns a part with all values of its widgets in the browser. Those may be
    older than what a run has set since and is still drawing, and would undo it: of such a request,
    only the press counts. A value that the user has changed comes in a request of its own.
    """
    usual, fold = ScriptRunner._run_script, ScriptRequests._request_rerun_locked

    def run_script(self: ScriptRunner, rerun_data: RerunData) -> None:
        if rerun_data.fragment_id_queue:
            now = self._pages_manager.current_page_script_hash
            rerun_data = replace(rerun_data, page_script_hash=now)
        usual(self, rerun_data)

    def request(self: ScriptRequests, new_data: RerunData) -> bool:
        waiting = self._rerun_data
        is_part = new_data.fragment_id or new_data.fragment_id_queue
        is_waiting = self._state == ScriptRequestType.RERUN
        if is_part and new_data.widget_states is not None:
            presses = list(filter(_has_active_trigger_value, new_data.widget_states.widgets))
            if presses or new_data.is_auto_rerun:
                before = (
                    waiting.widget_states.widgets if is_waiting and waiting.widget_states else ()
                )
                newest = {state.id: state for state in (*before, *presses)}
                new_data = replace(new_data, widget_states=WidgetStates(widgets=newest.values()))
        if is_part and is_waiting:
            new_data = replace(
                new_data,
                page_script_hash=waiting.page_script_hash,
                page_name=waiting.page_name,
                query_string=waiting.query_string,
            )
        return fold(self, new_data)

    ScriptRunner._run_script = run_script  # type: ignore[method-assign]
    ScriptRequests._request_rerun_locked = request  # type: ignore[method-assign]


async def let_go() -> None:
    """End each session `disconnectedSessionTTL` after its user left, until cancelled.

    Streamlit drops such a session only when another user leaves, and does not shut it down. Its
    three descriptors and its last Trace then wait for a garbage collection. A reference to the
    session is held here until its script has ended: only then does it close them.
    """
    while not Runtime.exists():
        await asyncio.sleep(EVERY)
    manager = Runtime.instance()._session_mgr
    left = getattr(getattr(manager, "_session_storage", None), "_cache", None)
    if not isinstance(left, TTLCache):
        return
    ending: set[AppSession] = set()

    def end(session_id: str, info: SessionInfo) -> None:
        if not manager.is_active_session(session_id):  # otherwise the user is back
            ending.add(info.session)
            info.session.shutdown()

    left._on_remove = end
    while True:
        await asyncio.sleep(EVERY)
        left.expire()
        ending -= {session for session in ending if session._scriptrunner is None}


def end_without_signal() -> None:
    """Let uvicorn forget the signal that ended it.

    It would raise the signal again after it has shut down: Ctrl-C would then end `streamlit run`
    with "Aborted!" and status 1, and SIGTERM before Python has cleaned up.
    """
    server = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    if isinstance(server, Server):
        server._captured_signals.clear()
