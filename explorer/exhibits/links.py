"""State <-> link: a link contains everything that determines a picture.

Layers and heads count from 1 in a link, as they do on the screen. Invalid values are dropped and
reported; the rest of the link still applies. The grammar is flat: names of choices must be unique
across all pages.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from explorer.exhibits.choices import (
    Form,
    Offered,
    RefusedError,
    choice,
    form_of,
    from_one,
    link_name,
    model_name,
    one_of,
    plus_one,
    whole,
)
from explorer.problems import InputProblem
from explorer.runs.edits import Edit, format_edits, parse_edits
from explorer.text import LANGUAGES
from models.hooks import ROLES, Role

MOST_PADS = 8
FREE = -1
"""The value of `row` if no query is highlighted."""
OF_VIEW = frozenset({"lang", "theme", "embed", "beamer", "part", "case", "claim", "lesson", "task"})
"""What a link says of a view: one that says no more opens the model of a first visit."""

GONE: dict[str, tuple[str, ...]] = {
    "part": (
        "speculation", "flow", "without", "file", "paper", "search", "asked", "paths", "learned",
        "length", "compare", "composition",
    ),
    "case": (
        "row_per_head", "rotated_heads", "norm_backward", "copied_projections", "unpacked_batch",
        "extra_axis", "half_fill", "added_fill",
    ),
    "claim": (
        "fills", "reference", "ffn_table", "layer_shapes", "totals", "tied_logits", "fused_qkv",
        "free_heads", "offset_only", "frequencies", "no_positions", "deep_pre", "batch_norm",
        "swiglu_equal", "rms_quality", "parallel", "extrapolation", "shape_flow", "reach",
        "tying",
    ),
    "option": ("layouts", "options"),
    "question": (),
    "taken": (),
    "further": (),
    "aside": ("engines", "layouts", "widths", "single", "groups"),
    "draft": (),
    "ahead": (),
    "story": (),
    "seeds": (),
    "on_paper": (),
}  # fmt: skip
"""Choices that links of earlier versions may name, and that no page has any longer: the values of
each, or () for all. A link with one opens the nearest view, and the app says so."""

Choices = TypeVar("Choices")


def is_gone(name: str, value: str) -> bool:
    """Whether a link's value belongs to a view that has been removed."""
    return name in GONE and value in (GONE[name] or (value,))


def _row(text: str) -> int:
    return FREE if text == "free" else whole(0, 999)(text)


def _edits(text: str) -> tuple[Edit, ...]:
    try:
        return parse_edits(text)
    except InputProblem as problem:
        raise RefusedError(text) from problem


@dataclass(frozen=True)
class State:
    """The user's choices. None means not chosen: the page picks an informative value.

    `target` None: the model translates by itself. `beside` holds further sentences, one per line,
    that are compared and share a batch with `text`. `site` is a kind of attention; `layer`,
    `head`, `row`, `key` and `step` count from 0. `row` is the highlighted query (FREE: none),
    `key` the key whose cell is opened, `step` the decoding step. `owned` holds the non-default
    choices of all other classes, which `of` returns.
    """

    lang: str = choice("en", one_of(LANGUAGES))
    model: str = model_name()
    text: str | None = choice(None, str)
    target: str | None = choice(None, str)
    beside: str = choice("", str)
    site: Role = choice("cross", one_of(ROLES))
    layer: int | None = choice(None, from_one(999), plus_one, of_site=True)
    head: int | None = choice(None, from_one(999), plus_one, of_site=True)
    row: int | None = choice(
        None, _row, lambda row: "free" if row == FREE else str(row), of_site=True
    )
    key: int | None = choice(None, whole(0, 999))
    step: int | None = choice(None, from_one(999), plus_one)
    edits: tuple[Edit, ...] = choice((), _edits, format_edits)
    pads: int | None = choice(None, whole(0, MOST_PADS))
    owned: tuple[Any, ...] = ()

    def of(self, kind: type[Choices]) -> Choices:
        """The choices of one page, by their class."""
        for choices in self.owned:
            if isinstance(choices, kind):
                return choices
        return kind()


