"""The very lines: a view shows functions that ran for it, each with its words, formula, numbers."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from explorer.analysis.claims import CLAIMS, Claim
from explorer.analysis.clinic import PITFALLS
from explorer.pages import LESSONS
from explorer.pages.cell.choices import ASIDES
from explorer.ui import controls
from explorer.ui.source import Lines, lines_of
from explorer.ui.view import View

Open = Callable[..., AppTest]

BESIDE = "She reads a book every morning."
PARTS: list[tuple[str, dict[str, str]]] = [
    (page.name, {"part": part})
    for page in LESSONS
    if page.name not in ("claims", "clinic")
    for part in getattr(page.choices, "parts", ("",))
]
MORE: list[tuple[str, dict[str, str]]] = [
    *(("heads", {"measure": name}) for name in ("entropy", "needed")),
    *(("heads", {"instead": name}) for name in ("mean-1", "rollout", "flow")),
    ("heads", {"beside": BESIDE}),
    *(("cell", {"aside": aside}) for aside in ASIDES if aside),
    *(("cell", {"stage": str(stage)}) for stage in (2, 5)),
    *(
        ("masks", {"edits": edits, "pads": pads})
        for edits, pads in (("", "0"), ("causal-off", "3"), ("window-2", "0"), ("prefix-2", "3"))
    ),
    ("masks", {"beside": BESIDE, "picture": "scores"}),
    *(("blocks", {"part": "norms", "norm": norm}) for norm in ("rmsnorm", "batchnorm")),
    *(
        ("positions", {"part": "head", "change": change})
        for change in ("shift-3", "swap-1-2", "reverse", "remove")
    ),
    *(
        ("decoding", {"part": part, "strategy": strategy})
        for part in ("pass", "branches", "cache")
        for strategy in ("beam-2-0.6", "sample-0.8-40-0.95-1")
    ),
]
CASES = [("clinic", {"case": pitfall.id}) for pitfall in PITFALLS]
CLAIMED = [("claims", {"claim": claim.id, "guess": "true"}) for claim in CLAIMS if not claim.slow]
SLOW = [claim for claim in CLAIMS if claim.slow]
"""Their experiments train models; what is shown of them is asked for before the guess."""
NEEDED = {"certificate": {"tested": "1"}}
"""What a page's link needs besides, for the page to show everything that it has."""
VISITS = [
    *(("en-zh", *visit) for visit in (*PARTS, *MORE, *CASES, *CLAIMED)),
    *((model, *visit) for model in ("writer", "reader", "headless") for visit in PARTS),
]


@dataclass
class Panel:
    """What a view handed to its small print."""

    formula: Sequence[str]
    lines: tuple[Lines, ...]
    numbers: dict[str, Sequence[Any]]


@dataclass
class Seen:
    """The panels of one visit, and every function that ran during it."""

    panels: dict[str, Panel] = field(default_factory=dict)
    ran: set[CodeType] = field(default_factory=set)

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.ran.add(frame.f_code)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """Everything that runs from here on in threads that begin now, as a page's script does."""
    found = Seen()
    small_print = controls.small_print

    def kept(view: View, name: str, **given: Any) -> None:
        lines = lines_of(given["code"], (view.loaded, view.loaded.model))
        numbers = dict(given["numbers"]())
        found.panels[name] = Panel(given["formula"], lines, numbers)
        small_print(view, name, **given)

    monkeypatch.setattr(controls, "small_print", kept)
    threading.setprofile(found.profile)
    yield found
    threading.setprofile(None)  # type: ignore[arg-type]
    assert sys.getprofile() is None


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
        assert "models.fast" not in {each.module for each in (lines, *lines.calls)}


@pytest.mark.parametrize(
    ("model", "page", "asked"),
    VISITS,
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else value,
)
def test_what_is_shown_ran(
    open_page: Open, seen: Seen, model: str, page: str, asked: dict[str, str]
) -> None:
    at = visit(open_page, model, page, asked)
    if not seen.panels:
        assert at.info or at.warning  # nothing to show here, and the page says why
        return
    for panel in seen.panels.values():
        check(panel)
        for lines in panel.lines:
            assert seen.ran.intersection(lines.ran), f"{lines.name} did not run"


@pytest.mark.parametrize("claim", SLOW, ids=lambda claim: claim.id)
def test_a_long_experiment_shows_itself_and_what_it_calls(
    open_page: Open, seen: Seen, claim: Claim
) -> None:
    visit(open_page, "en-zh", "claims", {"claim": claim.id})
    (panel,) = seen.panels.values()
    check(panel)
    assert lines_of([claim.test])[0].text == panel.lines[0].text
    assert panel.lines[0].calls
