"""Asking: what is answered once is kept, and what takes long goes step by step."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event

import pytest
import torch

from explorer.engine import caching, memory
from explorer.engine.caching import Request, Store, ask, is_answered
from explorer.engine.turns import Turns
from explorer.once import once
from explorer.runs.passes import Steps, seeded

MB = 2**20


@pytest.fixture(autouse=True)
def _own_store(monkeypatch) -> None:
    monkeypatch.setattr(caching, "STORE", Store(10**6))


@pytest.mark.parametrize("long", [False, True])
def test_an_answer_that_is_not_worth_it_is_not_kept(long):
    def short(number: int) -> int:
        return number

    def in_steps(number: int) -> Steps[int]:
        yield 1, 1
        return number

    for number, kept in ((1, False), (2, True)):
        asked = Request(in_steps if long else short, (number,), lambda n=number: {"number": n})
        request = replace(asked, worth=lambda answer: answer % 2 == 0)
        assert ask(request) == number
        assert is_answered(request) == kept


class Ring:
    """An object that holds itself, as a run may by way of its page."""

    def __init__(self) -> None:
        self.itself = self


def test_what_holds_only_itself_is_given_back():
    gc.disable()
    try:
        seen = weakref.ref(Ring())
        assert seen() is not None
        memory.give_back()
        assert seen() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("sizes", "given"),
    [
        ([500, 560, 620], 0),  # not by enough
        ([500, 800, 550, 700, 900, 600], 2),  # again only when it has grown once more
        ([500, 200, 500, 300], 1),  # since the least
    ],
)
def test_memory_is_given_back_once_the_process_has_grown(sizes, given, monkeypatch):
    over, left, count = Event(), [size * MB for size in sizes], [0]

    def resident() -> int:
        if len(left) == 1:
            over.set()
        return left.pop(0)

    def give_back() -> None:
        count[0] += 1

    monkeypatch.setattr(memory, "OFTEN", 0.0)
    monkeypatch.setattr(memory, "resident", resident)
    monkeypatch.setattr(memory, "give_back", give_back)
    memory.look_after(over)
    assert count == [given]


PATIENCE = 60


class Visitor:
    """One who lets others go first while her property is computed, once somebody waits."""

    def __init__(self, turns: Turns, began: Event) -> None:
        self.turns, self.began, self.n_computed = turns, began, 0

    @once
    def drawn(self) -> int:
        self.n_computed += 1
        self.began.set()
        with self.turns.away():  # the other one goes first, and reads the same property of hers
            Event().wait(0.2)
        return self.n_computed


def test_it_is_computed_once_an_object_and_sessions_draw_undisturbed():
    @dataclass(frozen=True)
    class Circle:
        radius: int

        @once
        def area(self) -> list[int]:
            """Without pi."""
            return [self.radius**2]

    one, two = Circle(2), Circle(3)
    assert one.area is one.area
    assert (one.area, two.area) == ([4], [9])
    assert Circle.area.__doc__ == "Without pi."
    alone = {seed: _drawn(seed) for seed in range(4)}
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(_drawn, [0, 1, 2, 3] * 5))
    assert together == [alone[seed] for seed in [0, 1, 2, 3] * 5]
    before = torch.get_rng_state()
    _drawn(7)
    assert torch.equal(torch.get_rng_state(), before)


def test_two_visitors_who_let_each_other_go_first_do_not_wait_for_each_other():
    # With functools.cached_property on Python 3.11 the second waits for the lock of the first,
    # and the first for the turn of the second: the whole server stands still.
    turns, began = Turns(), Event()
    visitors = [Visitor(turns, began) for _ in range(2)]

    def visit(visitor: Visitor) -> int:
        with turns.turn():
            return visitor.drawn

    pool = ThreadPoolExecutor(2)
    first = pool.submit(visit, visitors[0])
    assert began.wait(PATIENCE)
    second = pool.submit(visit, visitors[1])
    assert [each.result(PATIENCE) for each in (first, second)] == [1, 1]
    assert [visitor.n_computed for visitor in visitors] == [1, 1]


def _drawn(seed: int) -> list[float]:
    with seeded(seed):
        return [float(torch.rand(())) for _ in range(300)]
