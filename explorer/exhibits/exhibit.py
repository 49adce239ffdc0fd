"""The one unit of everything that is shown: a question about a run, and the picture of its answer.

A file `explorer/exhibits/SUBJECT/NAME.py` ends in `EXHIBIT = Exhibit(compute, show)`:

- `compute(…)` answers the question. Its parameters say by their names what it depends on: the run
  (`RUN`), the place looked at (`view.PLACE`), and choices of the visitor, which are fields of the
  subject's `choices.py`, of `shared` or of `links.State`. The answer is frozen, of numpy arrays,
  and knows neither pictures nor language. It is kept for everybody under what the parameters were.
  If it takes more than a moment, `compute` is a generator: it yields (done, total) on the way,
  which the app shows with a button to stop, and returns the answer.
- `show(answer, view)` yields blocks in the order in which they stand, words by their keys.

The app, a notebook, an exported page and a sheet of paper draw the same blocks (`explorer.render`).
"""

import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Generic, TypeVar

from explorer.engine import cache
from explorer.engine.asking import Request, ask
from explorer.exhibits.blocks import Block
from explorer.exhibits.needs import Need
from explorer.exhibits.view import View

Answer = TypeVar("Answer")

RUN: dict[str, tuple[Callable[[View], Hashable], Callable[[View], Any]]] = {
    "loaded": (lambda view: view.loaded.name, lambda view: view.loaded),
    "trace": (lambda view: view.run, lambda view: view.trace),
    "before": (lambda view: view.run.plain, lambda view: view.before()),
    "unedited": (
        lambda view: replace(view.run, edits=()),
        lambda view: cache.trace(replace(view.run, edits=())),
    ),
    "edits": (lambda view: view.trace.edits, lambda view: view.trace.edits),
    "text": (lambda view: view.text, lambda view: view.text),
    "shelf": (lambda view: cache.models(), lambda view: cache.models()),
}
"""What a question may be asked of, besides choices: what stands for it in the cache, and itself.

The opened model; the run as it is, without edits and padding, and without edits alone; the edits
that fit the run; the text; the names of all models.
"""


@dataclass(frozen=True, eq=False)
class Exhibit(Generic[Answer]):
    """One question and its picture.

    `compute` None: there is nothing to compute, and `show` is given None. `choices` is the class of
    the subject's own choices, `needs` what the open model must have. `answers`: where one of these
    (names as `compute` may have) was just changed, the picture is what was asked for, and is
    painted before what stands above it. `working` is the key of the words that say what is done
    while a long computation goes on.
    """

    compute: Callable[..., Answer] | None
    show: Callable[[Answer, View], Iterator[Block]]
    choices: type | None = None
    needs: Need | None = None
    answers: tuple[str, ...] = ()
    working: str = "shell.working"

    @property
    def name(self) -> str:
        """Its address: SUBJECT.NAME."""
        return self.show.__module__.removeprefix("explorer.exhibits.")

    def request(self, view: View) -> Request[Answer] | None:
        """What is asked of the engine for this view; None where there is nothing to compute."""
        if self.compute is None:
            return None
        names = inspect.signature(self.compute).parameters
        chosen = self.chosen([name for name in names if name not in RUN], view)
        run = {name: RUN[name] for name in names if name in RUN}
        key = tuple(run[name][0](view) if name in run else chosen[name] for name in names)
        return Request(
            self.compute, key, lambda: chosen | {name: of(view) for name, (_, of) in run.items()}
        )

    def answer(self, view: View) -> Answer:
        """What is computed for this view, kept for everybody. Raises what `compute` raises."""
        request = self.request(view)
        return None if request is None else ask(request)  # type: ignore[return-value]

    def chosen(self, names: Iterable[str], view: View) -> dict[str, Any]:
        """What is chosen or looked at under these names."""
        return {name: view.chosen(name, self.choices) for name in names}


def choices_of(subject: str) -> Any:
    """The class of a subject's own choices, which has the `parts` of its page.

    Raises ImportError for what is no subject.
    """
    module = import_module(f"explorer.exhibits.{subject}.choices")
    return next(value for value in vars(module).values() if hasattr(value, "parts"))


def exhibit_of(name: str) -> Exhibit[Any]:
    """The exhibit at an address. Raises ImportError where there is none."""
    found: Exhibit[Any] = import_module(f"explorer.exhibits.{name}").EXHIBIT
    return found
