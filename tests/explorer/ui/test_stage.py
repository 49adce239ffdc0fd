"""What is painted before what: when a run of a fragment waits for the browser."""

from types import SimpleNamespace

import pytest

from explorer.engine.turns import TURNS
from explorer.ui import stage

Waits = list[bool]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """Each wait, as whether others could compute meanwhile; the run is of a whole page."""
    found: Waits = []
    monkeypatch.setattr(stage.st, "session_state", {})
    # The module's own name for `time`: other threads of the test run sleep too.
    clock = SimpleNamespace(sleep=lambda seconds: found.append(TURNS._holder is None))
    monkeypatch.setattr(stage, "time", clock)
    begin(monkeypatch)
    return found


def begin(monkeypatch: pytest.MonkeyPatch, *fragments: str) -> None:
    """Another run of the script: of the whole page where no fragment is named."""
    context = SimpleNamespace(fragment_ids_this_run=fragments, cursors={})
    monkeypatch.setattr(stage, "get_script_run_ctx", lambda: context)


def test_only_the_first_chart_of_a_run_waits(waits, monkeypatch) -> None:
    for _ in range(2):
        begin(monkeypatch, "picture")
        stage.charts_last()
        stage.charts_last()
    assert len(waits) == 2


def test_words_wait_only_for_a_run_of_the_model_that_is_new(waits, monkeypatch) -> None:
    for run, n_waits in (("first", 1), ("first", 1), ("second", 2)):
        begin(monkeypatch, "picture")
        stage.words_first(run)
        assert len(waits) == n_waits


def test_a_whole_page_waits_for_nothing_and_a_click_on_it_only_for_what_it_changes(
    waits, monkeypatch
) -> None:
    stage.words_first("first")
    stage.charts_last()
    begin(monkeypatch, "picture")
    stage.words_first("first")
    assert waits == []


def test_other_sessions_compute_during_a_pause(waits, monkeypatch) -> None:
    begin(monkeypatch, "picture")
    with TURNS.turn():
        stage.charts_last()
    assert waits == [True]


def test_what_is_new_is_so_once_and_only_in_a_fragment(waits, monkeypatch) -> None:
    assert not stage.is_new("place", 1)
    begin(monkeypatch, "picture")
    assert [stage.is_new("place", each) for each in (1, 2, 2, 1)] == [False, True, False, True]
    assert stage.is_new("other", 1)
    assert waits == []
