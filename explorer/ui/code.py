"""The Code panel: the functions that computed a picture, from their source files."""

import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import FunctionType, MethodType
from typing import Any

import streamlit as st

from explorer.exhibits.block import escape
from explorer.exhibits.view import View

PROJECT = ("models", "explorer")
FAST = "models.fast"


@dataclass(frozen=True)
class SourceCode:
    """The source of a function or class, and where it begins."""

    name: str
    file: str
    line: int
    text: str


def code_panel(view: View, code: Sequence[object]) -> None:
    """Show the source of each object of `code`, the first one open."""
    st.caption(view.t("more.code_note"))
    for at, source in enumerate(map(source_of, code)):
        title = f"**{escape(source.name)}** :gray[{escape(f'{source.file}:{source.line}')}]"
        with st.expander(title, expanded=at == 0):
            st.code(source.text.rstrip(), language="python")


def source_of(given: object) -> SourceCode:
    """The source of a function, class, method or instance, without its decorators.

    A module of a model is shown as its `forward`, any other instance as its class. For what
    `models.fast` overrides, the plain version is shown, which reads like the paper. Raises
    TypeError for an object that is not the project's own code.
    """
    what = _plain(given)
    if what is None or not _is_ours(what):
        raise TypeError(f"{given!r} is not a function, class or module of {' or '.join(PROJECT)}")
    return _read(what)


@cache  # reading the file again took a tenth of a page's time
def _read(what: Any) -> SourceCode:
    lines, line = inspect.getsourcelines(what if isinstance(what, type) else what.__code__)
    name = what.__qualname__.replace("<locals>.", "")
    file = f"{what.__module__.replace('.', '/')}.py"
    return SourceCode(name, file, line, textwrap.dedent("".join(lines)))


def _plain(thing: Any) -> Any:
    """The function or class that an object is shown as."""
    if isinstance(thing, partial | classmethod | staticmethod):
        return _plain(thing.func if isinstance(thing, partial) else thing.__func__)
    if isinstance(thing, MethodType):
        owner = thing.__self__
        return _method(owner if isinstance(owner, type) else type(owner), thing.__name__)
    if isinstance(thing, FunctionType | type) or hasattr(thing, "__wrapped__"):
        return inspect.unwrap(thing)
    plain = next(kind for kind in type(thing).__mro__ if not _is_fast(kind))
    return _method(type(thing), "forward") or plain


def _method(kind: type, name: str) -> Any:
    """The method of the first class that defines it and is neither fast nor another library's."""
    for base in kind.__mro__:
        if name in vars(base) and _is_ours(base) and not _is_fast(base):
            return _plain(vars(base)[name])
    return None


def _is_fast(thing: Any) -> bool:
    return f"{thing.__module__}.".startswith(f"{FAST}.")


def _is_ours(thing: Any) -> bool:
    return str(thing.__module__).partition(".")[0] in PROJECT
