"""The self-check of the open model: runs in the background, shown next to its name when done."""

from collections.abc import Sequence
from threading import Lock, Thread

import streamlit as st

from explorer import library
from explorer.analysis.mask_tests.certify import SelfCheck, self_check as check
from explorer.components.frame import is_due, pulse
from explorer.engine import cache
from explorer.engine.turns import computing, rest
from explorer.runs.edits import CellEdit, Edit, about_masks
from explorer.ui import session
from explorer.ui.current import app_text

INTERVAL = 1.0
"""Polling interval of a running check in seconds, also before the first poll, so that the page is
drawn first."""
PULSE = "self_check.pulse"

Key = tuple[str, str, tuple[Edit, ...]]
"""The folder of checkpoints, a model's name, and the edits with which it is checked."""
_ONE_AT_A_TIME = Lock()
_STARTED: dict[Key, Thread] = {}
_FOUND: dict[Key, SelfCheck | None] = {}
"""Results, a few words per model; separate from the cache, which may be disabled."""
MOST_KEPT = 500
"""The most results stored, latest first: each trained model is a separate one."""


def start(model: str, edits: tuple[Edit, ...] = ()) -> None:
    """Check a model in the background, unless that is done or running."""
    key = _key(model, edits)
    if key not in _STARTED:
        _STARTED[key] = Thread(target=_run, args=(key,), daemon=True, name=f"self-check {model}")
        _STARTED[key].start()


def _key(model: str, edits: tuple[Edit, ...]) -> Key:
    return str(library.CHECKPOINTS), model, edits


def _run(key: Key) -> None:
    """Run checks one at a time, yielding to other sessions between two promises."""
    with _ONE_AT_A_TIME, computing():
        outcome = None
        try:
            outcome = _checked(*key[1:])
        finally:  # also after an error, so that no page polls forever
            _FOUND[key] = outcome
            while len(_FOUND) > MOST_KEPT:
                oldest = next(iter(_FOUND))
                del _STARTED[oldest], _FOUND[oldest]


def _checked(model: str, edits: tuple[Edit, ...]) -> SelfCheck | None:
    try:
        return check(cache.open_model(model), step=rest, edits=edits)
    except ValueError:  # it cannot be opened or read; the page shows the reason
        return None


def checkable(edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """The edits that mean the same on any sentence, so that the check can apply them."""
    return tuple(edit for edit in edits if about_masks(edit) and not isinstance(edit, CellEdit))


@st.fragment
@computing()
def self_check(model: str, asked: Sequence[tuple[Edit, ...]] = ((),), place: str = "") -> None:
    """Show whether the model's masks keep their promises, with each of these edits. Until that is
    known, this fragment polls on its own, without a run of the page. The first poll, one interval
    after the page was drawn, starts the checks. `place` tells two such displays of a page apart."""
    due, is_running = is_due(PULSE + place), False
    for edits in asked:
        if _key(model, edits) in _FOUND:
            known = _FOUND.get(_key(model, edits))  # the oldest result may be evicted at any time
            if known is not None:
                _result(known, edits, place)
            continue
        is_running = True
        if due:
            start(model, edits)
    if is_running:
        if not place:
            st.caption(app_text("self_check.running"))
        pulse(PULSE + place, INTERVAL)


def _result(known: SelfCheck, edits: tuple[Edit, ...], place: str) -> None:
    name, outcome = "edited" if edits else "shipped", "broken" if known.broken else "kept"
    counted = {"kept": known.kept, "broken": len(known.broken), "tested": known.tested}
    label = app_text("self_check", name, outcome, **counted)
    icon, explained = ":material/verified:", app_text("self_check.help")
    if known.broken:
        icon = ":material/cancel:"
        named = " · ".join(app_text("certify", name, "title") for name in known.broken)
        explained = f"{explained}\n\n{app_text('self_check.named', promises=named)}"
    key = f"self_check.open{'_edited' if edits else ''}{place}"
    if st.button(label, key=key, type="tertiary", icon=icon, help=explained):
        session.change(part="tests")
        session.visit("cases")
