"""A property that is kept: computed once, and nobody waits for it who is waited for."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import torch

from explorer.engine.turns import Turns
from explorer.once import once
from explorer.runs.passes import seeded

PATIENCE = 10


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
