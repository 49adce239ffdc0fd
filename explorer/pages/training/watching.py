"""The user's training room: found by the name in the link, in the browser that created it."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explorer.exhibits.view import View
from explorer.pages.training.choices import TrainingChoices
from explorer.problems import InputProblem
from explorer.training.rooms import ROOMS, Room
from explorer.training.runs import TrainingRun
from explorer.training.setup import Setup
from explorer.ui import running, session

_OWN, _PROBLEM = "training.room", "training.problem"


def owner() -> str:
    """The browser's identity: a digest of its CSRF token, if it has one.

    A shared link contains the name of a room, but not this.
    """
    token = unmasked(st.context.cookies.get("_streamlit_xsrf", ""))
    return sha256(token.encode()).hexdigest() if token else ""


def unmasked(cookie: str) -> str:
    """The token in Streamlit's cookie, `2|mask|token xor mask|time`: the mask changes at every
    load, the token does not. A cookie of another form is returned as it is.
    """
    parts = cookie.split("|")
    try:
        mask, token = bytes.fromhex(parts[1]), bytes.fromhex(parts[2])
        return bytes(a ^ b for a, b in zip(token, mask * len(token), strict=False)).hex()
    except (IndexError, ValueError):
        return cookie


def room_of(view: View) -> Room | None:
    """The room named by the link, or created by this session; it is kept alive while watched."""
    name = view.choices(TrainingChoices).room or st.session_state.get(_OWN, "")
    found = ROOMS.find(name, owner()) if name else None
    if found is not None:
        _watch(found)
    return found


def _watch(room: Room) -> None:
    context = get_script_run_ctx()
    ROOMS.watch(room, context.session_id if context else "", running.presence())


def begin(setups: Sequence[Setup]) -> None:
    """A widget's callback: start these trainings in the user's room."""
    choices = session.state().of(TrainingChoices)
    name = choices.room or st.session_state.get(_OWN, "")
    room = ROOMS.find(name, owner()) if name else None
    if room is None:
        room = ROOMS.open(owner())
    _watch(room)
    st.session_state[_OWN] = room.name
    try:
        runs = ROOMS.start(room, setups)
    except InputProblem as problem:
        st.session_state[_PROBLEM] = problem
        return
    session.change(room=room.name, shown=runs[0].number, moment=None)


def resume(run: TrainingRun, step: int, paused: bool) -> None:
    """A widget's callback: resume after a saved step."""
    name = session.state().of(TrainingChoices).room
    room = ROOMS.find(name, owner())
    if room is None:
        return
    try:
        ROOMS.again(room, run, step, paused)
    except InputProblem as problem:
        st.session_state[_PROBLEM] = problem
    session.change(moment=None)


def problem() -> InputProblem | None:
    """The error of the last button press, returned once."""
    found: InputProblem | None = st.session_state.pop(_PROBLEM, None)
    return found


def with_own_pairs(setup: Setup) -> Setup:
    """The setup with the pairs that this session pasted or uploaded, if it uses them."""
    if setup.task != "own":
        return setup
    return replace(setup, text=st.session_state.get("training.pairs.kept", ""))
