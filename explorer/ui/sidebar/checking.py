"""The self-check of the open model: in the background, shown beside its name when it is done."""

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
"""Seconds between two looks at a running check, and before the first: the page is drawn by then."""
PULSE = "self_check.pulse"

Key = tuple[str, str]
"""The folder of checkpoints, and a model's name."""
_ONE_AT_A_TIME = Lock()
_STARTED: dict[Key, Thread] = {}
_FOUND: dict[Key, SelfCheck | None] = {}
"""A few words a model, beside the cache, which may be set to keep nothing."""
MOST_KEPT = 500
"""Models whose result is kept, the latest: each upload is a model of its own."""


def start(model: str) -> None:
    """Check a model in the background, unless that is done or under way."""
    key = _key(model)
    if key not in _STARTED:
        _STARTED[key] = Thread(target=_run, args=(key,), daemon=True, name=f"self-check {model}")
        _STARTED[key].start()


def _key(model: str) -> Key:
    return str(library.CHECKPOINTS), model


def _run(key: Key) -> None:
    """One check after the other; between two promises others go first."""
    with _ONE_AT_A_TIME, computing():
        found = None
        try:
            found = _checked(key[1])
        finally:  # whatever happened, nobody waits for it any more
            _FOUND[key] = found
            while len(_FOUND) > MOST_KEPT:
                oldest = next(iter(_FOUND))
                del _STARTED[oldest], _FOUND[oldest]


def _checked(model: str) -> SelfCheck | None:
    try:
        return check(cache.open_model(model), step=rest)
    except ValueError:  # it cannot be opened or read; the page says why
        return None


@fragment
def self_check(model: str) -> None:
    """Whether the model keeps what its masks promise. Until that is known, this place looks again
    by itself; nothing else on the page runs for it. The first look, an interval after the page was
    drawn, starts the check.
    """
    key = _key(model)
    if key in _FOUND:
        known = _FOUND.get(key)  # the oldest may be forgotten at any time
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