class Links:
    """The grammar of links: the choices shared by all pages and those of each page.

    Raises ValueError if two classes use the same name.
    """

    def __init__(self, *pages: type) -> None:
        self._pages = pages
        self._forms: dict[str, Form] = {}
        self._owner: dict[str, type] = {}
        self._read: dict[str, Callable[[str], Any]] = {}
        self._words: dict[str, str] = {}  # the names in links
        for kind in (State, *pages):
            for field in fields(kind):
                form = form_of(field)
                if form is None:
                    continue
                if field.name in self._owner:
                    both = f"{self._owner[field.name].__name__} and {kind.__name__}"
                    raise ValueError(f"{both} both have a choice named {field.name!r}")
                self._owner[field.name], self._forms[field.name] = kind, form
                if form.read is not None:
                    self._words[field.name] = link_name(field.name)
                    self._read[field.name] = self._reader(form.read)

    def _reader(self, read: Callable[[str], Any] | Offered) -> Callable[[str], Any]:
        if isinstance(read, Offered):
            return one_of(tuple(w for page in self._pages for w in getattr(page, read.name, ())))
        return read

    def change(self, state: State, **chosen: Any) -> State:
        """`state` with some choices made, each by its name, whichever page owns it.

        Raises KeyError for a name that no choice has.
        """
        by_owner: dict[type, dict[str, Any]] = {}
        for name, value in chosen.items():
            by_owner.setdefault(self._owner[name], {})[name] = value
        shared = by_owner.pop(State, {})
        if not by_owner:
            return replace(state, **shared)
        owned = []
        for page in self._pages:
            choices: Any = replace(state.of(page), **by_owner.get(page, {}))
            if choices != page():  # omit defaults, so that equal states compare equal
                owned.append(choices)
        return replace(state, **shared, owned=tuple(owned))

    def chosen(self, state: State, name: str) -> Any:
        """The value of the choice of this name, on any page. Raises KeyError if there is none."""
        owner = self._owner[name]
        return getattr(state if owner is State else state.of(owner), name)

    def elsewhere(self, state: State) -> State:
        """`state` without the choices that point into the kind of attention that is left."""
        pointing = (name for name, form in self._forms.items() if form.of_site)
        return self.change(state, **{name: self.chosen(State(), name) for name in pointing})

    @property
    def models(self) -> list[str]:
        """The choices that are names of models."""
        return [name for name, form in self._forms.items() if form.model]

    def keep(self, state: State, before: State) -> State:
        """`state` with the choices of `before` that are not part of links."""
        names = [name for name, form in self._forms.items() if form.read is None]
        return self.change(state, **{name: self.chosen(before, name) for name in names})

    def read(self, params: Mapping[str, str]) -> tuple[State, tuple[tuple[str, str], ...]]:
        """The state of a link, and its invalid parts as (name, value) pairs.

        Unknown names are ignored, since sites that share links add their own, except those that
        are `GONE`.
        """
        chosen: dict[str, Any] = {}
        refused: list[tuple[str, str]] = []
        for name, read in self._read.items():
            word = self._words[name]
            if word in params:
                try:
                    chosen[name] = read(params[word])
                except ValueError:
                    refused.append((word, params[word]))
        removed = ((name, params[name]) for name in GONE if name in params.keys() - self._read)
        refused.extend(pair for pair in removed if is_gone(*pair))
        return self.change(State(), **chosen), tuple(refused)

    def write(self, state: State) -> dict[str, str]:
        """The state as the parameters of a link, without defaults, except for the language."""
        params, held = {}, {type(holder): holder for holder in (state, *state.owned)}
        for name in self._read:
            if (choices := held.get(self._owner[name])) is None:  # its page has the defaults
                continue
            value = getattr(choices, name)
            if value is not None and (name == "lang" or value != getattr(type(choices)(), name)):
                params[self._words[name]] = self._forms[name].write(value)
        return params
