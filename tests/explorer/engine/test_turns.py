"""One thread computes at a time, short work before long work, and nobody waits for who waits."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from explorer.engine.caching import Store
from explorer.engine.jobs import Job
from explorer.engine.turns import LONG, SHORT, TURNS, Together, Turns, computing
from explorer.library import open_model
from explorer.runs.generation import Generation, generating
from explorer.runs.passes import Steps, StoppedError, seeded, walked
from models.config import ModelConfig
from models.rows import Rows
from models.strategies import Greedy
from models.transformer import build_model

PATIENCE = 60.0


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """A time.perf_counter that stands still until its `now` is set."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("explorer.engine.turns.time.perf_counter", lambda: clock.now)
    return clock


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def n_waiting(turns: Turns) -> int:
    return len(turns._waiting)


def until(what: Callable[[], bool]) -> None:
    event = threading.Event()
    for _ in range(int(PATIENCE / 0.005)):
        if what():
            return
        event.wait(0.005)
    raise AssertionError("nothing happened")


def queue(turns: Turns, names: str, order: list[str]) -> list[threading.Thread]:
    """One thread a letter, which wait in this order and write their letter once they have gone."""
    threads = []
    for at, name in enumerate(names, n_waiting(turns) + 1):

        def go(name: str = name) -> None:
            with turns.turn():
                order.append(name)

        threads.append(started(go))
        until(lambda at=at: n_waiting(turns) == at)
    return threads


@contextmanager
def turn_before(turns: Turns, names: str) -> Iterator[list[str]]:
    """A turn for which threads wait, one a letter; gives the letters of those that have gone."""
    order: list[str] = []
    with turns.turn():
        threads = queue(turns, names, order)
        yield order
    for thread in threads:
        thread.join(PATIENCE)


def test_one_at_a_time_in_order_except_while_one_is_away():
    turns = Turns()
    with turn_before(turns, "abc") as order:
        assert order == []
    assert order == ["a", "b", "c"]
    assert n_waiting(turns) == 0
    turns.rest()  # outside a turn nothing waits
    with turns.away():
        assert n_waiting(turns) == 0
    with turn_before(turns, "a") as order:
        with turns.away():
            until(lambda: order == ["a"])
        queue(turns, "b", order)
        assert order == ["a"]  # back in its turn


def test_long_work_lets_those_go_first_who_have_computed_less(clock):
    turns = Turns()
    with turn_before(turns, "ab") as order:
        turns.rest()  # as short as theirs so far, and first
        assert order == []
        clock.now += 2 * SHORT
        turns.rest()
        assert order == ["a", "b"]
        turns.rest()  # nobody waits
    turns, order = Turns(), []

    def long() -> None:
        with turns.turn():
            clock.now += 2 * SHORT
            turns.rest()
            order.append("two")

    with turns.turn():
        clock.now += 3 * SHORT
        thread = started(long)
        until(lambda: n_waiting(turns) == 1)
        turns.rest()  # lets it begin; it rests in turn, having used 2 against 3
        order.append("three")
    thread.join(PATIENCE)
    assert order == ["two", "three"]


@pytest.mark.parametrize("lull", [2 * PATIENCE, 0.0])
def test_long_work_begins_no_step_while_short_work_is_away_for_a_moment(clock, monkeypatch, lull):
    """Else each of the waits of a click, for its charts or for a job, costs it such a step."""
    monkeypatch.setattr("explorer.engine.turns.LULL", lull)
    turns, order, stepped = Turns(), [], threading.Event()

    def short() -> None:
        with turns.turn():
            with turns.away():
                if not lull:
                    assert stepped.wait(PATIENCE)
            order.append("click")
        turns._go_on()

    with turns.turn():
        clock.now += 2 * LONG
        click = started(short)
        until(lambda: n_waiting(turns) == 1)
        turns.rest()
        order.append("step")
        stepped.set()
    click.join(PATIENCE)
    assert order == (["click", "step"] if lull else ["step", "click"])


def test_a_turn_in_a_turn_is_the_same_and_ends_after_an_error():
    turns = Turns()
    with pytest.raises(KeyError), turns.turn(), turns.turn():
        raise KeyError
    done = []
    started(computing()(lambda: done.append(1))).join(PATIENCE)
    with turns.turn(), turns.turn():
        pass
    assert done == [1]


def test_who_waits_for_the_same_result_lets_its_maker_compute():
    store, asked, results = Store(1_000_000), threading.Event(), []

    def make() -> str:
        with TURNS.away():  # somebody else asks in the meantime
            asked.wait(PATIENCE)
        return "made"

    def ask() -> None:
        with TURNS.turn():
            results.append(store.get("key", make))

    first = started(ask)
    until(lambda: "key" in store._making)
    with TURNS.turn():
        asked.set()
        assert store.get("key", make) == "made"
    first.join(PATIENCE)
    assert results == ["made"]


def test_others_go_first_at_each_step_and_before_each_pass_of_a_model(clock):
    with turn_before(TURNS, "a") as order:

        def steps() -> Steps[str]:
            yield 1, 2
            assert order == []
            clock.now += 2 * SHORT
            yield 2, 2
            assert order == ["a"]
            return "made"

        assert walked(steps()) == "made"
    # An analysis that reads many times need not know of turns.
    model = build_model(ModelConfig(vocab_size=7, d_model=8, n_heads=2, family="decoder-only"))
    rows = Rows(torch.tensor([[1, 2, 3]]))
    with turn_before(Turns(), "a") as order:
        clock.now += 2 * SHORT
        with seeded(0):  # who went first might wait for the seed
            model.read(rows)
        assert order == []
        model.read(rows)
        assert order == ["a"]


