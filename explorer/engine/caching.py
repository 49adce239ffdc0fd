"""The app's cache: results shared by all sessions of this process, limited in bytes.

`@cached` stores the results of a pure function. The key is the function, the folder of checkpoints
and the arguments, which are compared by value: strings, numbers, frozen dataclasses, and tuples of
these. The result of another cached function may also be an argument; it is compared by identity.
A `Request` is a call with a key of its own, answered by `ask`, directly or step by step.

All sessions receive the same object, so it must not be modified: arrays are made read-only when
stored, and results are frozen dataclasses.
"""

import inspect
import math
import os
import sys
import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial, update_wrapper
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np
import torch
from cachetools import LRUCache

from explorer import library
from explorer.engine.jobs import Tell
from explorer.engine.turns import TURNS
from explorer.runs.passes import Steps, so_far, walked

P = ParamSpec("P")
Result = TypeVar("Result")
Answer = TypeVar("Answer")
Worth = Callable[[Any], bool]
"""Whether a result is worth storing; None: every result is."""

USUAL_MEGABYTES = 300
"""Default budget: enough for about 80 sessions with one sentence each (3.7 MB on average), or for
three Traces of a model with 135 million parameters (75 MB each at 1,024 tokens). Python, torch,
Streamlit and the models in use need another 750 MB. With 1,000, a server grew for 270 sessions."""
VARIABLE = "HEADLIGHT_CACHE_MB"
"""The environment variable that sets the budget in megabytes; 0 caches only the
models in use."""
IN_USE = 2
"""Models in use at once: two are compared."""


def budget() -> int:
    """The budget in bytes. Raises ValueError if the environment variable is not a whole number."""
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
    told: tuple[int, int] | None = None
    written: str = ""
    made: _Entry | None = None

    def hear(self, tell: Tell, done: int, total: int) -> bool:
        """Report progress, and store it for waiting threads."""
        self.told, self.written = (done, total), so_far.get()
        return tell(done, total)

    def wait(self, tell: Tell | None) -> bool:
        """Wait for the result and forward the progress; False if `tell` returned False."""
        if tell is None:
            return self.over.wait()
        while not self.over.wait(0.1):
            so_far.set(self.written)
            if self.told is not None and tell(*self.told) is False:
                return False
        return True


