"""Who trains what: processes that end with their server, rooms nobody else finds, turns."""

import io
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from explorer.problems import InputProblem
from explorer.training import pairs, rooms, tasks
from explorer.training.rooms import Room, Rooms, Work
from explorer.training.runs import TrainingRun
from explorer.training.setup import Setup
from explorer.training.tasks import BRACKETS, brackets, corpus, sentences, sums

TINY = Setup(task="brackets", d_model=8, n_layers=1, n_heads=2, d_ff=8, steps=3000, batch=64)
PATIENCE = 60_000
CUT_OFF = "import os; os.write(1, {!r}); os.kill(os.getpid(), 9)"
HALVES = (
    b"",
    b'{"kind": "state", "sta',
    b'{"kind": "state", "state": "running"}\n{"kind": "steps", "loss": [0.1, 0.',
    '{"kind": "fault", "name": "屏'.encode()[:-1],
)


class Killed(Rooms):
    """Rooms whose processes are killed after they wrote these bytes; without, none starts."""

    wrote: bytes | None = None

    def __init__(self) -> None:
        super().__init__()
        self.given_back = threading.Semaphore(0)

    def _give_back(self, room: Room, work: Work) -> None:
        super()._give_back(room, work)
        self.given_back.release()

    def _started(self, begin: Path) -> subprocess.Popen[str]:
        if self.wrote is None:
            raise BlockingIOError("no process is left")
        command = [sys.executable, "-c", CUT_OFF.format(self.wrote)]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8", errors="replace"
        )


class Unstarted(Rooms):
    def _begin(self, room: Room, work: Work) -> None:
        work.run.state = "running"


@pytest.fixture
def unstarted(monkeypatch: pytest.MonkeyPatch) -> Unstarted:
    monkeypatch.setenv(rooms.VARIABLE, "2")
    return Unstarted()


def _serve(tell: int) -> None:
    """A server with one training, as a process that is about to be killed."""
    here = Rooms()
    room = here.open("somebody")
    here.start(room, TINY)
    process = room.work[0].process
    os.write(tell, f"{process.pid} {room.folder}\n".encode())
    signal.pause()


def test_a_training_ends_with_its_server_however_that_ends():
    hear, tell = os.pipe()
    server = os.fork()
    if not server:
        try:
            _serve(tell)
        finally:
            os._exit(1)
    os.close(tell)
    with os.fdopen(hear) as said:
        pid, folder = said.readline().split()
    watched = os.pidfd_open(int(pid))
    assert not select.select([watched], [], [], 0)[0]  # it is there
    os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)
    over = select.poll()
    over.register(watched, select.POLLIN)
    assert over.poll(PATIENCE), "an orphan is left"
    os.close(watched)
    assert not Path(folder).exists(), "what it kept is left"


def test_a_room_is_found_by_its_own_browser_until_its_last_watcher_left(unstarted):
    room = unstarted.open("alice")
    assert unstarted.find(room.name, "alice") is room
    assert unstarted.find(room.name, "bob") is None
    assert unstarted.find("guessed", "alice") is None
    assert len(room.name) >= 16
    unstarted.close(room)
    assert unstarted.find(room.name, "alice") is None
    assert not room.folder.exists()
    room, here = unstarted.open("a"), {"tab": True}
    unstarted.watch(room, "tab", lambda: here["tab"])
    unstarted.look_after(room.seen + 1000)
    assert unstarted.find(room.name, "a") is room  # somebody is there
    here["tab"] = False
    unstarted.look_after(room.seen + rooms.ABSENCE / 2)
    assert unstarted.find(room.name, "a") is room  # a reload takes a while
    unstarted.look_after(room.seen + rooms.ABSENCE + 1)
    assert unstarted.find(room.name, "a") is None


def test_few_train_at_once_one_of_each_visitor_and_the_others_know_their_place(unstarted):
    first, second, third = (unstarted.open(name) for name in "abc")
    own = unstarted.start(first, TINY)
    later = unstarted.start(first, TINY)
    other = unstarted.start(second, TINY)
    last = unstarted.start(third, TINY)
    states = [run.state for run in (own, later, other, last)]
    assert states == ["running", "waiting", "running", "waiting"]
    assert unstarted.ahead(first, own) == 0
    assert unstarted.ahead(third, last) == 3
    unstarted.order(third, last, "stop")  # nobody has to wait in order to stop
    assert last.state == "stopped"
    assert [run.state for run in (own, later, other)] == ["running", "waiting", "running"]
    unstarted.close_all()


def test_a_visitor_may_have_so_many_waiting_or_remembered_and_a_server_none(unstarted, monkeypatch):
    room = unstarted.open("a")
    for _ in range(rooms.MOST_WAITING):
        unstarted.start(room, TINY)
    with pytest.raises(InputProblem, match="training_waiting"):
        unstarted.start(room, TINY)
    monkeypatch.setenv(rooms.VARIABLE, "0")
    with pytest.raises(InputProblem, match="training_off"):
        unstarted.start(unstarted.open("b"), TINY)
    monkeypatch.setenv(rooms.VARIABLE, "many")
    with pytest.raises(ValueError, match="many"):
        rooms.at_once()
    room = unstarted.open("c")
    monkeypatch.setenv(rooms.VARIABLE, "2")
    room.runs = [TrainingRun(n, TINY, room.folder / str(n), "done") for n in range(rooms.MOST_RUNS)]
    unstarted.start(room, TINY)
    assert len(room.runs) == rooms.MOST_RUNS
    assert room.runs[0].number == 1
    unstarted.close_all()


