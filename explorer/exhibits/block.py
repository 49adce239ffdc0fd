"""What an exhibit shows, as data: pictures, text and controls, independent of how they are drawn.

Text is Markdown in the user's language. A `name` or `key` is the address of a block within the app
(`masks.sides`) and names its widget, its place on the page and its file. Static renderers omit
controls.
"""

import html
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from explorer.components.heads_payload import HeadGrid, HeadsSelection
from explorer.components.matrices import Panel, Stroke, pack_matrices, stroke_of
from explorer.components.mount import Index, index_of, inside as within
from explorer.exhibits.control import (
    Button as Button,
    Change as Change,
    Control as Control,
    Display as Display,
    Download as Download,
    More as More,
    Offer as Offer,
    Pick as Pick,
    PickForm as PickForm,
    PickModel as PickModel,
    Remember as Remember,
    Several as Several,
    Slider as Slider,
    Span as Span,
    TextBox as TextBox,
    Toggle as Toggle,
    Undo as Undo,
    Upload as Upload,
    choose as choose,
    sets as sets,
)
from explorer.exhibits.view import View
from explorer.exports.picture import matrices_svg
from explorer.figures.matrix import Matrix
from explorer.figures.theme import show, visible

Figure = dict[str, Any]
Gap = Literal["small", "medium", "large"]
Align = Literal["top", "center", "bottom"]
Columned = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Title:
    """A heading; a `large` one begins a section of the page."""

    words: str
    large: bool = False


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    words: str
    help: str | None = None


@dataclass(frozen=True)
class Note:
    """A caption."""

    words: str
    help: str | None = None


@dataclass(frozen=True)
class Hint:
    """A highlighted hint, a warning, or an error; `icon` is the name of a Material icon."""

    words: str
    icon: str = "lightbulb"
    warns: bool = False
    fails: bool = False


@dataclass(frozen=True)
class Sentence:
    """The sentence next to a picture that gives its main number."""

    name: str
    words: str


@dataclass(frozen=True)
class Verbatim:
    """Verbatim text: an error message of torch, a line of code."""

    text: str
    language: str | None = None


@dataclass(frozen=True, eq=False)
class Chart:
    """A Plotly figure: `draw(dark=…)` makes it, `alt` is its text alternative.

    `clicks` are what a click on each of its points does.
    """

    name: str
    draw: Callable[..., Figure]
    alt: str
    clicks: Sequence[Change] = ()


@dataclass(frozen=True, eq=False)
class Canvas:
    """A view of `explorer.components` by its name; `pack(file)` makes its payload.

    `on` maps each message of the view (`picked`, `painted`, …) to a function that returns the
    Change. Messages are untrusted browser input; for invalid ones it returns None. `links` are the
    targets of links in the view, None for no link: `pack(file, hrefs)` gets their addresses.
    """

    name: str
    view: str
    pack: Callable[..., bytes]
    on: Mapping[str, Callable[[Any], Change | None]] = field(default_factory=dict)
    links: Sequence[Change | None] = ()

    def payload(self, file: str, address: Callable[[Change], str] = lambda change: "") -> bytes:
        """The payload, with the `address` of each link; by default "", as outside the app."""
        if not self.links:
            return self.pack(file)
        return self.pack(file, ["" if link is None else address(link) for link in self.links])