class Store:
    """An LRU cache of at most `budget` bytes of results and idle models.

    The IN_USE most recently used models do not count and are not evicted; otherwise a model larger
    than the budget would be reopened at every click. A result larger than the budget is not cached.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._kept: LRUCache[Hashable, _Entry] = LRUCache(math.inf, attrgetter("n_bytes"))
        self._in_use: dict[Hashable, int] = {}  # keys of models and their bytes, newest last
        self._making: dict[Hashable, _Making] = {}
        self._turn = threading.RLock()

    @property
    def n_bytes(self) -> int:
        """The bytes that count towards the budget."""
        return int(self._kept.currsize) - sum(self._in_use.values())

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kept

    def forget(self, key: Hashable) -> None:
        """Remove an entry, so that the next request recomputes it."""
        with self._turn:
            self._kept.pop(key, None)
            self._in_use.pop(key, None)

    def forget_about(self, name: str) -> None:
        """Remove every entry whose key contains a model's name, which must be unique."""
        with self._turn:
            for key in [key for key in self._kept if name in repr(key)]:
                self.forget(key)

    def get(
        self,
        key: Hashable,
        make: Callable[..., Result],
        worth: Worth | None = None,
        tell: Tell | None = None,
        is_model: bool = False,
        values: Callable[[], Mapping[str, Any]] = dict,
    ) -> Result:
        """The entry for `key`, else the result of `make(**values())`, stored if it is `worth` it.

        If `tell` is given, `make` takes a function of this name to report its progress. Two threads
        with the same request compute once: the second waits for the first and receives its
        progress. The second computes itself only if the first fails, is stopped, or makes a result
        that is not stored, or if the second thread's own `tell` returns False.
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
                    wanted = making.wait(tell)
                if not wanted:
                    return make(**values(), tell=tell)
                kept = making.made
            if kept is not None:
                value: Result = kept.value
                return value
        try:
            # Opening a model mostly reads a file, so other threads may compute.
            with TURNS.away() if is_model else nullcontext():
                heard = {} if tell is None else {"tell": partial(mine.hear, tell)}
                result = make(**values(), **heard)
            if worth is None or worth(result):
                mine.made = self.put(key, result, is_model)
            TURNS.rest()
            return result
        finally:
            with self._turn:
                del self._making[key]
            mine.over.set()

    def put(self, key: Hashable, made: object, is_model: bool = False) -> _Entry:
        """Store a result, if it fits into the budget."""
        entry = _Entry(made, size_of(made, seals=True) + size_of(key))
        with self._turn:
            if is_model:
                self._kept[key] = entry
                self._use(key, entry)
            elif entry.n_bytes <= self._budget:
                self._kept[key] = entry
                self._make_room()
        return entry

    def _use(self, key: Hashable, model: _Entry) -> None:
        """Mark a model as in use; beyond IN_USE, the oldest becomes idle and counts."""
        self._in_use.pop(key, None)
        self._in_use[key] = model.n_bytes
        if len(self._in_use) > IN_USE:
            del self._in_use[next(iter(self._in_use))]
            self._make_room()

    def _make_room(self) -> None:
        for key in self._in_use:
            self._kept.get(key)  # mark as most recently used, so that they are not evicted
        while self.n_bytes > self._budget:
            self._kept.popitem()


_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, type(None), bool)
"""Types that belong to the program and are not counted."""


def size_of(value: object, seals: bool = False) -> int:
    """The bytes that `value` keeps alive, including everything that it refers to.

    Memory shared by several arrays and tensors is counted once. The base of a view is counted in
    full, since the view keeps it alive. `seals` makes every array read-only.
    """
    total, waiting = 0, [value]
    seen: set[object] = set()
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, _SHARED):
            continue
        seen.add(id(item))
        total += sys.getsizeof(item)
        if isinstance(item, np.ndarray):
            if seals:
                item.setflags(write=False)
            if isinstance(item.base, (np.ndarray, torch.Tensor, bytes, bytearray)):
                waiting.append(item.base)
            elif item.base is not None:  # a base of unknown size
                total += item.nbytes
            if item.dtype == object:
                waiting.extend(item.flat)
        elif isinstance(item, torch.Tensor) and item.layout != torch.strided:
            total += item.nbytes  # a layout without an accessible storage
        elif isinstance(item, torch.Tensor):
            storage = item.untyped_storage()
            place = ("storage", storage.data_ptr())
            total += 0 if place in seen else storage.nbytes()
            seen.add(place)
        elif isinstance(item, dict):
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, (tuple, list, set, frozenset)):
            waiting.extend(item)
        elif isinstance(item, partial):
            waiting += item.func, item.args, item.keywords
        else:
            waiting.extend(getattr(item, "__dict__", {}).values())
            for name in _slots(type(item)):  # type: ignore[arg-type]
                if hasattr(item, name):
                    waiting.append(getattr(item, name))
    return total


@lru_cache(maxsize=1000)
def _slots(kind: type) -> tuple[str, ...]:
    """The names of the slots of a class and its bases."""
    slots = (getattr(base, "__slots__", ()) for base in kind.__mro__)
    return tuple(name for of in slots for name in ((of,) if isinstance(of, str) else of))


FOR_PARTS = 4
"""1 / FOR_PARTS of the budget is for recomputed parts of runs."""
PARTS = Store(budget() // FOR_PARTS)
"""Parts of runs, separate from STORE: all layers of a long text take a gigabyte, are read once, and
would evict everything else."""
STORE = Store(budget() - budget() // FOR_PARTS)
"""All other results."""


class CachedFunction(Generic[P, Result]):
    """A pure function whose results are cached in STORE; see `cached`."""

    def __init__(self, function: Callable[P, Result], worth: Worth | None, is_model: bool) -> None:
        self._function, self.worth, self._is_model = function, worth, is_model
        self._signature = inspect.signature(function)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result:
        make = partial(self._function, *args, **kwargs)
        return STORE.get(self._key(*args, **kwargs), make, self.worth, is_model=self._is_model)

    def is_kept(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether the result of a call is cached."""
        return self._key(*args, **kwargs) in STORE

    def keep(self, result: Result, *args: P.args, **kwargs: P.kwargs) -> None:
        """Store `result` as the result of a call."""
        STORE.put(self._key(*args, **kwargs), result, self._is_model)

    def _key(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Hashable, ...]:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        return (name, str(library.CHECKPOINTS), *bound.arguments.values())


