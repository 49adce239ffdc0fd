"""Models trained in the app: each is visible only in its own session and deleted with it.

Such a model is stored like the others, under an unguessable name, so its cached results are
separate too. Other sessions cannot open a link to it.
"""

import secrets
from dataclasses import replace
from threading import Timer

import streamlit as st

from explorer.engine import cache, caching
from explorer.library import LoadedModel
from explorer.text import TRAINED

_OWN = "trained"
PATIENCE = 20.0
"""Seconds until a disconnected session's models are deleted; .streamlit/config.toml keeps the
session itself for 15."""
_LEAVING: dict[str, Timer] = {}


def _leave(names: list[str]) -> None:
    """Delete models and their cached results, unless their session reconnects soon."""
    for name in names:
        _LEAVING[name] = timer = Timer(PATIENCE, _forget, [name])
        timer.daemon = True
        timer.start()


def _forget(name: str) -> None:
    _LEAVING.pop(name, None)
    for store in (caching.STORE, caching.PARTS):
        store.forget_about(name)


@st.cache_resource(scope="session", on_release=_leave, show_spinner=False)
def _while_here() -> list[str]:
    """This session's models, as a resource that Streamlit releases when the session
    disconnects."""
    return []


def own() -> tuple[str, ...]:
    """The models that this session keeps and that still exist, oldest first."""
    names: tuple[str, ...] = st.session_state.get(_OWN, ())
    for name in names:
        if (timer := _LEAVING.pop(name, None)) is not None:  # the session is back
            timer.cancel()
            _while_here().append(name)
    return tuple(filter(cache.open_model.is_kept, names))


def models() -> tuple[str, ...]:
    """The models that this session can open: the shelf and its own."""
    return (*cache.models(), *own())


def keep(loaded: LoadedModel) -> str:
    """Keep a model made in this session and return its name."""
    secret = f"{loaded.name}~{secrets.token_urlsafe(12)}"
    cache.open_model.keep(replace(loaded, name=secret), secret)
    st.session_state[_OWN] = (*own(), secret)
    _while_here().append(secret)
    return secret


def for_this_session(name: str) -> str:
    """The model name of a link, changed so that it cannot find another session's model.

    The mark `~` is preserved, so that the message can say that a session made it.
    """
    return name if name in own() else TRAINED.sub("~", name)
