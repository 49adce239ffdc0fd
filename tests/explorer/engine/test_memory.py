"""Memory that nobody holds goes back, when the process has grown enough."""

import gc
import weakref
from collections.abc import Iterator
from threading import Event

import pytest

from explorer.engine import memory

MB = 2**20


class Ring:
    """An object that holds itself, as a run may by way of its page."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def not_collected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_what_holds_only_itself_is_given_back(not_collected: None) -> None:
    seen = weakref.ref(Ring())
    assert seen() is not None
    memory.give_back()
    assert seen() is None


def test_the_process_knows_its_size() -> None:
    assert memory.resident() > 10 * MB or memory.resident() == 0


@pytest.mark.parametrize(
    ("sizes", "given"),
    [
        ([500, 560, 620], 0),  # not by enough
        ([500, 800, 550, 700, 900, 600], 2),  # again only when it has grown once more
        ([500, 200, 500, 300], 1),  # since the least
    ],
)
def test_memory_is_given_back_once_the_process_has_grown(
    sizes: list[int], given: int, monkeypatch: pytest.MonkeyPatch
) -> None:
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