class CachedSteps(CachedFunction[P, Result]):
    """Work step by step whose results are cached: a call does all of it; see `cached`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result:
        make = partial(walked, self._function(*args, **kwargs))  # type: ignore[arg-type]
        return STORE.get(self._key(*args, **kwargs), make, self.worth)

    def steps(self, *args: P.args, **kwargs: P.kwargs) -> Steps[Result]:
        """The call as part of longer work, whose progress it yields: `yield from work.steps(…)`."""
        if self.is_kept(*args, **kwargs):
            return self(*args, **kwargs)
        work: Steps[Result] = self._function(*args, **kwargs)  # type: ignore[assignment]
        wanted: bool | None = None
        while True:
            try:
                step = work.send(wanted)
            except StopIteration as end:
                result: Result = end.value
                break
            wanted = yield step
        if wanted is not False and (self.worth is None or self.worth(result)):
            self.keep(result, *args, **kwargs)
        return result


@overload
def cached(function: Callable[P, Steps[Result]], /) -> CachedSteps[P, Result]: ...


@overload
def cached(function: Callable[P, Result], /) -> CachedFunction[P, Result]: ...


@overload
def cached(
    *, worth: Worth = ..., is_model: bool = ...
) -> Callable[[Callable[P, Result]], CachedFunction[P, Result]]: ...


def cached(
    function: Callable[..., Any] | None = None,
    /,
    *,
    worth: Worth | None = None,
    is_model: bool = False,
) -> Any:
    """Cache the results of a pure function for all sessions, within the budget of STORE.

    Arguments must be hashable. Long work is a generator: it yields (done, total) and returns its
    result. Results for which `worth(result)` is false are returned but not stored.
    `is_model` marks opened models; models in use are never evicted.
    """

    def kept(function: Callable[..., Any]) -> Any:
        is_long = inspect.isgeneratorfunction(inspect.unwrap(function))
        kind = CachedSteps if is_long else CachedFunction
        return kind(function, worth, is_model)

    return kept if function is None else kept(function)


@dataclass(frozen=True, eq=False)
class Request(Generic[Answer]):
    """A function with its arguments.

    `values()` returns the arguments by name. `key` identifies them for the cache and refers to an
    opened model or a Trace by name, so that a request does not hold them. An answer for which
    `worth(answer)` is false is not cached.
    """

    function: Callable[..., Any]
    key: tuple[Hashable, ...]
    values: Callable[[], Mapping[str, Any]]
    worth: Worth | None = None

    @property
    def takes_long(self) -> bool:
        """Whether it is a generator, which yields (done, total) and returns its answer, so that
        other sessions need not wait."""
        return inspect.isgeneratorfunction(self.function)

    @property
    def address(self) -> tuple[Hashable, ...]:
        """The cache key of the answer."""
        name = f"{self.function.__module__}.{self.function.__qualname__}"
        return (name, str(library.CHECKPOINTS), *self.key)


def is_answered(request: Request[Any]) -> bool:
    """Whether the answer is cached."""
    return request.address in STORE


def ask(request: Request[Answer], tell: Tell | None = None) -> Answer:
    """The result of the function, cached for all sessions. Raises any error of the function.

    `tell(done, total)` is called with the progress; if it returns False, the work ends, with
    StoppedError if it has no partial result.
    """
    worth = request.worth
    if not request.takes_long:
        return STORE.get(request.address, request.function, worth, values=request.values)
    told = [True]

    def hear(done: int, total: int) -> bool:
        told[0] = tell is None or tell(done, total) is not False
        return told[0]

    return STORE.get(
        request.address,
        walked,
        lambda answer: told[0] and (worth is None or worth(answer)),  # a stopped one may be partial
        hear,
        values=lambda: {"steps": request.function(**request.values())},
    )
