"""Controls, as data: what an exhibit lets the user change. `block` has all of them too.

The `key` of a control names its widget. A control has no state: it shows the current choice, and
its `Change` makes another one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from explorer.exhibits.links import State
from explorer.library import LoadedModel

More = dict[str, Any]
"""Further properties of a control, by name."""


@dataclass(frozen=True)
class Change:
    """The effect of a control: the choices that it sets in the current state, by name.

    `choices` may also act, such as send an order to a process. `visit` opens a page with them.
    `elsewhere` drops the choices that pointed into the kind of attention just left
    (`links.Links.elsewhere`). `model` opens a model that only this session has, and chooses it.
    """

    choices: Callable[[State], Mapping[str, Any]]
    visit: str = ""
    elsewhere: bool = False
    model: Callable[[], LoadedModel] | None = None


def choose(*, visit: str = "", elsewhere: bool = False, **choices: Any) -> Change:
    """A change that sets these choices, whatever the state is."""
    return Change(lambda state: choices, visit, elsewhere)


def sets(field: str) -> Callable[[Any], Change]:
    """The change that sets this choice to a value."""
    return lambda value: Change(lambda state: {field: value})


@dataclass(frozen=True)
class Remember:
    """Makes a choice for the user as soon as it is drawn, such as the score of a guess."""

    change: Change


@dataclass(frozen=True)
class Offer:
    """An offer of a sentence that shows a lesson better than the current one, if one is known.

    The texts are at `lessons.LESSON`.
    """

    lesson: str


@dataclass(frozen=True)
class Undo:
    """Buttons to undo and redo the last change of the model; texts at `prefix`."""

    prefix: str


PickForm = Literal["buttons", "optional", "list", "menu", "open"]


@dataclass(frozen=True)
class Display:
    """How a control looks: its `width` in pixels, the `help` shown on hovering, the `hint` in an
    empty box; `quiet` without its label; `disabled`."""

    width: int | None = None
    help: str | None = None
    hint: str | None = None
    quiet: bool = False
    disabled: bool = False


@dataclass(frozen=True, eq=False)
class Pick:
    """A choice among `options`, each with its words.

    Picking the current one of "optional" buttons again picks None; an "open" menu accepts a text
    of the user's too.
    """

    key: str
    label: str
    options: Mapping[Any, str]
    now: Any
    change: Callable[[Any], Change]
    form: PickForm = "buttons"
    display: Display = Display()


@dataclass(frozen=True)
class Span:
    """Numbers from `low` to `high`, integers if all are; `form` is their printf format."""

    low: float
    high: float
    step: float = 1
    form: str | None = None


@dataclass(frozen=True, eq=False)
class Slider:
    """A number of a span, or one of these integers; if `typed`, in a box."""

    key: str
    label: str
    scale: Span | Sequence[int]
    now: float
    change: Callable[[Any], Change]
    typed: bool = False
    display: Display = Display()


@dataclass(frozen=True, eq=False)
class Toggle:
    """A switch."""

    key: str
    label: str
    now: bool
    change: Callable[[bool], Change]
    help: str | None = None


@dataclass(frozen=True, eq=False)
class Button:
    """A button."""

    key: str
    label: str
    change: Change
    icon: str = ""
    kind: Literal["primary", "secondary", "quiet"] = "secondary"
    disabled: bool = False
    help: str | None = None


@dataclass(frozen=True, eq=False)
class Several:
    """A choice of at most `most` of these options, each with its words."""

    key: str
    label: str
    options: Mapping[Any, str]
    now: Sequence[Any]
    change: Callable[[Any], Change]
    most: int | None = None
    display: Display = Display()


@dataclass(frozen=True)
class TextBox:
    """A text of at most `most` characters that the user may edit: of one line, or of several in a
    box `height` pixels high."""

    key: str
    label: str
    now: str
    change: Callable[[str], Change]
    height: int | None = None
    most: int | None = None
    display: Display = Display()


@dataclass(frozen=True)
class PickModel:
    """A menu of the other models that the user can open, and none ("")."""

    key: str
    label: str
    now: str
    change: Callable[[str], Change]
    help: str
    width: int


@dataclass(frozen=True, eq=False)
class Download:
    """A button that saves the result of `make`; `ending` is the file name's extension, `name` the
    rest of it, by default the page's.

    With an `export`, the end of the file name, it is among the page's exports instead.
    """

    key: str
    label: str
    make: Callable[[], str | bytes]
    ending: Literal["txt", "json", "csv", "svg", "html", "npz", "zip"]
    export: str = ""
    name: str = ""
    help: str | None = None


@dataclass(frozen=True, eq=False)
class Upload:
    """A box for one file of at most a megabyte; `change` gets its name and bytes, or None."""

    key: str
    label: str
    change: Callable[[tuple[str, bytes] | None], Change]


Control = (
    Pick
    | Slider
    | Toggle
    | Button
    | Undo
    | Offer
    | Remember
    | Several
    | TextBox
    | PickModel
    | Download
    | Upload
)
