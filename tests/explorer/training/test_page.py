"""The training room without a process: what it says before, during and after a training."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from shown import everything, link, messages, reading
from streamlit.testing.v1 import AppTest

from explorer.library import CHECKPOINTS
from explorer.text import t
from explorer.training import rooms
from explorer.training.opened import untrained
from explorer.training.rooms import ROOMS, Room, Work
from explorer.training.runs import CHECKPOINT, TrainingRun, Validation
from explorer.training.setup import Setup, format_setup, parse_setup
from explorer.ui import running
from explorer.ui.running import unmasked

SMALL = "n_layers-1~d_model-8~n_heads-2~d_ff-8~steps-100"


@pytest.fixture
def room(monkeypatch) -> Iterator[Room]:
    """A room whose processes never begin."""
    monkeypatch.setattr(rooms.Rooms, "_begin", lambda self, room, work: _running(work))
    monkeypatch.setattr(running, "browser", lambda: "")  # AppTest has no cookies
    found = ROOMS.open("")
    yield found
    ROOMS.close(found)


def _running(work: Work) -> None:
    work.run.state = "running"


@cache
def begun() -> TrainingRun:
    return untrained(parse_setup(SMALL), "", (0, 0))


def trained(room: Room, setup: Setup, *frees: float, state: str = "done") -> TrainingRun:
    """A run of the room that was measured every 50 steps."""
    run = ROOMS.start(room, setup)
    fresh = begun()
    run.about, run.state = fresh.about, state
    run.scores = [
        Validation(50 * at, 4.0 / (at + 1), min(1, free + 0.1), free, free**2, "a b")
        for at, free in enumerate(frees)
    ]
    run.loss = run.norm = np.linspace(4, 1, 50 * (len(frees) - 1)).tolist()
    run.frames = [replace(fresh.frames[0], step=score.step) for score in run.scores]
    room.work.clear()
    ROOMS._running.clear()
    return run


def keys(at: AppTest) -> set[str]:
    """The keys of all views."""
    return {each.key for each in at.get("bidi_component")}


def test_the_first_view_says_what_chance_would_give_and_start_gives_a_room_and_a_link(
    open_page, room
):
    at = open_page("training", setup=SMALL)
    assert "ln 45 = 3.81" in reading(at, "untrained parameters")
    assert at.button(key="training.start").disabled is False
    at.button(key="training.start").click().run()
    found = ROOMS.find(link(at)["room"], "")
    assert [format_setup(run.setup) for run in found.runs] == [SMALL]
    again = open_page("training", **link(at))
    assert "Training: step **0** of 100" in everything(again)
    ROOMS.close(found)


def test_an_architecture_that_cannot_work_and_too_few_pairs_are_refused(open_page):
    at = open_page("training", setup="n_heads-5")
    assert "must be a multiple of n&#95;heads &#61; 5" in messages(at)
    assert at.button(key="training.start").disabled
    at = open_page("training", setup="n_layers-6~d_model-128~d_ff-512", lang="zh")
    assert "1,000,000" in messages(at)
    at = open_page("training", setup="task-own")
    assert t("problems.training_pairs", lang="en", count=0, limit=2) in messages(at)
    at.text_area(key="training.pairs").set_value("a b\tb a\nno tab\nc d\td c\n\tx\n").run()
    assert "**2**" in everything(at)
    assert "Without a TAB: 1." in everything(at)
    assert "With an empty side: 1." in everything(at)
    assert not at.warning
    assert at.button(key="training.start").disabled is False
    assert "2 examples are too few for a validation set" in everything(at)


def test_a_browser_is_known_by_its_token_and_sees_no_room_of_another(open_page, room):
    trained(room, parse_setup(SMALL), 0.0, 0.5)
    room.owner = "another browser"
    at = open_page("training", setup=SMALL, room=room.name)
    assert any(t("training.gone", lang="en") == each.value for each in at.info)
    assert "untrained parameters" in everything(at)
    first = "2|b7a867dd|11950f9ee419b847dc23f79faacb6fe3|1795457590"
    reloaded = "2|95be50ab|338338e8c60f8f31fe35c0e988dd5895|1795457590"
    other = "2|f7d524fb|d12a458ad5e1b7089d6c461e2f298ab8|1795457626"
    assert unmasked(first) == unmasked(reloaded) != unmasked(other)
    assert unmasked("odd") == "odd"


def test_both_accuracies_are_said_and_the_model_is_opened_on_the_other_pages(
    open_page, room, tmp_path
):
    run = trained(room, parse_setup(SMALL), 0.0, 0.25)
    run.faults = [(30, "no_causal", True)]
    at = open_page("training", setup=SMALL, room=room.name)
    assert "token accuracy is 35 % teacher-forced and 25 % free-running" in everything(at)
    tells = t("training.faults.no_causal.tells", lang="en")
    assert tells in everything(at)
    run.faults = [(run.scores[-1].step, "no_causal", True)]  # measured before it was injected
    assert tells not in everything(open_page("training", setup=SMALL, room=room.name))
    run.folder = tmp_path
    (tmp_path / CHECKPOINT).symlink_to(CHECKPOINTS / "copy")
    at = open_page("training", setup=SMALL, room=room.name)
    at.button(key="training.open").click().run()
    assert link(at)["text"] == run.about["shown"][0]
    assert link(at)["model"].startswith("reverse-50-steps-1~")


def test_a_press_on_stop_is_answered_at_once_and_a_divergence_explained(open_page, room):
    run = trained(room, parse_setup(SMALL), 0.0, 0.25, state="running")
    stop = "training.stop"
    at = open_page("training", setup=SMALL, room=room.name)
    assert stop in {each.key for each in at.button}
    run.ordered = "stop"
    at.run()
    assert t("training.stopping", lang="en", step=50) in everything(at)
    assert stop not in {each.key for each in at.button}
    run = trained(room, parse_setup(SMALL), 0.0, 0.25, state="paused")
    run.diverged, run.kept = "loss", {0, 50}
    at = open_page("training", setup=SMALL, room=room.name)
    diverged = t("training.diverged", lang="en", step=50)
    assert any(diverged in each.value for each in at.error)


def test_the_page_is_drawn_again_only_while_what_it_shows_may_change(open_page, room):
    """In a comparison, that is any training."""
    done = trained(room, parse_setup(SMALL), 0.0, 0.25)
    run = trained(room, parse_setup(SMALL), 0.0, 0.25)
    asked = {"setup": SMALL, "room": room.name, "shown": str(done.number)}
    for state, draws_again in (("running", True), ("paused", False), ("done", False)):
        run.state = state
        assert ("training.pulse" in keys(open_page("training", part="compared", **asked))) == (
            draws_again
        )
        assert "training.pulse" not in keys(open_page("training", part="live", **asked))


def full(*args: object, **more: object) -> str:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda patch: patch.setenv(rooms.VARIABLE, "0"), "Training is disabled on this server"),
        (lambda patch: patch.setattr("tempfile.mkdtemp", full), "temporary folder"),
    ],
)
def test_a_refused_start_is_said_once(open_page, room, monkeypatch, changed, said):
    at = open_page("training", setup=SMALL)
    changed(monkeypatch)
    at.button(key="training.start").click().run()
    assert said in messages(at)
    assert not at.run().warning


def test_trainings_of_one_task_are_compared_by_what_differs(open_page, room):
    base = parse_setup(SMALL)
    trained(room, base, 0.0, 0.8)
    changed = trained(room, replace(base, n_heads=1), 0.0, 0.3, 0.4)
    changed.faults = [(30, "no_causal", True)]
    link = {"setup": SMALL, "room": room.name, "part": "compared", "picture": "free"}
    said = everything(open_page("training", **link))
    assert "after step 50: “1 · Heads: 2” reaches 80 %" in said
    assert "“2 · Heads: 1 · no causal mask from step 30” 30 %" in said
    assert t("training.compare.one_seed", lang="en") in said
    trained(room, replace(base, task="sort"), 0.0, 0.5)
    assert t("training.compare.few", lang="en") in everything(open_page("training", **link))
