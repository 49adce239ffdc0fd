"""Undo and redo of the edits: what a visitor changed, step by step, in one session."""

import streamlit as st

from explorer.runs.edits import Edit
from explorer.ui import session

_UNDO, _REDO = "edits.undo", "edits.redo"
MOST_STEPS = 100


def change_edits(edits: tuple[Edit, ...]) -> None:
    """Put these edits in force; the ones before can be brought back."""
    _stack(_UNDO).append(session.state().edits)
    del _stack(_UNDO)[:-MOST_STEPS]
    _stack(_REDO).clear()
    session.change(edits=edits)


def undo() -> None:
    """Bring back the edits before the last change, if there was one."""
    _step(_UNDO, _REDO)


def redo() -> None:
    """Put in force again what was undone last."""
    _step(_REDO, _UNDO)


def can_undo() -> bool:
    """Whether there is something to take back."""
    return bool(_stack(_UNDO))


def can_redo() -> bool:
    """Whether something was taken back."""
    return bool(_stack(_REDO))


def _step(taken: str, kept: str) -> None:
    if _stack(taken):
        _stack(kept).append(session.state().edits)
        session.change(edits=_stack(taken).pop())


def _stack(key: str) -> list[tuple[Edit, ...]]:
    stack: list[tuple[Edit, ...]] = st.session_state.setdefault(key, [])
    return stack
