"""The one cache: bounded in bytes, least recently used out first, computed once, never changed."""

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from explorer import library
from explorer.engine import caching
from explorer.engine.caching import Request, Store, ask, budget, cached, is_answered, size_of
from explorer.engine.jobs import Tell
from explorer.runs.passes import Steps, walked
from models.fast.maps import FastLinear

ROOM = 15_000
"""Bytes: for ten arrays of a thousand, each with what surrounds it."""


@dataclass(frozen=True, eq=False)
class Made:
    """A result as pages have them: arrays, words, a dict."""

    words: tuple[str, ...]
    values: np.ndarray
    more: dict[str, np.ndarray]


@pytest.fixture
def store(monkeypatch) -> Store:
    kept = Store(ROOM)
    monkeypatch.setattr(caching, "STORE", kept)
    return kept


def kilo(number: int = 0) -> np.ndarray:
    return np.full(1000, number % 256, np.uint8)


def test_the_least_recently_used_goes_first(store):
    made: list[int] = []

    @cached
    def make(number: int) -> np.ndarray:
        made.append(number)
        return kilo(number)

    first, number = weakref.ref(make(0)), 0
    while make.is_kept(0):  # until it had to go
        number += 1
        make(number)
    assert first() is None  # nobody holds what has gone
    assert ROOM / 2 < store.n_bytes <= ROOM
    number += 1
    make(1)  # used again, so 2 is now the oldest
    make(number)
    assert make.is_kept(1)
    assert not make.is_kept(2)
    make(1)
    assert made.count(1) == 1


def test_work_step_by_step_is_cached(store):
    made: list[int] = []

    @cached
    def square(number: int) -> Steps[int]:
        for done in range(number):
            yield done, number
        made.append(number)
        return number * number

    def longer() -> Steps[int]:
        return (yield from square.steps(2)) + (yield from square.steps(3))

    assert square(2) == 4
    steps = longer()
    assert [*steps] == [(0, 3), (1, 3), (2, 3)]  # the square of 2 is known
    assert walked(longer()) == 13
    assert made == [2, 3]


def test_what_is_kept_is_read_only_and_not_too_large(store):
    @cached
    def make(size: int) -> Made:
        return Made(("a",), np.zeros(size, np.uint8), {"scores": kilo()})

    found = make(1000)
    assert make(1000) is found
    for values in (found.values, found.more["scores"]):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1
    assert len(make(2 * ROOM).values) == 2 * ROOM
    assert not make.is_kept(2 * ROOM)
    assert make.is_kept(1000)  # nothing was thrown out for it in vain


def test_results_are_told_apart_by_values_function_and_folder(store, monkeypatch, tmp_path):
    @cached
    def folder(name: str) -> str:
        return str(library.CHECKPOINTS / name)

    @cached
    def shout(name: str) -> str:
        return name.upper()

    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path / "one")
    assert folder("m") == str(tmp_path / "one" / "m")
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path / "two")
    assert not folder.is_kept("m")
    assert folder("m") == str(tmp_path / "two" / "m")
    assert shout("m") == "M"
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path / "one")
    assert folder.is_kept("m")
    assert folder("m") == str(tmp_path / "one" / "m")

    @cached
    def make(text: str, edits: tuple[str, ...] = ()) -> str:
        return text

    make("a")
    assert make.is_kept(text="a", edits=())
    assert not make.is_kept("a", ("b",))


