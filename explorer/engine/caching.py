"""Results kept for all sessions of this process, bounded in bytes: the one cache of the app.

`@cached` keeps what a pure function returned by the function, the folder of checkpoints and the
arguments, which are compared as values: strings, numbers, frozen dataclasses, tuples of them. A
result of another cached function may be an argument too; it is compared by identity.

What is kept is handed to every session, so nobody may change it: arrays become read-only as they
are kept, and results are frozen dataclasses.
"""

import inspect
import math
import os
import sys
import threading
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np
import torch
from cachetools import LRUCache

from explorer import library
from explorer.engine.turns import TURNS

P = ParamSpec("P")
Result = TypeVar("Result")

USUAL_MEGABYTES = 300
"""Room for some 80 sessions that each read one sentence (3.7 MB on average), or for three Traces of
a model of 135 million parameters (75 MB each at 1,024 tokens), in addition to Python, torch,
Streamlit and the models in use (750 MB). With 1,000, a server grew for 270 sessions."""
VARIABLE = "HEADLIGHT_CACHE_MB"
"""The environment variable that sets another number of megabytes; 0 keeps none
but the models in use."""
IN_USE = 2
"""Models that are in use at once: two are compared, and one may draft for another."""


def budget() -> int:
    """Bytes that may be kept. Raises ValueError where the environment names no such number."""
    wanted = os.environ.get(VARIABLE, str(USUAL_MEGABYTES))
    if not (wanted.isascii() and wanted.isdigit()):
        raise ValueError(f"{VARIABLE} must be a whole number of megabytes, not {wanted!r}")
    return int(wanted) * 1_000_000


@dataclass(frozen=True)
class _Entry:
    value: Any
    n_bytes: int


@dataclass
class _Making:
    """A result that one thread computes while others may wait for it."""

    over: threading.Event = field(default_factory=threading.Event)
    told: tuple[Any, ...] = ()
    made: _Entry | None = None

    def tell(self, progress: Callable[..., Any], *told: Any) -> Any:
        """Pass on how far it is, and keep it for those who wait; a step at which others may go."""
        self.told = told
        TURNS.rest()
        return progress(*told)

    def wait(self, progress: Callable[..., Any] | None) -> bool:
        """Wait until it is over, telling `progress` as its maker is told; False: it said stop."""
        if progress is None:
            return self.over.wait()
        while not self.over.wait(0.1):
            if self.told and progress(*self.told) is False:
                return False
        return True


class Store:
    """At most `budget` bytes of results and idle models, the least recently used out first.

    The models used last, up to IN_USE, are in use, not idle: they do not count and do not go, or
    those larger than the budget would be opened again at every click. A result larger than the
    budget is not kept.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._kept: LRUCache[Hashable, _Entry] = LRUCache(math.inf, lambda entry: entry.n_bytes)
        self._in_use: dict[Hashable, int] = {}  # keys of models and their bytes, newest last
        self._making: dict[Hashable, _Making] = {}
        self._turn = threading.RLock()

    @property
    def n_bytes(self) -> int:
        """What counts against the budget, in bytes."""
        return int(self._kept.currsize) - sum(self._in_use.values())

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kept

    def forget(self, key: Hashable) -> None:
        """Drop it, so that the next request recomputes it."""
        with self._turn:
            self._kept.pop(key, None)
            self._in_use.pop(key, None)

    def forget_about(self, name: str) -> None:
        """Drop everything in whose key a model's name occurs, which nothing else is called."""
        with self._turn:
            for key in [key for key in self._kept if name in repr(key)]:
                self.forget(key)

    def put(self, key: Hashable, made: object, is_model: bool = False) -> None:
        """Keep what was made elsewhere."""
        self._keep(key, _Entry(made, seal(made) + size_of(key)), is_model)

    def get(
        self,
        key: Hashable,
        make: Callable[..., Result],
        progress: Callable[..., Any] | None = None,
        worth: Callable[[Result], bool] = lambda made: True,
        is_model: bool = False,
    ) -> Result:
        """What is kept under `key`, else what `make()` gives, kept if it is `worth` it.

        Where there is a `progress`, `make` is given it under that name. Two threads that ask at
        once compute once: the second waits for the first, and is told its progress. Only if the
        first fails, is stopped or makes something that is not worth it, the second computes too;
        so it does, on its own account, where its `progress` answers False.
        """
        while True:
            with self._turn:
                kept = self._kept.get(key)
                if is_model and kept is not None:
                    self._use(key, kept)
                making = self._making.get(key)
                if kept is None and making is None:
                    mine = self._making[key] = _Making()
                    break
            if kept is None and making is not None:
                with TURNS.away():
                    wanted = making.wait(progress)
                if not wanted:
                    return make(progress=progress)
                kept = making.made
            if kept is not None:
                found: Result = kept.value
                return found
        try:
            # Opening a model is mostly reading a file, in which it holds nobody up.
            with TURNS.away() if is_model else nullcontext():
                made = make() if progress is None else make(progress=partial(mine.tell, progress))
            if worth(made):
                mine.made = _Entry(made, seal(made) + size_of(key))
                self._keep(key, mine.made, is_model)
            TURNS.rest()
            return made
        finally:
            with self._turn:
                del self._making[key]
            mine.over.set()

    def _keep(self, key: Hashable, entry: _Entry, is_model: bool) -> None:
        with self._turn:
            if is_model:
                self._kept[key] = entry
                self._use(key, entry)
            elif entry.n_bytes <= self._budget:
                self._kept[key] = entry
                self._make_room()

    def _use(self, key: Hashable, model: _Entry) -> None:
        """This model is in use; of more than IN_USE the one used before is idle, and counts."""
        self._in_use.pop(key, None)
        self._in_use[key] = model.n_bytes
        if len(self._in_use) > IN_USE:
            del self._in_use[next(iter(self._in_use))]
            self._make_room()

    def _make_room(self) -> None:
        for key in self._in_use:
            self._kept.get(key)  # the newest of all, so that they do not go
        while self.n_bytes > self._budget:
            self._kept.popitem()