def test_work_ends_some_time_after_its_visitor_has_gone(monkeypatch):
    """Not at once: a line that broke off for a moment does not stop what she waits for."""
    here, told = threading.Event(), threading.Event()
    here.set()

    def work(tell: Callable[[int, int], bool]) -> int:
        steps = 0
        while tell(steps, 1000):
            steps += 1
            told.set()
        return steps

    job: Job[int] = Job("key", work, here.is_set)
    assert told.wait(PATIENCE)
    here.clear()
    told.clear()
    assert told.wait(PATIENCE)  # absent, but not long
    monkeypatch.setattr("explorer.engine.jobs.ABSENCE", 0.0)
    assert job.wait(PATIENCE)
    assert job.result() > 0


def test_work_that_was_stopped_has_no_result():
    begun, stopped = threading.Event(), threading.Event()

    def work(tell: Callable[[int, int], bool]) -> None:
        begun.set()
        with TURNS.away():
            stopped.wait(PATIENCE)
        walked((step for step in ((1, 2), (2, 2))), tell)

    job: Job[None] = Job("key", work)
    assert begun.wait(PATIENCE)
    job.stop()
    stopped.set()
    with pytest.raises(StoppedError):
        job.result()


def test_a_job_goes_on_while_the_page_waits_and_knows_how_many_go_first():
    """The page holds the turn that the job needs, and would wait for ever if it kept it."""
    with turn_before(TURNS, "") as order:
        job: Job[int] = Job("key", lambda tell: 7 if tell(1, 1) else 0)
        until(lambda: n_waiting(TURNS) == 1)
        threads = queue(TURNS, "ab", order)
        assert job.ahead == 3  # the one that computes, and two pages
        assert job.wait(PATIENCE)
        assert (job.ahead, job.result()) == (0, 7)
    for thread in threads:
        thread.join(PATIENCE)


def test_at_the_end_of_the_process_who_computes_ends_a_step_and_nobody_begins_another():
    turns, done = Turns(), []
    begun, go = threading.Event(), threading.Event()

    def work() -> None:
        with turns.turn():
            begun.set()
            assert go.wait(PATIENCE)
            done.append("step")
            turns.rest()
            done.append("another")

    started(work)
    assert begun.wait(PATIENCE)
    ending = started(turns.end)
    until(lambda: n_waiting(turns) == 1)
    go.set()
    ending.join(PATIENCE)
    assert (done, n_waiting(turns)) == (["step"], 1)
    queue(turns, "a", done)
    assert done == ["step"]


def test_who_is_away_has_no_turn_to_give_to_others():
    """As where one waits for what another computes, and is told how far that is: her own work lets
    others go first at each step. If she gave a turn away then, she would wait for herself.
    """
    turns, holders, is_away, may_rest = Turns(), [], threading.Event(), threading.Event()

    def wait_for_another() -> None:
        with turns.turn():
            with turns.away():
                is_away.set()
                may_rest.wait(PATIENCE)
                turns.rest()
                holders.append(turns._holder)
            order.append("back")

    waiting = started(wait_for_another)
    assert is_away.wait(PATIENCE)
    with turn_before(turns, "ab") as order:
        mine = turns._holder
        may_rest.set()
        until(lambda: bool(holders))
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    assert holders == [mine]
    assert sorted(order) == ["a", "b", "back"]


def test_who_computes_for_others_or_steps_back(clock):
    turns = Turns()
    with turn_before(turns, "a") as order:
        with turns.shared(4):
            clock.now += 2 * SHORT
        turns.rest()
        assert order == []
        clock.now += SHORT
        turns.rest()
        assert order == ["a"]
    with turn_before(turns, "ab") as order:
        turns.step_back()
        order.append("me")
        (later,) = queue(turns, "c", order)
        turns.rest()  # those who came later come later
        order.append("me")
    later.join(PATIENCE)
    assert order == ["a", "b", "me", "me", "c"]


def test_waiting_requests_of_a_group_are_answered_by_one_call():
    turns, calls, answers = Turns(), [], {}
    together = Together(turns)

    def work(items: list[int]) -> list[int]:
        calls.append(sorted(items))
        if 0 in items:
            raise ValueError("0 has no answer")
        return [10 * item for item in items]

    def ask(group: str, item: int) -> None:
        with turns.turn():
            try:
                answers[group, item] = together.ask(group, item, work)
            except ValueError as problem:
                answers[group, item] = problem

    asked = [("x", 1), ("x", 2), ("y", 3), ("x", 4), ("z", 0), ("z", 5)]
    with turns.turn():
        threads = [started(lambda each=each: ask(*each)) for each in asked]
        until(lambda: n_waiting(turns) == len(asked))
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(calls) == [[0], [0, 5], [1, 2, 4], [3], [5]]
    assert isinstance(answers.pop(("z", 0)), ValueError), "the error is its own"
    assert answers == {(group, item): 10 * item for group, item in asked if item}


def test_a_job_has_what_is_written_so_far():
    loaded, ready, seen = open_model("copy"), threading.Event(), []

    def work(tell: Callable[[int, int], bool]) -> Generation:
        def hear(done: int, total: int) -> bool:
            wanted = tell(done, total)
            seen.append(job.written)
            return wanted

        assert ready.wait(PATIENCE)
        return walked(generating(loaded, "a b c d", Greedy()), hear)

    job: Job[Generation] = Job("key", work)
    ready.set()
    tokens = job.result().tokens
    assert len(tokens) == 5
    assert seen == [loaded.tokenizer.decode(tokens[:count]) for count in range(1, 6)]
