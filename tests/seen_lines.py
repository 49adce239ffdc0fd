"""What a view shows as its code, and what ran while it was drawn."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from cProfile import Profile
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest
from typecheck import unchecked

from explorer.exhibits.view import View
from explorer.pages import LESSONS
from explorer.ui import controls
from explorer.ui.code.source import SourceCode, lines_of

Open = Callable[..., AppTest]
Visit = tuple[str, dict[str, str]]

BESIDE = "She reads a book every morning."
NEEDED = {"certificate": {"tested": "1"}}
"""What a page's link needs besides, for the page to show everything that it has."""
PARTS: list[Visit] = [
    (page.name, {"part": part})
    for page in LESSONS
    if page.name not in ("claims", "clinic", "path", "workshop")
    for part in getattr(page.choices, "parts", ("",))
    if part != "experts"  # no shipped model has any
]


def parts_of(*pages: str) -> list[Visit]:
    """Every part of these pages."""
    return [each for each in PARTS if each[0] in pages]


def name(value: object) -> str:
    """A parameter of a visit, for the name of its test."""
    return "-".join(map(str, value.values())) if isinstance(value, dict) else str(value)


@dataclass
class Panel:
    """What a view handed to its small print."""

    formula: Sequence[str]
    lines: tuple[SourceCode, ...]
    numbers: dict[str, Sequence[Any]]


@dataclass
class Seen:
    """The panels of one visit, and the code of every function that ran during it."""

    panels: dict[str, Panel] = field(default_factory=dict)
    profiles: list[Profile] = field(default_factory=list)
    started: set[object] = field(default_factory=set)

    def begin(self, *_: object) -> None:
        """The first call in a thread hands over to a profiler in C, a fifth as slow as one here."""
        profile = Profile()
        self.profiles.append(profile)
        profile.enable()

    def start(self, code: CodeType, at: int) -> object:
        """A function begins; its next calls need not be told."""
        self.started.add(code)
        return sys.monitoring.DISABLE

    @property
    def ran(self) -> set[object]:
        """The code of every function that ran."""
        profiled = {entry.code for profile in self.profiles for entry in profile.getstats()}
        return self.started | profiled


@contextmanager
def _noting(seen: Seen) -> Iterator[None]:
    """Note what runs: by `sys.monitoring` where there is one, since from Python 3.12 on no two
    threads can be profiled at once; before that by a profile of every thread that begins."""
    if sys.version_info < (3, 12):
        threading.setprofile(seen.begin)
        yield
        threading.setprofile(None)  # type: ignore[arg-type]
        assert sys.getprofile() is None
        return
    tool, event = sys.monitoring.PROFILER_ID, sys.monitoring.events.PY_START
    sys.monitoring.use_tool_id(tool, "seen")
    sys.monitoring.register_callback(tool, event, seen.start)
    sys.monitoring.restart_events()
    sys.monitoring.set_events(tool, event)
    yield
    sys.monitoring.set_events(tool, 0)
    sys.monitoring.register_callback(tool, event, None)
    sys.monitoring.free_tool_id(tool)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """Everything that runs from here on in threads that begin now, as a page's script does.

    Without the checks of shapes, whose calls would be profiled too: other tests ask these pages.
    """
    found = Seen()
    small_prints = controls.small_prints

    def kept(view: View, name: str, **given: Any) -> None:
        lines = lines_of(given["code"], (view.loaded, view.loaded.model))
        numbers = {key: column for each in given["numbers"] for key, column in each().items()}
        formula = [line for each, _ in given["formulas"] for line in each]
        found.panels[name] = Panel(formula, lines, numbers)
        small_prints(view, name, **given)

    monkeypatch.setattr(controls, "small_prints", kept)
    with unchecked(), _noting(found):
        yield found


def visit(open_page: Open, model: str, page: str, asked: dict[str, str]) -> AppTest:
    at = open_page(page, model=model, **{"depth": "1"}, **NEEDED.get(page, {}), **asked)
    assert not at.exception
    return at


def check(panel: Panel) -> None:
    """What every panel has, whatever ran."""
    assert panel.formula
    assert panel.lines
    assert all(len(column) for column in panel.numbers.values()), panel.numbers.keys()
    for lines in panel.lines:
        assert lines.doc, f"{lines.name} has no docstring"
        assert lines.text.strip()
        assert all(called.text.strip() for called in lines.calls)
        assert not any("models.fast" in each.module for each in (lines, *lines.calls))


def check_visit(
    open_page: Open, seen: Seen, page: str, asked: dict[str, str], model: str = "en-zh"
) -> None:
    """Visit a page; what its panels show ran."""
    at = visit(open_page, model, page, asked)
    if not seen.panels:
        assert at.info or at.warning  # nothing to show here, and the page says why
        return
    ran = seen.ran
    for panel in seen.panels.values():
        check(panel)
        for lines in panel.lines:
            assert ran.intersection(lines.ran), f"{lines.name} did not run"
