"""Undo and redo of a session's edits."""

import streamlit as st

from explorer.runs.edits import Edit
from explorer.ui import session

_UNDO, _REDO = "edits.undo", "edits.redo"
MOST_STEPS = 100


def change_edits(edits: tuple[Edit, ...]) -> None:
    """Apply these edits; the previous ones can be restored with `undo`."""
    _stack(_UNDO).append(session.state().edits)
    del _stack(_UNDO)[:-MOST_STEPS]
    _stack(_REDO).clear()
    session.change(edits=edits)


def undo() -> None:
    """Restore the edits before the last change, if any."""
    _step(_UNDO, _REDO)


def redo() -> None:
    """Reapply the last undone change."""
    _step(_REDO, _UNDO)


def can_undo() -> bool:
    """Whether there is a change to undo."""
    return bool(_stack(_UNDO))


def can_redo() -> bool:
    """Whether there is a change to redo."""
    return bool(_stack(_REDO))


def _step(taken: str, kept: str) -> None:
    if _stack(taken):
        _stack(kept).append(session.state().edits)
        session.change(edits=_stack(taken).pop())


def _stack(key: str) -> list[tuple[Edit, ...]]:
    stack: list[tuple[Edit, ...]] = st.session_state.setdefault(key, [])
    return stack