_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, type(None), bool)
"""What belongs to the program, whoever refers to it."""


def size_of(value: object) -> int:
    """The bytes that `value` keeps alive: itself, what it holds, and what that holds.

    Memory is counted once however many arrays and tensors look at it, and whole even where they
    look at a part: a view keeps all of what it was cut from.
    """
    return _walk(value, lambda array: None)


def seal(value: object) -> int:
    """Make every array in `value` read-only; the same number as `size_of`."""
    return _walk(value, lambda array: array.setflags(write=False))


def _walk(value: object, visit: Callable[[np.ndarray], None]) -> int:
    total, waiting = 0, [value]
    seen: set[object] = set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, _SHARED):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        if isinstance(each, np.ndarray):
            visit(each)
            if isinstance(each.base, (np.ndarray, torch.Tensor, bytes, bytearray)):
                waiting.append(each.base)
            elif each.base is not None:  # memory of something that does not say its size
                total += each.nbytes
            if each.dtype == object:
                waiting.extend(each.flat)
        elif isinstance(each, torch.Tensor) and each.layout != torch.strided:
            total += each.nbytes  # in an order of its library's own, without a storage to look at
        elif isinstance(each, torch.Tensor):
            storage = each.untyped_storage()
            place = ("storage", storage.data_ptr())
            total += 0 if place in seen else storage.nbytes()
            seen.add(place)
        elif isinstance(each, dict):
            waiting.extend(each.keys())
            waiting.extend(each.values())
        elif isinstance(each, (tuple, list, set, frozenset)):
            waiting.extend(each)
        else:
            waiting.extend(getattr(each, "__dict__", {}).values())
            slots = (getattr(kind, "__slots__", ()) for kind in type(each).__mro__)
            names = (name for of in slots for name in ((of,) if isinstance(of, str) else of))
            waiting.extend(getattr(each, name) for name in names if hasattr(each, name))
    return total


FOR_PARTS = 4
"""One part in so many of the budget is for parts of runs that are read again."""
PARTS = Store(budget() // FOR_PARTS)
"""Parts of runs: whoever goes through all layers of a long text reads a gigabyte of them once, and
would drive everything else out of STORE."""
STORE = Store(budget() - budget() // FOR_PARTS)
"""Everything else that is kept."""


class Cached(Generic[P, Result]):
    """A pure function whose results are kept in STORE; see `cached`."""

    def __init__(
        self, function: Callable[P, Result], worth: Callable[[Result], bool], is_model: bool
    ) -> None:
        self._function, self._worth, self._is_model = function, worth, is_model
        self._signature = inspect.signature(function)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result:
        key, progress = self._key(*args, **kwargs)
        kwargs.pop("progress", None)
        make = partial(self._function, *args, **kwargs)
        return STORE.get(key, make, progress, self._worth, self._is_model)

    def is_kept(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether a call would be answered at once."""
        return self._key(*args, **kwargs)[0] in STORE

    def forget(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Drop the result, so that the next call recomputes it."""
        STORE.forget(self._key(*args, **kwargs)[0])

    def keep(self, result: Result, *args: P.args, **kwargs: P.kwargs) -> None:
        """Keep this as the result of a call."""
        STORE.put(self._key(*args, **kwargs)[0], result, self._is_model)

    def _key(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Hashable, Callable[..., Any] | None]:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        progress = bound.arguments.pop("progress", None)
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        return (name, str(library.CHECKPOINTS), *bound.arguments.values()), progress


@overload
def cached(function: Callable[P, Result], /) -> Cached[P, Result]: ...


@overload
def cached(
    *, worth: Callable[[Any], bool] = ..., is_model: bool = ...
) -> Callable[[Callable[P, Result]], Cached[P, Result]]: ...


def cached(
    function: Callable[..., Any] | None = None,
    /,
    *,
    worth: Callable[[Any], bool] = lambda made: True,
    is_model: bool = False,
) -> Any:
    """Keep the results of a pure function, for all sessions, as far as STORE has room.

    Arguments must be hashable. One named `progress`, which must be given by that name and default
    to None, is no part of what is asked for: it is called while the function works, and its
    answer False means that nobody waits any more. Results that are not `worth` it are handed over
    and not kept; `is_model` results are opened models, of which the one in use always stays.
    """
    if function is None:
        return lambda each: Cached(each, worth, is_model)
    return Cached(function, worth, is_model)
