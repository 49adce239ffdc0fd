"""One frozen View: everything that a page shows, derived from the user's choices."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, TypeVar

from explorer import text
from explorer.engine import cache
from explorer.engine.cache import Run, examples_of
from explorer.exhibits.choices import PartChoices, ScreenChoices
from explorer.exhibits.links import FREE, State
from explorer.figures.theme import is_special
from explorer.library import LoadedModel, split_step
from explorer.numbers import root
from explorer.problems import InputProblem
from explorer.runs.edits import Edit
from explorer.runs.trace import Trace
from explorer.text import LANGUAGES, in_order
from models.hooks import ROLES, AttentionSite, Role
from models.rows import Stream

Choices = TypeVar("Choices")
Option = TypeVar("Option", bound=str)
PLACE: dict[str, Callable[["View"], Any]] = {
    "site": lambda view: view.site,
    "head": lambda view: view.head,
    "row": lambda view: view.row,
    "layer": lambda view: view.layer,
    "kind": lambda view: view.kind,
    "kinds": lambda view: view.kinds,
    "others": lambda view: view.others,
    "stream": lambda view: view.sequence,
    "chosen_row": lambda view: view.state.row,
}
"""The selected place: values of a view by name, corrected so that they exist in the run, except for
the row that was chosen."""
UNNAMED = "en-zh"
"""The model of a link that names none, since the first version."""
MOST_OTHERS = 7
"""The most further sentences in one batch, limited by the width of the page."""


@dataclass(frozen=True, eq=False)
class Viewer:
    """Who looks at a view in the app: `browser` returns what identifies the browser ("" if nothing
    does), `session` is one of its tabs, and `is_here` returns whether that is still connected.
    """

    browser: Callable[[], str]
    session: str
    is_here: Callable[[], bool]


@dataclass(frozen=True, eq=False)
class View:
    """The choices (`state`), the model and its run (`trace`), and the selected place.

    `site`, `head` and `row` always exist in this run, whatever the link requested; `notes` are the
    problems with requested values that do not exist. Indices count from 0. `viewer` is None outside
    the app. `asks`: what takes long is computed only if the user asks for it.
    """

    state: State
    dark: bool
    loaded: LoadedModel
    text: str
    pads: int
    trace: Trace
    site: AttentionSite
    head: int
    row: int
    notes: tuple[InputProblem, ...] = ()
    viewer: Viewer | None = None
    asks: bool = True

    @property
    def lang(self) -> str:
        """The language of every word on the page."""
        return self.state.lang

    @property
    def target(self) -> str | None:
        """The user's own translation, or None if the model translates."""
        return self.state.target

    @property
    def others(self) -> tuple[str, ...]:
        """The further sentences, at most `MOST_OTHERS`."""
        return tuple(filter(str.strip, self.state.beside.splitlines()))[:MOST_OTHERS]

    @property
    def kind(self) -> Role:
        """The kind of attention of `site`: one of ROLES."""
        return self.site.role

    @property
    def layer(self) -> int:
        """The layer of `site`."""
        return self.site.layer

    @property
    def sequence(self) -> Stream:
        """The chosen token sequence; the model's only one if it has one."""
        chosen = self.choices(PartChoices).stream
        return "tgt" if chosen == "tgt" or len(self.loaded.model.reads) == 1 else "src"

    def str_tokens(self, stream: Stream | None = None) -> tuple[str, ...]:
        """The tokens of a sequence, by default the chosen one."""
        sequence = self.sequence if stream is None else stream
        return self.trace.src_str_tokens if sequence == "src" else self.trace.tgt_str_tokens

    @property
    def step(self) -> int:
        """The requested decoding step, which may exceed the number of steps."""
        return self.state.step or 0

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The requested edits; `trace.edits` are those that apply."""
        return self.state.edits

    def choices(self, kind: type[Choices]) -> Choices:
        """The choices of one page, by their class."""
        return self.state.of(kind)

    def chosen(self, name: str, own: type | None = None) -> Any:
        """The selected place or choice of this name; `own` is the class of a subject's choices.

        Raises AttributeError for an unknown name.
        """
        if name in PLACE:
            return PLACE[name](self)
        owners = (kind for kind in (own, PartChoices, ScreenChoices) if kind is not None)
        of = next((kind for kind in owners if name in {field.name for field in fields(kind)}), None)
        return getattr(self.state if of is None else self.state.of(of), name)

    def one_of(self, name: str, options: Sequence[Option]) -> Option:
        """The value of a choice that subjects share; the first option if it is not in `options`."""
        now = self.chosen(name)
        return now if now in options else options[0]

    @property
    def run(self) -> Run:
        """The arguments of the Trace, and the cache key for everything derived from it."""
        sinkless = self.trace.without_sinks
        return Run(self.loaded.name, self.text, self.target, self.edits, self.pads, sinkless)

    @property
    def kinds(self) -> tuple[Role, ...]:
        """The kinds of attention that this model has."""
        return tuple(filter(self.sites_of, ROLES))

    def sites_of(self, kind: Role) -> tuple[AttentionSite, ...]:
        """The sites of one kind, one per layer."""
        return self.trace.sites_of(kind)

    def before(self) -> Trace:
        """The same sentence in the unchanged model, without edits and padding."""
        return cache.trace(self.run.plain)

    def t(self, key: str, /, *names: str, **values: object) -> str:
        """The text at `key`, as of `text.t`, in the user's language; the model's own, if any."""
        key = key_for(self.loaded, ".".join((key, *names)), self.lang)
        return text.t(key, lang=self.lang, **values)

    def formula(self, latex: str) -> str:
        """LaTeX with its words in the user's language."""
        return text.formula(latex, lang=self.lang)

    @property
    def divisor(self) -> str:
        """The divisor of q · k in this model, as text: √64."""
        return root(self.loaded.config.divisor)

    @property
    def latex_divisor(self) -> str:
        """The divisor of q · k in this model as LaTeX, by name if it is the default one."""
        if self.loaded.config.score_divisor is None:
            return r"\sqrt{d_\mathrm{head}}"
        return re.sub(r"√(\d+)", r"\\sqrt{\1}", self.divisor)

    def scaled(self, products: str) -> str:
        """LaTeX: products of queries and keys, scaled and soft-capped as in this model."""
        divided = rf"\frac{{{products}}}{{{self.latex_divisor}}}"
        formula = products if self.latex_divisor == "1" else divided
        cap = self.loaded.config.score_cap
        if cap is None:
            return formula
        return rf"{cap:g}\tanh\!\left(\frac{{1}}{{{cap:g}}}\,{formula}\right)"

    @property
    def own_role(self) -> Role:
        """The role of self-attention in the sequence that the logits belong to."""
        return self.trace.stack("tgt").role

    def stream(self, stream: str) -> str:
        """The name of a sequence: source or target, or what a model without an encoder reads."""
        own = "picture" if self.loaded.config.picture else "text"
        return self.t("streams", stream if self.trace.src_tokens else own)

    def axes(self, x: str, y: str) -> dict[str, Any]:
        """The titles of a figure's axes, from the texts at these keys."""
        return {"x_title": self.t(x), "y_title": self.t(y)}

    def words(self, prefix: str) -> dict[str, str]:
        """All texts directly under `prefix`, by the last part of their keys, for figures."""
        return text.family(prefix, *reversed(self.loaded.own_texts), lang=self.lang)


