"""The room of this visitor: found by the name in the link, in the browser that opened it."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explorer.exhibits.view import View
from explorer.pages.training.choices import TrainingChoices
from explorer.problems import InputProblem
from explorer.training.rooms import ROOMS, Room
from explorer.training.runs import Run
from explorer.training.setup import Setup
from explorer.ui import running, session

_OWN, _PROBLEM = "training.room", "training.problem"


def owner() -> str:
    """What this browser is known by: a digest of its token against forged requests, if it has one.

    A link that is passed on carries the name of a room, but not this.
    """
    token = unmasked(st.context.cookies.get("_streamlit_xsrf", ""))
    return sha256(token.encode()).hexdigest() if token else ""


def unmasked(cookie: str) -> str:
    """The token in Streamlit's cookie, `2|mask|token xor mask|time`: the mask is another one at
    every load, the token stays. A cookie of another form stands for itself.
    """
    parts = cookie.split("|")
    try:
        mask, token = bytes.fromhex(parts[1]), bytes.fromhex(parts[2])
        return bytes(a ^ b for a, b in zip(token, mask * len(token), strict=False)).hex()
    except (IndexError, ValueError):
        return cookie


def room_of(view: View) -> Room | None:
    """The room that the link names, or that this session opened; it stays while one watches it."""
    name = view.choices(TrainingChoices).room or st.session_state.get(_OWN, "")
    found = ROOMS.find(name, owner()) if name else None
    if found is not None:
        _watch(found)
    return found


def _watch(room: Room) -> None:
    context = get_script_run_ctx()
    ROOMS.watch(room, context.session_id if context else "", running.presence())


def begin(setups: Sequence[Setup]) -> None:
    """A widget's callback: train these in this visitor's room."""
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


def resume(run: Run, step: int, paused: bool) -> None:
    """A widget's callback: take up again, after a step that was kept."""
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
    """What the last press of a button could not do, once."""
    found: InputProblem | None = st.session_state.pop(_PROBLEM, None)
    return found


def with_own_pairs(setup: Setup) -> Setup:
    """The setup with the pairs that this session pasted or uploaded, where it is about these."""
    if setup.task != "own":
        return setup
    return replace(setup, text=st.session_state.get("training.pairs.kept", ""))
