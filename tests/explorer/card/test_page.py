"""The Card page: the open model's own numbers, and its author's words, whatever they are; and the
self-check beside the model's name: in the background, once, one at a time.
"""

import html
import shutil
import threading
from collections.abc import Callable, Iterator
from itertools import product

import pytest
from cores import every
from shown import everything, words_of
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.analysis.mask_tests.certify import SelfCheck
from explorer.engine import caching
from explorer.engine.turns import TURNS
from explorer.runs.edits import MaskSwitch
from explorer.text import LANGUAGES, t
from explorer.ui import checking, session
from models import load_checkpoint
from models.checkpoint import CARD

SHIPPED = library.CHECKPOINTS
MODELS = library.list_models(SHIPPED)
HOSTILE = """---
license: "<script>alert(1)</script>"
language: ["| x |", ":red[y]"]
broken: [
---
# A <script>alert(1)</script> card

![pixel](https://a.example/pixel.png) <img src="https://a.example/x.png"> $x$ :red[boo]

[click](javascript:alert(1))
"""


def read(at: AppTest) -> str:
    return html.unescape(everything(at)).replace("\u2060", "")


@pytest.mark.parametrize(("model", "lang"), every(7, product(MODELS, LANGUAGES)))
def test_a_shipped_model_has_its_numbers_and_its_card(open_page, model, lang, shipped):
    at = open_page("card", model=model, lang=lang)
    assert not at.warning
    checkpoint = load_checkpoint(SHIPPED / model)
    said = read(at)
    count = sum(each.numel() for each in checkpoint.model.parameters())
    assert f"| {t('card.parameters', lang=lang)} | {count:,} |" in said
    assert f"| {t('card.width', lang=lang)} | {checkpoint.config.d_model:,} |" in said
    assert f"### {model}" in said
    assert t("card.none", lang=lang) not in said


def test_a_hostile_card_is_read_and_never_obeyed(open_page, shelf, tmp_path, monkeypatch):
    shutil.copytree(shelf / "en-zh", tmp_path / "en-zh")
    (tmp_path / "en-zh" / CARD).write_text(HOSTILE)
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path)
    at = open_page("card")
    assert not [each for each in at.markdown if each.allow_html]
    raw = "\n".join(words_of(each) for each in at.markdown)
    for acts in ("<script", "<img", "![", "](javascript", ":red[", "$x$", "license:"):
        assert acts not in raw
    (text,) = [each.value for each in at.code if "pixel" in each.value]
    assert text.strip() == HOSTILE.partition("---\n")[2].partition("---\n")[2].strip()
    said = read(at)
    assert "| Licence (from its card) | <script>alert(1)</script> |" in said
    assert "| Languages (from its card) | | x | · :red[y] |" in said


def shown(at: AppTest) -> list[str]:
    """What stands beside the model's name: the label of the result, else the words of waiting."""
    waiting = t("self_check.running", lang="en")
    result = [each.label for each in at.sidebar.button if each.key == "self_check.open"]
    return result + [str(each.value) for each in at.sidebar.caption if each.value == waiting]


@pytest.fixture(autouse=True)
def started(app, monkeypatch) -> Iterator[dict[object, threading.Thread]]:
    """The checks that this test started; none is left running."""
    threads: dict[object, threading.Thread] = {}
    monkeypatch.setattr(checking, "_STARTED", threads)
    monkeypatch.setattr(checking, "_FOUND", {})
    yield threads
    for each in threads.values():
        each.join(60)
        assert not each.is_alive()


def finish(started: dict[object, threading.Thread], model: str) -> None:
    checking.start(model)
    for thread in started.values():
        thread.join(60)


def test_its_result_stands_beside_the_name_and_leads_to_the_tests(open_page, started, monkeypatch):
    """Drawing a page starts nothing: the check waits until it has been drawn for an interval."""
    at = open_page("card")
    assert shown(at) == [t("self_check.running", lang="en")]
    assert not started
    visited: list[str] = []
    monkeypatch.setattr(session, "visit", visited.append)
    finish(started, "en-zh")
    at = open_page("card")
    assert shown(at) == [t("self_check.shipped.kept", lang="en", kept=16, tested=16)]
    at.button(key="self_check.open").click().run()
    assert visited == ["cases"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_failure_names_what_is_broken(open_page, lang, started, monkeypatch):
    broken = SelfCheck(16, ("future_leak", "prefix"))
    monkeypatch.setattr(checking, "check", lambda loaded, step, edits: broken)
    finish(started, "en-zh")
    button = open_page("card", lang=lang).button(key="self_check.open")
    assert button.label == t("self_check.shipped.broken", lang=lang, broken=2, tested=16)
    assert t("certify.future_leak.title", lang=lang) in button.help
    assert t("certify.prefix.title", lang=lang) in button.help


def test_a_change_is_checked_beside_the_model_as_shipped(open_page, started):
    edits = (MaskSwitch("causal", False),)
    checking.start("en-zh", edits)
    finish(started, "en-zh")
    at = open_page("masks", edits="causal-off")
    label = at.sidebar.button(key="self_check.open_edited").label
    found = checking._FOUND[checking._key("en-zh", edits)]
    assert {"future_leak", "future_mass"} <= {*found.broken}
    broken, tested = len(found.broken), found.tested
    assert label == t("self_check.edited.broken", lang="en", broken=broken, tested=tested)
    assert at.main.button(key="self_check.open_edited.masks.reset").label == label
    assert shown(at) == [t("self_check.shipped.kept", lang="en", kept=16, tested=16)]


def test_it_runs_once_one_at_a_time_behind_everything_else(started, monkeypatch):
    at_work, most, order = [0], [0], []
    go_on = threading.Event()

    def slow(loaded: object, step: Callable[[], None], edits: object) -> SelfCheck:
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        with TURNS.away():
            assert go_on.wait(60)
        step()
        order.append("check")
        at_work[0] -= 1
        return SelfCheck(1, ())

    monkeypatch.setattr(checking, "check", slow)
    for model in ("en-zh", "writer", "en-zh"):
        checking.start(model)
    assert len(started) == 2
    with TURNS.turn():
        go_on.set()
        order.append("visitor")
    for each in started.values():
        each.join(60)
    checking.start("en-zh")  # it is known
    assert not any(each.is_alive() for each in started.values())
    assert most == [1]
    assert order == ["visitor", "check", "check"]


def test_a_model_that_does_not_open_has_no_result_and_a_result_needs_no_cache(
    started, open_page, monkeypatch
):
    finish(started, "gone")
    assert list(checking._FOUND.values()) == [None]
    # Else the page would ask for it, and the server check the model, again and again.
    monkeypatch.setattr(caching, "STORE", caching.Store(0))
    finish(started, "en-zh")
    assert shown(open_page("card")) == [t("self_check.shipped.kept", lang="en", kept=16, tested=16)]


def test_the_oldest_results_are_forgotten_and_may_be_found_again(started, monkeypatch):
    monkeypatch.setattr(checking, "MOST_KEPT", 2)
    monkeypatch.setattr(checking, "_checked", lambda model, edits: None)
    for model in ("first", "second", "third", "first"):
        checking.start(model)
        started[checking._key(model, ())].join(60)
    kept = [checking._key(model, ()) for model in ("third", "first")]
    assert list(checking._FOUND) == kept == list(started)
