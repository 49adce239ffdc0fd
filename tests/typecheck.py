"""Shapes and types checked while tests run: jaxtyping's import hook with beartype behind it.

Only modules that speak of shapes are checked. A checked call costs some 0.1 ms, so hook points and
their visitors, called more than a hundred times in a pass and without shapes of their own, would
take two thirds of the tests' time (measured: 150 against 60 s for tests/explorer/mask_tests).
For the same reason only the first calls of each function are checked in each file of tests: more
than one pass through a tiny model. `pytest --all-shapes`, which the nightly job runs, checks all.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import wraps
from inspect import isgeneratorfunction
from pathlib import Path
from types import FunctionType
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import TypeCheckError, config, install_import_hook, jaxtyped

ROOT = Path(__file__).parents[1]
CALLS = 8
"""How many calls of a function are checked in each file of tests."""
_MOST = [CALLS]
_NOW = [""]
"""The file whose tests are running."""
check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int for a float, as in mypy


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that raises TypeCheckError where a shape or type is not what it says."""
    checking: list[Callable[..., Any]] = []
    file, calls = "", 0

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal file, calls
        file, calls = _NOW[0], calls + 1 if file == _NOW[0] else 1
        if calls > _MOST[0] or config.jaxtyping_disable:
            return function(*args, **kwargs)
        if not checking:  # at the first call: an annotation may name what follows in its file
            checking.append(check(function))
        try:
            with jaxtyped("context"):
                return checking[0](*args, **kwargs)
        except BeartypeCallHintViolation as violation:
            raise TypeCheckError(str(violation)) from violation

    return call


def _still_a_generator(function: Callable[..., Any], checked: Callable[..., Any]) -> Any:
    """A checked generator function that the app recognizes as one."""

    @wraps(function)
    def steps(*args: Any, **kwargs: Any) -> Any:
        return (yield from checked(*args, **kwargs))

    return steps


def _decorator(*, typechecker: Callable[..., Any]) -> Callable[[Any], Any]:
    """What the import hook puts over every class and function: `jaxtyped` with cheaper calls."""

    def decorate(given: Any) -> Any:
        if isinstance(given, FunctionType):
            if not isgeneratorfunction(given):
                return _checked(given)
            return _still_a_generator(given, jaxtyped(typechecker=typechecker)(given))
        if isinstance(given, staticmethod | classmethod):
            return type(given)(decorate(given.__func__))
        if isinstance(given, property):
            return property(decorate(given.fget))
        if isinstance(given, type):
            if is_dataclass(given) and "__init__" in vars(given):
                given.__init__ = decorate(given.__init__)
            return given
        return jaxtyped(typechecker=typechecker)(given)

    return decorate


def shaped_modules() -> list[str]:
    """The modules of these folders that import jaxtyping."""
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for folder in (
            ROOT / "models",
            ROOT / "recipes",
            ROOT / "explorer" / "analysis",
            ROOT / "explorer" / "exhibits",
        )
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "from jaxtyping import" in path.read_text(encoding="utf-8")
    ]


def check_shapes() -> None:
    """Check every one of them, if called before its first import."""
    jaxtyping.jaxtyped = _decorator  # which the hook's code calls
    install_import_hook(shaped_modules(), "typecheck.check")


def begin(file: str, most: int = CALLS) -> None:
    """Check this many calls of each function, counted anew if this is another file of tests."""
    _NOW[0], _MOST[0] = file, most


@contextmanager
def unchecked() -> Iterator[None]:
    """No checks inside: for long experiments that only repeat calls which other tests check."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)