def test_stop_is_known_at_once_and_until_it_is_done(unstarted):
    room = unstarted.open("somebody")
    run = unstarted.start(room, TINY)
    process = SimpleNamespace(stdin=io.StringIO(), kill=lambda: None, wait=lambda: None)
    room.work[0].process = process  # type: ignore[assignment]
    unstarted.order(room, run, "stop")
    sent = [json.loads(line) for line in process.stdin.getvalue().splitlines()]
    assert sent == [{"do": "stop"}]
    # A busy machine may take long: what was ordered before is heard of first.
    run.hear({"kind": "fault", "step": 3, "name": "no_causal", "on": True})
    assert run.is_stopping
    run.hear({"kind": "state", "state": "stopped"})
    assert not run.is_stopping


@pytest.mark.parametrize("wrote", [*HALVES, None])
def test_a_training_that_is_killed_while_it_writes_gives_its_place_back(monkeypatch, wrote):
    monkeypatch.setenv(rooms.VARIABLE, "1")
    here = Killed()
    here.wrote = wrote
    room = here.open("somebody")
    started = [here.start(room, TINY) for _ in range(2)]  # the second has to wait for it
    for _ in started:
        assert here.given_back.acquire(timeout=60)
    assert [run.state for run in started] == ["lost", "lost"]
    assert not here._running
    assert not here._waiting
    here.close_all()


# What is learnt: toy tasks, sentences, own pairs and everything that can be wrong with these.
MANY = "".join(f"{n}\t{n + 1}\n" for n in range(pairs.MOST_PAIRS + 7))


@pytest.mark.parametrize(
    ("text", "used", "same", "left_out"),
    [
        ("a b\tc\n\na b\tc\nx\ty\tfurther column\n", 2, 0, {"doubled": 1}),
        ("a\tb\nno tab\n\tempty\nempty\t \n", 1, 0, {"no_tab": 1, "empty": 2}),
        ("a\ta\nb\tb\n" + "z" * 201 + "\tw\n", 2, 2, {"too_long": 1}),
        (MANY, pairs.MOST_PAIRS, 0, {"too_many": 7}),
        ("\n" * pairs.MOST_LINES + "a\tb\n", 0, 0, {"too_many": 1}),
        ("\nen\tzh\na\tb", 1, 0, {"header": 1}),
        ("Source\tTarget\na\tb", 1, 0, {"header": 1}),
        ("text\t文本\n", 1, 0, {}),
        ("a\tb\nen\tzh", 2, 0, {}),
    ],
)
def test_pairs_are_read_and_what_is_left_out_is_counted(text, used, same, left_out):
    found = pairs.read(text)
    assert (len(found.rows), found.counts.used, found.counts.same_sides) == (used, used, same)
    assert found.counts.left_out == left_out
    assert ("further" in text) == (("x", "y") in found.rows)


def test_few_rows_are_learnt_by_heart_long_ones_left_out_and_fewer_than_two_refused():
    for text in ("", "only source\nmore", "a\tb"):
        with pytest.raises(InputProblem, match="training_pairs"):
            corpus(Setup(task="own", text=text))
    text = "".join(f"wort {chr(97 + n)}\tword {chr(107 + n)}\n" for n in range(10))
    found = corpus(Setup(task="own", text=text))
    assert found.by_heart
    assert len(found.rows) == len(found.held_out) == 10
    assert all(not found.tokenizer.unknown(side) for row in found.rows for side in row)
    long = "1234567890" * 10  # every digit is a token
    found = corpus(Setup(task="own", text=f"a b\tb a\nb c\tc b\n{long}\tx\n"))
    assert found.too_long == 1


@pytest.mark.parametrize("vocabularies", ["shared", "apart"])
def test_many_own_pairs_are_encoded_in_another_process_outside_the_turn(vocabularies, monkeypatch):
    turns: list[int] = []

    @contextmanager
    def away() -> Iterator[None]:
        turns.append(0)
        yield

    def own(n: int) -> Setup:
        lines = [f"wort {at} sagt {at * at}\tword {at} says {at * at}" for at in range(n)]
        text = "\n".join([*lines, "1234567890" * 10 + "\ttoo long"])
        return Setup(task="own", vocabularies=vocabularies, text=text)

    corpus(own(9), away)
    assert not turns
    here = corpus(own(400))
    monkeypatch.delattr(tasks, "train_tokenizer")  # so that it cannot be used here
    there = corpus(own(400), away)
    assert len(turns) == 1
    assert replace(there, tokenizer=here.tokenizer) == here
    assert there.too_long == 1
    assert there.tokenizer.to_json() == here.tokenizer.to_json()
    assert there.sizes == here.sizes
    monkeypatch.setattr(tasks, "PATIENCE", 0)
    with pytest.raises(InputProblem, match="training_heavy"):
        corpus(own(401), away)


def test_tasks_are_right_and_what_is_measured_on_is_never_learnt():
    for question, answer in sums()[:50]:
        one, other = question.replace(" ", "").split("+")
        assert int(one) + int(other) == int(answer.replace(" ", ""))
    for text, rest in brackets()[:50]:
        opened: list[str] = []
        for each in (*text.split(), *rest.split()):
            if each in BRACKETS:
                opened.append(BRACKETS[each])
            else:
                assert opened.pop() == each
        assert not opened
    for setup in (Setup(task="reverse"), Setup(task="sentences")):
        found = corpus(setup)
        assert not set(found.rows) & set(found.held_out)
    assert len(sentences()) == len(set(sentences()))
