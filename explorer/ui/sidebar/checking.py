"""The self-check of the open model: runs in the background, shown next to its name when done."""

from threading import Lock, Thread

import streamlit as st

from explorer import library
from explorer.analysis.certificate.quick import SelfCheck
from explorer.analysis.certificate.quick import self_check as check
from explorer.components import is_due, pulse
from explorer.engine import cache
from explorer.engine.turns import computing, rest
from explorer.text import t
from explorer.ui import session
from explorer.ui.page import fragment

INTERVAL = 1.0
"""Polling interval of a running check in seconds, also before the first poll, so that the page is
drawn first."""
PULSE = "self_check.pulse"

Key = tuple[str, str]
"""The folder of checkpoints, and a model's name."""
_ONE_AT_A_TIME = Lock()
_STARTED: dict[Key, Thread] = {}
_FOUND: dict[Key, SelfCheck | None] = {}
"""Results, a few words per model; separate from the cache, which may be disabled."""
MOST_KEPT = 500
"""The most results stored, latest first: each upload is a separate model."""


def start(model: str) -> None:
    """Check a model in the background, unless that is done or running."""
    key = _key(model)
    if key not in _STARTED:
        _STARTED[key] = Thread(target=_run, args=(key,), daemon=True, name=f"self-check {model}")
        _STARTED[key].start()


def _key(model: str) -> Key:
    return str(library.CHECKPOINTS), model


def _run(key: Key) -> None:
    """Run checks one at a time, yielding to other sessions between two promises."""
    with _ONE_AT_A_TIME, computing():
        found = None
        try:
            found = _checked(key[1])
        finally:  # also after an error, so that no page polls forever
            _FOUND[key] = found
            while len(_FOUND) > MOST_KEPT:
                oldest = next(iter(_FOUND))
                del _STARTED[oldest], _FOUND[oldest]


def _checked(model: str) -> SelfCheck | None:
    try:
        return check(cache.open_model(model), step=rest)
    except ValueError:  # it cannot be opened or read; the page shows the reason
        return None


@fragment
def self_check(model: str) -> None:
    """Show whether the model's masks keep their promises. Until that is known, this fragment polls
    on its own, without a run of the page. The first poll, one interval after the page was drawn,
    starts the check.
    """
    key = _key(model)
    if key in _FOUND:
        known = _FOUND.get(key)  # the oldest result may be evicted at any time
        if known is not None:
            _result(known)
        return
    if is_due(PULSE):
        start(model)
    st.caption(_t("self_check.running"))
    pulse(PULSE, INTERVAL)


def _result(known: SelfCheck) -> None:
    if known.broken:
        label = _t("self_check.broken", broken=len(known.broken), tested=known.tested)
        icon = ":material/cancel:"
        named = " · ".join(t(f"certify.{name}.title", lang=_lang()) for name in known.broken)
        explained = f"{_t('self_check.help')}\n\n{_t('self_check.named', promises=named)}"
    else:
        label = _t("self_check.kept", kept=known.kept, tested=known.tested)
        icon, explained = ":material/verified:", _t("self_check.help")
    if st.button(label, key="self_check.open", type="tertiary", icon=icon, help=explained):
        session.visit("certificate")


def _lang() -> str:
    return session.state().lang


def _t(key: str, **values: object) -> str:
    return t(key, lang=_lang(), **values)
