"""The unit of everything that is shown: a question about a run, and a picture of the answer.

A file `explorer/exhibits/SUBJECT/NAME.py` ends in `EXHIBIT = Exhibit(compute, show)`:

- `compute(…)` answers the question. The names of its parameters declare its inputs: the run
  (`RUN`), the selected place (`view.PLACE`), and the user's choices, which are fields of the
  subject's `choices.py`, of `shared` or of `links.State`. The answer is a frozen dataclass of numpy
  arrays, without pictures or text. It is cached for all sessions by the values of the parameters.
  If it takes more than a moment, `compute` is a generator: it yields (done, total), which the app
  shows with a Stop button, and returns the answer.
- `show(answer, view)` yields blocks in page order; text is given by key.

The app, a notebook, an exported page and a report for print render the same blocks
(`explorer.render`).
"""

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

from explorer.engine import cache
from explorer.engine.caching import Request, ask, is_answered
from explorer.exhibits.block import Block, Blocks
from explorer.exhibits.choices import PartChoices, ScreenChoices
from explorer.exhibits.links import State
from explorer.exhibits.view import PLACE, View
from explorer.guests import guests
from explorer.library import LoadedModel
from explorer.once import once
from explorer.runs.edits import Edit, about_masks

Answer = TypeVar("Answer")


def _mask_edits(view: View) -> tuple[Edit, ...]:
    return tuple(edit for edit in view.trace.edits if about_masks(edit))


RUN: dict[str, tuple[Callable[[View], Hashable], Callable[[View], Any]]] = {
    "loaded": (lambda view: view.loaded.name, lambda view: view.loaded),
    "run": (lambda view: view.run, lambda view: view.run),
    "trace": (lambda view: view.run, lambda view: view.trace),
    "before": (lambda view: view.run.plain, lambda view: view.before()),
    "unedited": (
        lambda view: replace(view.run, edits=()),
        lambda view: cache.trace(replace(view.run, edits=())),
    ),
    "edits": (lambda view: view.trace.edits, lambda view: view.trace.edits),
    "mask_edits": (_mask_edits, _mask_edits),
    "text": (lambda view: view.text, lambda view: view.text),
    "shelf": (lambda view: cache.models(), lambda view: cache.models()),
}
"""Inputs of `compute` besides choices, by parameter name: (cache key, value) functions of a view.

In order: the open model; the arguments of the run; the run, the run without edits and padding, and
the run without edits; the edits that apply to the run, and those among them that change masks; the
text; the names of all models.
"""


@dataclass(frozen=True)
class Need:
    """A capability that an exhibit or a page may require of a model, and whether a model has it.

    The reason for its lack is at `needs.NAME`.
    """

    name: str
    met: Callable[[LoadedModel], bool]


CAUSAL = Need("causal", lambda loaded: loaded.config.is_causal)
"""A causal mask."""
CROSS = Need("cross", lambda loaded: loaded.config.reads_source)
"""Attention from one text to another."""
EXPERTS = Need("experts", lambda loaded: loaded.config.n_experts > 1)
"""A mixture of experts in every block."""
OUTPUT = Need("output", lambda loaded: loaded.config.lm_head)
"""An LM head."""
TEXTS = Need("texts", lambda loaded: loaded.config.picture is None)
"""Its input is a text, which other models can read too."""
TRANSLATES = Need("translation", lambda loaded: CROSS.met(loaded) and OUTPUT.met(loaded))
"""A text in, another text out."""
WORDS = Need("words", lambda loaded: loaded.config.picture is None or loaded.config.reads_source)
"""A vocabulary: the sequence of the logits consists of tokens of a text, not of patches."""


