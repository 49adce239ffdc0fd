"""What an exhibit shows, as data: pictures, words and controls that nobody has drawn yet.

Words are Markdown in the reader's language. A `name` or `key` is the address of a block within the
app (`masks.sides`): its widget, its place on the page and its file are called so. Whoever draws
blocks leaves out the controls where nobody can use them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from explorer.exhibits.links import State
from explorer.figures.matrix import Matrix

Figure = dict[str, Any]
Gap = Literal["small", "medium", "large"]
Columned = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Change:
    """What a control does: the choices that it makes in the newest state, by their names.

    `visit` goes on to a page with them; `elsewhere` forgets what pointed into the kind of attention
    that is left (`links.Links.elsewhere`).
    """

    choices: Callable[[State], Mapping[str, Any]]
    visit: str = ""
    elsewhere: bool = False


def choose(*, visit: str = "", elsewhere: bool = False, **choices: Any) -> Change:
    """The change that makes these choices, whatever is chosen by then."""
    return Change(lambda state: choices, visit, elsewhere)


@dataclass(frozen=True)
class Title:
    """The heading of what follows; a `large` one begins a section of the page."""

    words: str
    large: bool = False


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    words: str


@dataclass(frozen=True)
class Note:
    """A quiet line."""

    words: str


@dataclass(frozen=True)
class Hint:
    """Something worth knowing, set off; `icon` is the name of a Material icon."""

    words: str
    icon: str = "lightbulb"


@dataclass(frozen=True)
class Sentence:
    """The one sentence beside a picture that says its number."""

    name: str
    words: str


@dataclass(frozen=True)
class Verbatim:
    """Text as it is: a message of torch, a line of code."""

    text: str
    language: str | None = None


@dataclass(frozen=True, eq=False)
class Chart:
    """A Plotly figure: `draw(dark=…)` makes it, `alt` says in words what it shows.

    `waits`: in a visitor's first run it leaves its place empty until the picture above is drawn.
    """

    name: str
    draw: Callable[..., Figure]
    alt: str
    waits: bool = False


@dataclass(frozen=True, eq=False)
class Heatmaps:
    """Heatmaps of one kind side by side, each under the words for it."""

    name: str
    panels: Sequence[tuple[str, Matrix]]


@dataclass(frozen=True, eq=False)
class Canvas:
    """A view of `explorer.components` by its name; `pack(file)` makes its payload.

    `on` says what follows from each message of the view (`picked`, `painted`, …); what the browser
    sends may be anything, and None follows from what is no use.
    """

    name: str
    view: str
    pack: Callable[[str], bytes]
    on: Mapping[str, Callable[[Any], Change | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A small table of Markdown; `align` as in `ui.tables`."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str = ""


@dataclass(frozen=True)
class Formula:
    """LaTeX, its words as `text.formula` takes them, and what the symbols are."""

    lines: Sequence[str]
    explained: str


@dataclass(frozen=True)
class Code:
    """What computed the picture, in the order of its calls, as real objects (`code.source`)."""

    objects: Sequence[object]


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of the picture; `columns` makes the table by the names of its columns."""

    columns: Callable[[], Columned]


@dataclass(frozen=True, eq=False)
class Row:
    """Blocks side by side as far as there is room, in the widths that they need.

    `middle`: on a common middle line, else on a common lower edge. `waits`: it stands here, and is
    sent behind the block below it.
    """

    blocks: Sequence["Block"]
    middle: bool = False
    gap: Gap = "small"
    waits: bool = False


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of blocks of equal width, or of these `widths`.

    `still`, an SVG, takes their place on paper and is a file to keep, under `words`.
    """

    columns: Sequence[Sequence["Block"]]
    widths: Sequence[float] = ()
    still: Callable[[], str] | None = None
    words: str = ""
    gap: Gap = "large"


@dataclass(frozen=True, eq=False)
class Box:
    """Blocks of a fixed width in pixels, one below the other."""

    blocks: Sequence["Block"]
    width: int


@dataclass(frozen=True, eq=False)
class Fold:
    """Blocks behind a button."""

    label: str
    blocks: Sequence["Block"]


@dataclass(frozen=True, eq=False)
class Hero:
    """What the page is about: in front of a class it stands above all controls."""

    blocks: Sequence["Block"]


@dataclass(frozen=True)
class SentenceLine:
    """What was read, and what came out."""


@dataclass(frozen=True)
class Changes:
    """What the visitor changed in the model, in words, with a button that takes all of it back."""

    key: str


@dataclass(frozen=True)
class Offer:
    """A sentence on which a lesson shows better than on this one, where any is known.

    The words are at `lessons.LESSON`.
    """

    lesson: str


@dataclass(frozen=True)
class Undo:
    """Buttons that take back the last change of the model, and bring it back; words at `prefix`."""

    prefix: str


@dataclass(frozen=True, eq=False)
class Pick:
    """One of a few, as buttons or in a `menu`; `said` names an option.

    Picking one chooses it as `field`, or does what `change` says.
    """

    key: str
    label: str
    options: Sequence[Any]
    now: Any
    said: Callable[[Any], str]
    field: str = ""
    change: Callable[[Any], Change] | None = None
    menu: bool = False
    width: int | None = None
    help: str | None = None
    quiet: bool = False


@dataclass(frozen=True, eq=False)
class Slider:
    """A whole number from `low` to `high`."""

    key: str
    label: str
    low: int
    high: int
    now: int
    change: Callable[[int], Change]
    step: int = 1
    help: str | None = None
    width: int | None = None
    disabled: bool = False


@dataclass(frozen=True, eq=False)
class Toggle:
    """Something that is on or off."""

    key: str
    label: str
    now: bool
    change: Callable[[bool], Change]
    help: str | None = None


@dataclass(frozen=True, eq=False)
class Button:
    """Does something once."""

    key: str
    label: str
    change: Change
    icon: str = ""
    quiet: bool = False
    disabled: bool = False


Control = Pick | Slider | Toggle | Button | Undo | Offer
Group = Row | Columns | Box | Fold | Hero
Small = Formula | Code | Numbers
Picture = Chart | Heatmaps | Canvas
Words = Title | Prose | Note | Hint | Sentence | Verbatim | Table
Block = Words | Picture | Small | Group | Control | SentenceLine | Changes