class Loaded:
    """As a LoadedModel: its bytes are those of its weights."""

    def __init__(self, n_bytes: int) -> None:
        self.model = nn.Linear(n_bytes // 4, 1, bias=False)


@cached(is_model=True)
def opened(name: str, n_bytes: int) -> Loaded:
    return Loaded(n_bytes)


@cached
def result(number: int, size: int = 10_000) -> np.ndarray:
    return np.full(size, number % 256, np.uint8)


def test_two_models_in_use_stay_whatever_their_size_and_idle_ones_go_as_results_do(monkeypatch):
    store = Store(2_000_000)
    monkeypatch.setattr(caching, "STORE", store)
    sizes = dict.fromkeys("abc", 800_000) | {"huge": 4_000_000, "larger": 5_000_000}

    def use(*names: str) -> None:
        for name in names:
            opened(name, sizes[name])

    def kept() -> set[str]:
        return {name for name, size in sizes.items() if opened.is_kept(name, size)}

    def compute(*numbers: int) -> None:
        for number in numbers:
            result(number)

    use("a", "b", "c")
    compute(*range(60))
    assert kept() == {"a", "b", "c"}  # a is idle, and there is room
    use("a")  # now b is idle
    compute(*range(60, 120))
    assert "b" in kept()
    assert not result.is_kept(0)  # older than b
    compute(*range(120, 370))
    assert kept() == {"a", "c"}  # in use, though every result is newer
    assert result.is_kept(369)
    assert 1_900_000 < store.n_bytes <= 2_000_000
    use("huge", "larger")
    assert kept() >= {"a", "huge", "larger"}  # the two last are compared
    assert store.n_bytes <= 2_000_000
    compute(1)
    assert result.is_kept(1)  # there is room for results beside them
    use("huge", "a")
    assert kept() & {"a", "huge", "larger"} == {"a", "huge"}  # the other is too large to be idle
    assert store.n_bytes <= 2_000_000


def test_a_model_in_use_can_be_forgotten_and_the_budget_set_by_the_environment(store, monkeypatch):
    for name in ("model-one", "model-two", "model-three"):
        opened(name, 4000)
    for name in ("model-one", "model-two"):
        store.forget_about(name)
        assert not opened.is_kept(name, 4000)
        assert store.n_bytes == 0
    monkeypatch.delenv(caching.VARIABLE, raising=False)
    assert budget() == caching.USUAL_MEGABYTES * 10**6
    monkeypatch.setenv(caching.VARIABLE, "64")
    assert budget() == 64 * 10**6
    monkeypatch.setenv(caching.VARIABLE, "much")
    with pytest.raises(ValueError, match=r"HEADLIGHT_CACHE_MB .* 'much'"):
        budget()


LONG = 60.0
"""Seconds after which a thread that still waits for another is stuck."""


@pytest.fixture
def waiting(monkeypatch) -> threading.Semaphore:
    """Released once by every thread that begins to wait for what another one computes."""
    arrived = threading.Semaphore(0)
    wait = caching._Making.wait

    def announced(making: caching._Making, tell: Tell | None) -> bool:
        arrived.release()
        return wait(making, tell)

    monkeypatch.setattr(caching._Making, "wait", announced)
    return arrived


def together(
    begun: threading.Event, first: Callable[[], object], *others: Callable[[], object]
) -> list[object]:
    """The results of calls at once, each in a thread; an exception is returned as a result.

    The others ask when the first has `begun` to compute.
    """
    calls = (first, *others)
    found: list[object] = [None] * len(calls)

    def run(at: int) -> None:
        try:
            found[at] = calls[at]()
        except Exception as error:
            found[at] = error

    threads = [threading.Thread(target=run, args=(at,), daemon=True) for at in range(len(calls))]
    threads[0].start()
    assert begun.wait(LONG)
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(2 * LONG)
        assert not thread.is_alive()
    return found


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_two_threads_that_ask_at_once_compute_once(store, waiting, size):
    """Also where the result is too large to be kept: the second is handed what the first made."""
    made: list[int] = []
    begun = threading.Event()

    @cached
    def slow(size: int) -> np.ndarray:
        made.append(size)
        begun.set()
        both = waiting.acquire(timeout=LONG) and waiting.acquire(timeout=LONG)
        assert both, "the other threads do not wait for this one"
        return np.zeros(size)

    one, two, three = together(begun, *[partial(slow, size)] * 3)
    assert made == [size]
    assert isinstance(one, np.ndarray)
    assert one is two is three


def test_the_second_computes_where_the_first_failed_or_was_stopped(store, waiting):
    begun = threading.Event()

    @cached
    def once_broken(text: str) -> str:
        if begun.is_set():
            return text
        begun.set()
        waiting.acquire(timeout=LONG)
        raise ValueError("the first fails")

    one, two = together(begun, *[partial(once_broken, "a")] * 2)
    assert isinstance(one, ValueError)
    assert two == "a"
    assert once_broken.is_kept("a")
    begun.clear()

    def steps() -> Steps[int]:
        if not begun.is_set():
            begun.set()
            waiting.acquire(timeout=LONG)
        for done in range(5):
            if (yield done + 1, 5) is False:
                return done
        return 5

    request: Request[int] = Request(steps, (), dict)
    stopping = partial(ask, request, lambda done, total: done < 2)
    assert together(begun, stopping, partial(ask, request)) == [1, 5]
    assert is_answered(request)


def test_who_waits_is_told_the_progress_and_may_give_up(store):
    heard: list[int] = []
    begun, told, given_up = threading.Event(), threading.Event(), threading.Event()

    def held() -> Steps[str]:
        if (yield 1, 2) is False:
            return "given up"
        begun.set()
        return "whole" if told.wait(LONG) and given_up.wait(LONG) else "nobody listened"

    def listen(done: int, total: int) -> bool:
        heard.append(done)
        told.set()
        return True

    def give_up(done: int, total: int) -> bool:
        given_up.set()
        return False

    request: Request[str] = Request(held, (), dict)
    asked = [partial(ask, request, tell) for tell in (lambda done, total: True, listen, give_up)]
    assert together(begun, *asked) == ["whole", "whole", "given up"]
    assert set(heard) == {1}
    assert ask(request) == "whole"


def test_the_bytes_of_arrays_modules_and_words_are_counted_once():
    whole = np.zeros(100_000, np.uint8)
    assert 100_000 <= size_of(whole) < 100_500
    assert 100_000 <= size_of({"a": whole, "b": whole[:10], "c": (whole[5:], [whole])}) < 101_500
    assert size_of(whole[:10]) > 100_000
    assert size_of(whole[:10].copy()) < 500
    batch = torch.zeros(4, 1000)
    assert size_of(batch[0].numpy()) > 16_000
    assert size_of((batch[0].numpy(), batch[1].numpy(), batch)) < 17_500
    module = nn.Linear(1000, 10, bias=False)
    assert 40_000 < size_of(module) < 50_000
    vars(module)["copy"] = module.weight.detach().clone()
    assert size_of(module) > 80_000
    vars(module)["part"] = module.weight.detach()[1:]
    assert size_of(module) < 90_000
    packed = FastLinear(1000, 10, bias=False)
    packed.lay_out()  # its second copy has no storage to look at
    assert size_of(packed) > 80_000

    class Slotted:
        __slots__ = ("values",)

        def __init__(self) -> None:
            self.values = kilo()

    assert size_of("a" * 5000) > 5000
    assert size_of(Slotted()) > 1000
    assert size_of(np.array([kilo(), None], dtype=object)) > 1000
    assert size_of((np, size_of, Store, None, print)) < 200
    ring: list[object] = []
    ring.append(ring)
    assert size_of(ring) < 200
