"""Asking: what is answered once is kept, and what takes long goes step by step."""

import gc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from explorer.engine import caching, memory
from explorer.engine.caching import Request, Store, ask, is_answered
from explorer.runs.passes import Steps

Asked = list[str]

MB = 2**20


@pytest.fixture(autouse=True)
def _own_store(monkeypatch) -> None:
    monkeypatch.setattr(caching, "STORE", Store(10**6))


def request_of(function: Callable[..., Any], **values: int) -> Request[Any]:
    return Request(function, tuple(values.values()), lambda: values)


def test_what_was_answered_is_not_asked_again_and_a_part_is_given_to_who_stopped():
    asked: Asked = []

    def doubled(number: int) -> int:
        asked.append("doubled")
        return 2 * number

    assert [ask(request_of(doubled, number=each)) for each in (3, 3, 4)] == [6, 6, 8]
    assert len(asked) == 2
    assert is_answered(request_of(doubled, number=4))
    assert not is_answered(request_of(doubled, number=5))

    def halves() -> Steps[str]:
        return "a half" if (yield 1, 2) is False else "all"

    assert ask(request_of(halves), lambda done, total: False) == "a half"
    assert not is_answered(request_of(halves))
    assert ask(request_of(halves)) == "all"
    assert ask(request_of(halves), lambda done, total: False) == "all"


@pytest.mark.parametrize("long", [False, True])
def test_an_answer_that_is_not_worth_it_is_not_kept(long):
    def short(number: int) -> int:
        return number

    def in_steps(number: int) -> Steps[int]:
        yield 1, 1
        return number

    for number, kept in ((1, False), (2, True)):
        request = request_of(in_steps if long else short, number=number)
        request = replace(request, worth=lambda answer: answer % 2 == 0)
        assert ask(request) == number
        assert is_answered(request) == kept


class Ring:
    """An object that holds itself, as a run may by way of its page."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def not_collected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_what_holds_only_itself_is_given_back(not_collected):
    seen = weakref.ref(Ring())
    assert seen() is not None
    memory.give_back()
    assert seen() is None


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