def key_for(loaded: LoadedModel, key: str, lang: str) -> str:
    """The key of the text for this model: its own, if it has one, in its `own_texts`."""
    for table in loaded.own_texts:
        if text.has(table, key, lang=lang):
            return f"{table}.{key}"
    return key


def build(state: State, dark: bool, usual_pads: int = 0, viewer: Viewer | None = None) -> View:
    """Run the model with the choices, with `usual_pads` PADs if no number was chosen.

    Raises InputProblem if text, model or edits cannot be used.
    """
    names = cache.models()
    loaded = cache.open_model(state.model or default_model(names))
    sentence = first_sentence(loaded.name) if state.text is None else state.text
    pads = usual_pads if state.pads is None else state.pads
    trace = cache.trace(Run(loaded.name, sentence, state.target, state.edits, pads))
    notes: list[InputProblem] = []
    kinds = [*filter(trace.sites_of, ROLES)]
    kind = state.site if state.site in kinds else kinds[-1]
    sites = trace.sites_of(kind)
    # Select the place in the run without edits, so that a switch never changes the selection.
    plain = Run(loaded.name, sentence, state.target)
    site, head = _place(state, plain, sites, notes)
    row = state.row
    if row is None or row == FREE:
        row = default_row(cache.trace(plain), site)
    row = min(row, len(trace.query_tokens(site.name)) - 1)
    place = site, head, row, tuple(notes)
    return View(state, dark, loaded, sentence, pads, trace, *place, viewer)