class PageChoices:
    """The choices of one page: a frozen dataclass, and what the page is made of.

    `parts` maps each part ("" for a page without parts) to the addresses of its exhibits, which may
    be of other subjects; a subject shown only on the pages of others has none. `groups` maps groups
    to parts, if a choice of a group comes first. `pictures` are the values of the choice `picture`.
    `early` maps an exhibit to choices: if one of these has just changed, its picture is painted
    before the blocks above it. `asks`: the page has controls of the text and the model at its top,
    and no introduction. `reads_pictures`: a model of pictures is given one there.
    """

    parts: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    pictures: ClassVar[tuple[str, ...]] = ()
    early: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    asks: ClassVar[bool] = False
    reads_pictures: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Add the exhibits that other packages show on this page."""
        for guest in guests():
            added = guest.parts.get(cls.__module__.split(".")[2], {})
            own = {
                part: (*addresses, *added.get(part, ())) for part, addresses in cls.parts.items()
            }
            cls.parts = own | {part: added[part] for part in added if part not in own}

    @staticmethod
    def opens(view: View) -> View:
        """The view with what the page opens where the user has chosen nothing."""
        return view


@dataclass(frozen=True)
class Wait:
    """What the app shows while an answer is computed.

    `words` is the key of the text next to the progress ("": `shell.working`); with one, a short
    computation shows it too if it takes over half a second. `after` is the address of an exhibit
    further up that computes what this one needs: until it has its answer, if the page shows it,
    this one is shown with None. `stop` is the key of the label of the button that ends a long
    computation, `blocks` come below its progress, such as controls. `long`: whether `compute`, if
    it is a generator, runs in a thread, or takes but a moment here.
    """

    words: str = ""
    after: str = ""
    stop: str = "running.stop"
    blocks: Callable[[View], Iterable[Block]] = lambda view: ()
    long: Callable[[View], bool] = lambda view: True


@dataclass(frozen=True, eq=False)
class Exhibit(Generic[Answer]):
    """One question and its picture.

    A `@cached` function as `compute`, whose inputs are hashable, shares its cache, and what is
    `worth` caching, with its other callers. A parameter with the name of the exhibit `wait.after`
    takes its answer.
    `needs` is the capability that the open model must have. `inputs` are further inputs, by
    parameter name, which follow from the user's choices. `open`: whether the page shows it, if the
    user opens one of several, or if it may have nothing to show; None: always.
    """

    compute: Callable[..., Any]
    show: Callable[[Answer, View], Blocks]
    needs: Need | None = None
    inputs: Mapping[str, Callable[[View], Hashable]] = field(default_factory=dict)
    open: Callable[[View], object] | None = None
    wait: Wait = Wait()

    def __post_init__(self) -> None:
        """Raises TypeError for a parameter of `compute` that nothing gives."""
        kinds: tuple[Any, ...] = (choices_of(self.subject), PartChoices, ScreenChoices, State)
        choices = (choice.name for kind in kinds for choice in fields(kind))
        earlier = self.wait.after.rpartition(".")[2]
        unknown = {*self._parameters} - {*RUN, *PLACE, *self.inputs, earlier, *choices}
        if unknown:
            raise TypeError(f"{self.name}: nothing gives {', '.join(sorted(unknown))}")

    @once
    def _parameters(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.compute).parameters)

    @property
    def name(self) -> str:
        """Its address: SUBJECT.NAME."""
        return self.show.__module__.removeprefix("explorer.exhibits.")

    @property
    def subject(self) -> str:
        """The folder that it is in."""
        return self.show.__module__.split(".")[2]

    def request(self, view: View, earlier: Any = None) -> Request[Answer]:
        """The request to the engine for this view.

        `earlier` is the answer of the exhibit `wait.after`, which is asked for if it is None.
        """
        after = self.wait.after.rpartition(".")[2]
        keys: dict[str, Hashable] = {}
        values: dict[str, Callable[[], Any]] = {}
        for name in self._parameters:
            if name in self.inputs:
                keys[name] = self.inputs[name](view)
            elif name in RUN:
                key, value = RUN[name]
                keys[name], values[name] = key(view), partial(value, view)
            elif name == after:
                asked = exhibit_of(self.wait.after).request(view)
                answer = ask(asked) if earlier is None else earlier
                keys[name] = asked.address if is_answered(asked) else answer  # small, if cached
                values[name] = partial(lambda answer: answer, answer)
            else:
                keys[name] = view.chosen(name, choices_of(self.subject))
        return Request(
            inspect.unwrap(self.compute),
            tuple(keys.values()),
            lambda: {name: values[name]() if name in values else keys[name] for name in keys},
            getattr(self.compute, "worth", None),
        )

    def answer(self, view: View) -> Answer:
        """The answer for this view, cached for all sessions. Raises any error of `compute`."""
        return ask(self.request(view))


def choices_of(subject: str) -> type[PageChoices]:
    """The class of a subject's own choices. Raises ImportError for an unknown subject."""
    module = import_module(f"explorer.exhibits.{subject}.choices")
    own = (value for value in vars(module).values() if isinstance(value, type))
    return next(kind for kind in own if issubclass(kind, PageChoices) and kind is not PageChoices)


def choices_on(page: type[PageChoices]) -> tuple[type[PageChoices], ...]:
    """The choices of a page, and of the other subjects that it shows."""
    addresses = [address for part in page.parts.values() for address in part]
    subjects = (address.partition(".")[0] for address in addresses)
    return tuple(dict.fromkeys((page, *map(choices_of, subjects))))


def exhibits_of(names: Iterable[str], view: View) -> list[Exhibit[Any]]:
    """The exhibits at these addresses that are open."""
    exhibits = map(exhibit_of, names)
    return [exhibit for exhibit in exhibits if exhibit.open is None or exhibit.open(view)]


def exhibit_of(name: str) -> Exhibit[Any]:
    """The exhibit at an address. Raises ImportError if there is none."""
    exhibit: Exhibit[Any] = import_module(f"explorer.exhibits.{name}").EXHIBIT
    return exhibit
