"""The one unit of everything that is shown: a question about a run, and the picture of its answer.

A file `explorer/exhibits/SUBJECT/NAME.py` ends in `EXHIBIT = Exhibit(compute, show)`:

- `compute(run, *, …)` answers the question, from a `Run` and from what its further parameters name:
  a choice of the visitor (a field of the subject's `choices.py`, of `shared` or `links.State`), or
  what the view looks at (`view.PLACE`). The answer is frozen, of numpy arrays, and knows neither
  pictures nor language. It is kept under what was asked for: what has no parameter does not matter.
- `show(answer, view)` yields blocks in the order in which they stand, the words by their keys.

The app, a notebook, an exported page and a sheet of paper draw the same blocks (`explorer.render`).
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar

from explorer.engine.caching import Cached, cached
from explorer.exhibits.blocks import Block
from explorer.exhibits.needs import Need
from explorer.exhibits.view import View
from explorer.once import once

Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class Exhibit(Generic[Answer]):
    """One question and its picture.

    `compute` None: there is nothing to compute, and `show` is given None. `choices` is the class of
    the subject's own choices, `needs` what the open model must have. `answers`: where one of these
    (names as `compute` may have) was just changed, the picture is what was asked for, and is
    painted before what stands above it.
    """

    compute: Callable[..., Answer] | None
    show: Callable[[Answer, View], Iterator[Block]]
    choices: type | None = None
    needs: Need | None = None
    answers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its address: SUBJECT.NAME."""
        return self.show.__module__.removeprefix("explorer.exhibits.")

    @once
    def _kept(self) -> Cached[..., Answer]:
        assert self.compute is not None
        return self.compute if isinstance(self.compute, Cached) else cached(self.compute)

    @once
    def asks(self) -> tuple[str, ...]:
        """What it depends on besides the run."""
        if self.compute is None:
            return ()
        return tuple(inspect.signature(self.compute).parameters)[1:]

    def asked(self, names: tuple[str, ...], view: View) -> dict[str, Any]:
        """What is chosen or looked at under these names."""
        return {name: view.chosen(name, self.choices) for name in names}

    def answer(self, view: View) -> Answer:
        """What is computed for this view, kept for all. Raises what `compute` raises."""
        if self.compute is None:
            return None  # type: ignore[return-value]
        return self._kept(view.run, **self.asked(self.asks, view))

    def blocks(self, view: View) -> Iterator[Block]:
        """What is shown of it: nothing where the model lacks what it needs.

        Raises InputProblem where what was chosen cannot be read.
        """
        if self.needs is None or self.needs.met(view):
            yield from self.show(self.answer(view), view)


def exhibit_of(name: str) -> Exhibit[Any]:
    """The exhibit at an address. Raises ImportError where there is none."""
    found: Exhibit[Any] = import_module(f"explorer.exhibits.{name}").EXHIBIT
    return found
