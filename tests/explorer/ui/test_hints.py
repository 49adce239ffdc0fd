"""Which sentences a model can read."""

from functools import cache
from types import SimpleNamespace

import pytest

from explorer import library, text
from explorer.engine.turns import TURNS
from explorer.exhibits.view import default_model, first_sentence, reading_language
from explorer.library import CHECKPOINTS, list_models
from explorer.ui import running
from explorer.ui.hints import can_read

open_model = cache(library.open_model)  # opened once, and only read


@pytest.mark.parametrize(
    ("sentence", "language"),
    [
        ("She reads.", "en"),
        ("她看书。", "zh"),
        ("我喜欢 Tom。", "zh"),
        ("The sign says 北京.", "en"),
        ("123 !?", None),
        ("", None),
    ],
)
def test_the_language_of_a_text_is_that_of_most_of_its_words(sentence, language):
    assert text.script(sentence) == language


def test_shipped_models_read_their_own_examples_and_no_other_language():
    reads = {name: reading_language(name) for name in list_models(CHECKPOINTS)}
    assert reads["en-zh"] == reads["stories"] == reads["twin-right"] == "en"
    assert reads["zh-en"] == "zh"
    assert reads["copy"] is reads["sort"] is reads["reader"] is None
    assert reading_language("twin-right@200") == "en"
    assert reading_language("somebody-elses") is None
    for name in ("en-zh", "zh-en", "stories", "masked-en", "copy", "twin-right"):
        assert can_read(open_model(name), first_sentence(name)), name
    assert not can_read(open_model("zh-en"), "She reads a book.")
    assert not can_read(open_model("stories"), "她看书。")
    assert not can_read(open_model("copy"), "She reads a book.")
    assert not can_read(open_model("twin-right"), "a book " * 60)
    assert can_read(open_model("stories"), "She reads a book.")


def test_each_language_opens_with_its_readers_translator_and_lists_it_first():
    names = list_models(CHECKPOINTS)
    assert default_model(names, "en") == text.in_order(names, lang="en")[0] == "zh-en"
    assert default_model(names) == "en-zh"  # of a link that names none
    assert default_model(names, "zh") == text.in_order(names, lang="zh")[0] == "zh-en"
    assert default_model(()) == "en-zh"
    assert text.in_order(("zzz", "sort", "mine"), lang="en") == ("sort", "mine", "zzz")
    for lang in text.LANGUAGES:
        assert sorted(text.in_order(names, lang=lang)) == sorted(names)


# What is painted before what: when a run of a fragment waits for the browser.
Waits = list[bool]


@pytest.fixture
def waits(monkeypatch) -> Waits:
    """Each wait, as whether others could compute meanwhile; the run is of a whole page."""
    found: Waits = []
    monkeypatch.setattr(running.st, "session_state", {})
    # The module's own name for `time`: other threads of the test run sleep too.
    clock = SimpleNamespace(sleep=lambda seconds: found.append(TURNS._holder is None))
    monkeypatch.setattr(running, "time", clock)
    begin(monkeypatch)
    return found


def begin(monkeypatch: pytest.MonkeyPatch, *fragments: str) -> None:
    """Another run of the script: of the whole page where no fragment is named."""
    context = SimpleNamespace(fragment_ids_this_run=fragments, cursors={})
    monkeypatch.setattr(running, "get_script_run_ctx", lambda: context)


def test_only_the_first_chart_of_a_run_waits(waits, monkeypatch):
    for _ in range(2):
        begin(monkeypatch, "picture")
        running.charts_last()
        running.charts_last()
    assert len(waits) == 2


def test_words_wait_only_for_a_run_of_the_model_that_is_new(waits, monkeypatch):
    running.words_first("first")  # a whole page waits for nothing
    running.charts_last()
    for run, n_waits in (("first", 0), ("second", 1), ("second", 1), ("third", 2)):
        begin(monkeypatch, "picture")
        running.words_first(run)
        assert len(waits) == n_waits


def test_what_is_new_is_so_once_in_a_fragment_whose_pause_lets_others_compute(waits, monkeypatch):
    assert not running.is_new("place", 1)
    begin(monkeypatch, "picture")
    assert [running.is_new("place", each) for each in (1, 2, 2, 1)] == [False, True, False, True]
    assert running.is_new("other", 1)
    assert waits == []
    with TURNS.turn():
        running.charts_last()
    assert waits == [True]
