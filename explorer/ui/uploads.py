"""Models that visitors upload: each is seen in its own session alone, and goes with it.

An uploaded model is kept as the others are, under a name that nobody can guess, so all that is
computed from it is kept apart as well. A link to it names a model that other sessions lack.
"""

import secrets
from dataclasses import replace
from threading import Timer
from typing import BinaryIO

import streamlit as st

from explorer.engine import cache, caching
from explorer.engine.turns import waiting
from explorer.library import LoadedModel
from explorer.text import UPLOADED
from explorer.uploads import open_zip

_OWN = "uploads"
PATIENCE = 20.0
"""Seconds that a model is kept when its session's line breaks: .streamlit/config.toml keeps the
session itself for 15."""
_LEAVING: dict[str, Timer] = {}


def _leave(names: list[str]) -> None:
    """Forget models, and all that was computed from them, unless their session comes back soon."""
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
    """This session's uploads, once more: Streamlit releases them when nobody is connected."""
    return []


def own() -> tuple[str, ...]:
    """The models that this session uploaded and that are still kept, oldest first."""
    names: tuple[str, ...] = st.session_state.get(_OWN, ())
    for name in names:
        if (timer := _LEAVING.pop(name, None)) is not None:  # the session is back
            timer.cancel()
            _while_here().append(name)
    return tuple(name for name in names if cache.open_model.is_kept(name))


def models() -> tuple[str, ...]:
    """What this session can open: the shelf, and its own uploads."""
    return (*cache.models(), *own())


def take(name: str, file: BinaryIO) -> str:
    """Open an uploaded zip for this session; the name under which it is found.

    Raises InputProblem as `uploads.open_zip`.
    """
    return keep(open_zip(name, file, waiting))


def keep(loaded: LoadedModel) -> str:
    """Take a model made in this session among its own; the name under which it is found."""
    secret = f"{loaded.name}~{secrets.token_urlsafe(12)}"
    cache.open_model.keep(replace(loaded, name=secret), secret)
    st.session_state[_OWN] = (*own(), secret)
    _while_here().append(secret)
    return secret


def remove(name: str) -> None:
    """Forget one of this session's models."""
    if name in own():
        _forget(name)


def for_this_session(name: str) -> str:
    """The name of a model as a link gives it, without what would find another session's upload.

    It keeps the mark of an upload, so that what is said of it can be that it was one.
    """
    return name if name in own() else UPLOADED.sub("~", name)
