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
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np
import torch
from cachetools import LRUCache

from explorer import library

P = ParamSpec("P")
Result = TypeVar("Result")

USUAL_MEGABYTES = 512
"""Room for every shipped model (100 MB, and half as much again for copies in another layout) and
for hundreds of their Traces (0.2 to 3 MB), or for one model of GPT-2's size with some Traces of
long texts (40 MB each). Python, torch and Streamlit take about as much again, so a machine of 2 GB
is not filled."""
VARIABLE = "HEADLIGHT_CACHE_MB"
"""The environment variable that sets another number of megabytes; 0 keeps only the model in use."""


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
        """Pass on how far it is, and keep it for those who wait."""
        self.told = told
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
    """At most `budget` bytes of results and opened models, the least recently used out first.

    A model goes only when no result is left to go, since it is read from disk and laid out anew.
    The model used last stays even where it alone is larger than the budget: without it every click
    would open it again. Results for which there is no room beside that model are not kept.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._results: LRUCache[Hashable, _Entry] = LRUCache(math.inf, _n_bytes)
        self._models: LRUCache[Hashable, _Entry] = LRUCache(math.inf, _n_bytes)
        self._last: _Entry | None = None
        self._making: dict[Hashable, _Making] = {}
        self._turn = threading.Lock()

    @property
    def n_bytes(self) -> int:
        """What is kept, in bytes."""
        return int(self._results.currsize + self._models.currsize)

    def __len__(self) -> int:
        return len(self._results) + len(self._models)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._results or key in self._models

    def forget(self, key: Hashable) -> None:
        """Compute it anew when it is next asked for."""
        with self._turn:
            self._results.pop(key, None)
            self._models.pop(key, None)

    def clear(self) -> None:
        """Forget every result; opened models stay."""
        with self._turn:
            self._results.clear()

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
                kept = (self._models if is_model else self._results).get(key)
                if is_model and kept is not None:
                    self._last = kept
                making = self._making.get(key)
                if kept is None and making is None:
                    mine = self._making[key] = _Making()
                    break
            if kept is None and making is not None:
                if not making.wait(progress):
                    return make(progress=progress)
                kept = making.made
            if kept is not None:
                found: Result = kept.value
                return found
        try:
            made = make() if progress is None else make(progress=partial(mine.tell, progress))
            if worth(made):
                mine.made = _Entry(made, seal(made) + size_of(key))
                self._keep(key, mine.made, is_model)
            return made
        finally:
            with self._turn:
                del self._making[key]
            mine.over.set()

    def _keep(self, key: Hashable, entry: _Entry, is_model: bool) -> None:
        with self._turn:
            if is_model:
                self._models[key] = self._last = entry
            elif entry.n_bytes + (self._last.n_bytes if self._last else 0) <= self._budget:
                self._results[key] = entry
            while self.n_bytes > self._budget and len(self._results) > (not is_model):
                self._results.popitem()
            while self.n_bytes > self._budget and len(self._models) > 1:
                self._models.popitem()


def _n_bytes(entry: _Entry) -> int:
    return entry.n_bytes


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


STORE = Store(budget())
"""Everything that is kept."""


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
        """Compute it anew at the next call."""
        STORE.forget(self._key(*args, **kwargs)[0])

    def _key(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Hashable, Callable[..., Any] | None]:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        progress = bound.arguments.pop("progress", None)
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        return (name, library.CHECKPOINTS, *bound.arguments.values()), progress


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
    and not kept; `is_model` results are opened models.
    """
    if function is None:
        return lambda each: Cached(each, worth, is_model)
    return Cached(function, worth, is_model)