@dataclass(frozen=True, eq=False)
class Matrices:
    """Matrices side by side, each with its title, which is a caption unless not `captioned`.

    `picked` is what a click on a cell (matrix, row, column) does, `painted` what a stroke over a
    matrix does. `words` replace some of `components.matrices`, such as the `hint` below.
    """

    name: str
    panels: Sequence[tuple[str, Matrix]]
    captioned: bool = True
    picked: Callable[[Index], Change | None] | None = None
    painted: Callable[[int, Stroke], Change | None] | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    def canvas(self, view: View) -> Canvas:
        """The same as a view of `explorer.components`."""
        words = {**view.words("components.matrices"), **self.words}
        does = {"picks": self.picked is not None, "brush": self.painted is not None}

        def pack(file: str) -> bytes:
            several = len(self.panels) > 1
            panels = [
                Panel(plain(title), matrix, f"{file}-{number}" if several else file)
                for number, (title, matrix) in enumerate(self.panels, 1)
            ]
            return pack_matrices(panels, words=words, captioned=self.captioned, **does)

        return Canvas(self.name, "matrices", pack, {"picked": self._pick, "painted": self._paint})

    def svg(self) -> str:
        """The same as a still picture."""
        (first, matrix), *others = panels = [(plain(title), grid) for title, grid in self.panels]
        return (
            matrices_svg(panels, title="") if others else matrices_svg([("", matrix)], title=first)
        )

    def _pick(self, sent: Any) -> Change | None:
        at, *cell = sent if isinstance(sent, list | tuple) and sent else (None,)
        place = within(at, len(self.panels))
        at_cell = None if place is None else index_of(cell, self.panels[place][1].shape)
        if self.picked is None or place is None or at_cell is None:
            return None
        return self.picked((place, *at_cell))

    def _paint(self, sent: Any) -> Change | None:
        place = within(sent.get("matrix") if isinstance(sent, Mapping) else None, len(self.panels))
        if self.painted is None or place is None:
            return None
        stroke = stroke_of(sent, self.panels[place][1].shape)
        return None if stroke is None else self.painted(place, stroke)


@dataclass(frozen=True, eq=False)
class AllHeads:
    """All heads of one kind of attention, with the `options` of `components.heads_view`.

    `change` is what a selection in it does, `down` what the link of a cell [layer, head, query,
    key] does, `asked` what a button of its `bar` does that needs another picture; the view itself
    remembers what is pinned and locked.
    """

    name: str
    grid: HeadGrid
    options: Mapping[str, Any]
    change: Callable[[HeadsSelection], Change | None]
    down: Callable[[Index], Change] | None = None
    asked: Callable[[str], Change | None] = lambda name: None


@dataclass(frozen=True)
class Document:
    """Markdown of our own, whose sections are folded."""

    key: str
    markdown: str


@dataclass(frozen=True)
class Table:
    """A small table of Markdown. `align` has "l" or "r" for each column; by default the first
    column is left-aligned and all others, usually numbers, right-aligned.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str = ""


@dataclass(frozen=True)
class Metrics:
    """Single numbers side by side in large letters, each with its label."""

    values: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class ProgressBar:
    """A bar that is full to this `share`, 0 to 1, below its `words`."""

    share: float
    words: str = ""


@dataclass(frozen=True, eq=False)
class Link:
    """A link to this page with these choices and no others, to copy.

    With a `key`, which names its QR code, the link also has all current choices, and is in Export
    below its `words`.
    """

    choices: Mapping[str, Any]
    key: str = ""
    words: str = ""


@dataclass(frozen=True)
class Formula:
    """LaTeX, its words as for `text.formula`, and the legend of its symbols, if it needs one."""

    lines: Sequence[str]
    explained: str = ""

    @classmethod
    def of(cls, explained: str, *lines: str) -> "Formula":
        """The same, with the legend first."""
        return cls(lines, explained)


@dataclass(frozen=True)
class Code:
    """The functions and classes that computed the picture, in order of calls (`ui.code`).

    `first`: above the code of other exhibits on the page.
    """

    objects: Sequence[object]
    first: bool = False


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of the picture; `columns` returns the table by column name."""

    columns: Callable[[], Columned]