def sinkless(view: View) -> View:
    """The same view with patterns without sinks, if its run has any."""
    return replace(view, trace=cache.trace(replace(view.run, without_sinks=True)))


def default_model(names: tuple[str, ...], lang: str = "") -> str:
    """The model of a first visit in this language: the first of its preferred models, whose output
    its speakers can read.

    Without a language, the model of a link that names none.
    """
    if not names or (not lang and UNNAMED in names):
        return UNNAMED
    return in_order(names, lang=lang or LANGUAGES[0])[0]


def first_sentence(model: str) -> str:
    """The sentence of a first visit."""
    return next(iter(examples_of(model).values()))[0]


def reading_language(model: str) -> str | None:
    """The language that a shipped model reads, detected from its examples.

    None for a model of single letters or of several languages, and for a user's own model.
    """
    base, _ = split_step(model)
    if not text.has("models", base, lang=text.LANGUAGES[0]):
        return None
    sentences = [*chain.from_iterable(text.examples(base).values())]
    if max(map(len, sentences[0].split())) < 2:
        return None
    every = {*map(text.script, sentences)} - {None}
    return every.pop() if len(every) == 1 else None


def is_translator(loaded: LoadedModel) -> bool:
    """Whether it is a shipped translator: a user's encoder-decoder may have another task."""
    config = loaded.config
    reads_text = config.reads_source and config.picture is None
    return reads_text and reading_language(loaded.name) is not None


def _place(
    state: State, run: Run, sites: tuple[AttentionSite, ...], notes: list[InputProblem]
) -> tuple[AttentionSite, int]:
    """The requested site and head, by default the most informative ones."""
    layer = _checked("layer", state.layer, len(sites), notes)
    head = _checked("head", state.head, sites[0].n_heads, notes)
    choice = sites if layer is None else (sites[layer],)
    if head is not None:
        return choice[0], head
    if not cache.trace(run).patterns_kept:  # for long texts this would take another pass
        return choice[0], 0
    information = cache.measures(run, sites[0].role)["information"]
    information = information if layer is None else information[layer : layer + 1]
    at, telling = divmod(int(information.argmax()), sites[0].n_heads)
    return choice[at], telling


def _checked(name: str, index: int | None, size: int, notes: list[InputProblem]) -> int | None:
    """An index that exists, else None and a note."""
    if index is None or index < size:
        return index
    notes.append(InputProblem("bad_number", name=name, value=index + 1, low=1, high=size))
    return None


def default_row(trace: Trace, site: AttentionSite) -> int:
    """The default query: the first word from the middle of the text on, which has keys on both
    sides."""
    tokens = trace.query_tokens(site.name)
    middle = len(tokens) // 2
    for row in (*range(middle, len(tokens)), *range(middle)):
        if not is_special(tokens[row]) and any(map(str.isalnum, tokens[row])):
            return row
    return middle


def without_text(state: State) -> State:
    """The same choices with the sentence of a first visit, for use if nothing has worked yet."""
    return replace(state, text=None, target=None, edits=(), pads=None)
