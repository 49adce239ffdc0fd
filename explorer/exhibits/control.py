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


@dataclass(frozen=True, eq=False)
class Pick:
    """A choice among a few options, as buttons, in a `menu` or `listed` as lines; `said` names an
    option.

    Picking one sets the choice `field`, or applies `change`; picking the current one of `optional`
    buttons again picks None.
    """

    key: str
    label: str
    options: Sequence[Any]
    now: Any
    said: Callable[[Any], str]
    field: str = ""
    change: Callable[[Any], Change] | None = None
    menu: bool = False
    listed: bool = False
    open: bool = False
    width: int | None = None
    help: str | None = None
    quiet: bool = False
    optional: bool = False


@dataclass(frozen=True, eq=False)
class Slider:
    """A number from `low` to `high`, shown in the printf format `form`, or one of the `stops`. If
    `typed`, it is in a box instead; it is an integer if all of them are."""

    key: str
    label: str
    low: float
    high: float
    now: float
    change: Callable[[Any], Change]
    step: float = 1
    stops: Sequence[int] = ()
    help: str | None = None
    width: int | None = None
    disabled: bool = False
    form: str | None = None
    typed: bool = False


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
    quiet: bool = False
    disabled: bool = False
    primary: bool = False
    help: str | None = None


@dataclass(frozen=True, eq=False)
class Several:
    """A choice of at most `most` options; `said` names an option, `none` is shown without any."""

    key: str
    label: str
    options: Sequence[Any]
    now: Sequence[Any]
    said: Callable[[Any], str]
    change: Callable[[Any], Change]
    most: int | None = None
    none: str = ""


@dataclass(frozen=True)
class TextBox:
    """A text of at most `most` characters that the user may edit: of one line, or of several in a
    box `height` pixels high. While it is empty, the `hint` is in it."""

    key: str
    label: str
    now: str
    change: Callable[[str], Change]
    height: int | None = None
    most: int | None = None
    disabled: bool = False
    help: str | None = None
    width: int | None = None
    hint: str | None = None


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
    ending: Literal["txt", "json", "csv", "svg", "npz", "zip"]
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