@dataclass(frozen=True, eq=False)
class Row:
    """Blocks side by side, as wide as they need, wrapped if there is no room."""

    blocks: Sequence["Block"]
    align: Align = "bottom"
    gap: Gap = "small"


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of blocks of equal width, or of these `widths`.

    `still`, an SVG, replaces them in print and is offered as a download, labelled `words`.
    """

    columns: Sequence[Sequence["Block"]]
    widths: Sequence[float] = ()
    still: Callable[[], str] | None = None
    words: str = ""
    gap: Gap = "large"


@dataclass(frozen=True, eq=False)
class Pane:
    """Blocks one below the other, of a fixed width in pixels or `framed`; `key` is for a style.
    Blocks that need more than a fixed `height` scroll."""

    blocks: Sequence["Block"]
    width: int | None = None
    height: int | None = None
    framed: bool = False
    key: str | None = None
    gap: Gap | None = "small"


@dataclass(frozen=True, eq=False)
class Fold:
    """Blocks hidden behind a button; `inline`: behind a line that opens in its place."""

    label: str
    blocks: Sequence["Block"]
    inline: bool = False
    icon: str = ""


@dataclass(frozen=True, eq=False)
class Hero:
    """What the page is about; in presentation mode it is above all controls."""

    blocks: Sequence["Block"]


@dataclass(frozen=True, eq=False)
class Export:
    """Blocks among the page's exports. `blocks(is_local)` makes them: a server that others can
    reach does not name its folders."""

    blocks: Callable[[bool], Iterable["Block"]]


@dataclass(frozen=True)
class Live:
    """Draws the page again every so many `seconds`, while it is shown: something changes by itself.
    Static renderers draw what is there now."""

    key: str
    seconds: float


@dataclass(frozen=True)
class SentenceLine:
    """The text and the model's output, of this `view` if given; `here`: not above the controls.

    `output` replaces the model's own, and is followed by a `note`.
    `mapped`: a picture that the model reads is shown with its patches numbered.
    """

    key: str = "sentence"
    view: View | None = None
    here: bool = False
    output: str | None = None
    note: str = ""
    mapped: bool = True


@dataclass(frozen=True)
class Changes:
    """The user's changes to the model as text, with a button that reverts all of them."""

    key: str


Group = Row | Columns | Pane | Fold | Hero
Small = Formula | Code | Numbers
Picture = Chart | Matrices | Canvas | AllHeads
Words = Title | Prose | Note | Hint | Sentence | Verbatim | Table | Metrics | ProgressBar | Document
Block = Words | Picture | Small | Group | Control | SentenceLine | Changes | Link | Export | Live
Blocks = Iterator[Block]


def inside(blocks: Iterable[Block]) -> Blocks:
    """All blocks, including those inside groups."""
    for block in blocks:
        yield block
        if isinstance(block, Columns):
            for column in block.columns:
                yield from inside(column)
        elif isinstance(block, Row | Pane | Fold | Hero):
            yield from inside(block.blocks)


def picture_file(page: str, address: str) -> str:
    """The file name, without extension, of a picture; `page` is the prefix of its page's files."""
    name = re.sub(r"\W+", "-", address.split(".", 1)[-1])
    return f"{page}-{name}"


_WORD_JOINER = "\u2060"
_REFERENCES = {ord(mark): f"&#{ord(mark)};" for mark in string.punctuation}
_REFERENCES[ord(":")] += _WORD_JOINER


def escape(text: str, whole: bool = True) -> str:
    """`text` as Markdown that reads exactly as typed, on one line.

    Every ASCII punctuation mark, all that Markdown can act on, becomes a character reference, which
    CommonMark never takes for markup (nor do Streamlit's `:red[…]`, `$…$` and `<…>`). A word joiner
    after each colon prevents `:name:` from being replaced by an emoji after parsing. Control
    characters and bidirectional overrides are shown by name. Text that is not `whole` is part of a
    longer text, which is isolated when it is assembled.
    """
    draw = show if whole else visible
    return draw(" ".join(text.split())).translate(_REFERENCES) if text.strip() else ""


def plain(markdown: str) -> str:
    """The plain text of the app's Markdown: without emphasis, colours and icons."""
    words = re.sub(r":material/\w+:\s?", "", markdown)
    words = re.sub(r":[a-z]+(?:-background)?\[(.*?)\]", r"\1", words)
    words = re.sub(r"\*+|~~|`|\$", "", words)
    return html.unescape(words).replace(_WORD_JOINER, "")
