"""One step of the guided tour: its question, its picture, and the page for further exploration."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from explorer.engine.cache import Run
from explorer.exhibits import View, block as b
from explorer.exhibits.saying import quoted_at
from explorer.exhibits.tour.pictures import Drawing, Exhibited, choices_for, drawn
from explorer.exhibits.tour.rows import MissingError, QueryRow, require
from explorer.exhibits.view import build

LONGEST = 64
"""The longest sequence that the tour asks about: longer ones cannot be read off a picture."""
MOST_OPTIONS = 4
GLOSS = re.compile(r"( \*[^*]*\*|（[^）]*）)$")
"""The gloss behind a token, which depends on the language."""
Words = dict[str, object]


def grouped(number: int) -> str:
    """A whole number with commas, as 16,384."""
    return f"{number:,}"


@dataclass(frozen=True)
class Missing:
    """A lesson that this run does not show; `why` is the key of the reason's words."""

    why: str


@dataclass(frozen=True, eq=False)
class Posed:
    """What a step finds in a run: its question and pictures.

    `options` are the right one and wrong ones, of which the first that differ are used, None for
    one that this run does not have; `names` identify them where their words depend on the language.
    `values` fill the words of the step;
    `spelt` writes options that are numbers, and values that are floats. `before` and `after` the
    answer are pictures: the first must not reveal it. `row` is the row in question, `place` further
    choices with which the page of the step opens.
    """

    options: Sequence[str | float | None]
    values: Mapping[str, object]
    before: Sequence[Drawing]
    after: Sequence[Drawing]
    row: QueryRow | None = None
    place: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[str] = ()
    spelt: Callable[[Any], str] = str


@dataclass(frozen=True, eq=False)
class Step:
    """One step: `find` returns what it asks about a view without edits and padding, or raises
    MissingError. `page` is the page for further exploration, `formula` LaTeX, `wrong` the
    misconception that each wrong option stands for, the last one for all further ones; `telling` is
    the lesson of `assets/lessons/telling.toml` whose sentences show it ("": the default sentence
    does).

    Its words are at `tour.steps.<id>`: title, lead, ask and told.
    """

    find: Callable[[View], Posed]
    page: str
    formula: str
    wrong: Sequence[str]
    telling: str = ""

    @property
    def id(self) -> str:
        """The name of its function."""
        return self.find.__name__


@dataclass(frozen=True, eq=False)
class Question:
    """Options in words (Markdown), all different, one of them right; `misread` names the
    misconceptions of the others.

    They are ordered by a checksum of their names: deterministic, without a preferred position of
    the right one. `mark` is a short identifier of this question, the same in every language.
    """

    options: tuple[str, ...]
    right: int
    names: tuple[str, ...]
    misread: tuple[str, ...]

    @property
    def answer(self) -> str:
        """The right option."""
        return self.options[self.right]

    @property
    def mark(self) -> str:
        """Four letters or digits, a short hash of the question."""
        number = _checksum("\n".join((*self.names, self.names[self.right])))
        return np.base_repr(number, 36).lower()[:-5:-1]


def _checksum(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def question(
    step: str, options: Sequence[str | None], wrong: Sequence[str], names: Sequence[str] = ()
) -> Question | None:
    """A question with the first of these options, the right one first, that differ.

    `wrong` is as of a Step, `names` are language-independent names of the options. None if fewer
    than two would be wrong.
    """
    named: dict[str, tuple[str, str]] = {}
    for at, option in enumerate(options):
        if option is not None and len(named) < MOST_OPTIONS:
            misread = wrong[min(at, len(wrong)) - 1] if at else ""
            named.setdefault(option, (names[at] if names else option, misread))
    if len(named) < 3:
        return None
    shown = sorted(named, key=lambda option: _checksum(f"{step} {named[option][0]}"))
    parts = zip(*(named[option] for option in shown), strict=True)
    return Question(tuple(shown), shown.index(next(iter(named))), *parts)


@dataclass(frozen=True, eq=False)
class PosedStep:
    """A step on one run in the user's language: `Posed` with its question, and with the words and
    the place of its row."""

    step: str
    question: Question
    values: Mapping[str, object]
    before: Sequence[Drawing]
    after: Sequence[Drawing]
    place: Mapping[str, Any]

    def picture(self, view: View, answered: bool) -> Iterator[b.Block]:
        """The pictures before or after the answer."""
        title, drawings = view.t("tour.steps", self.step, "title"), [*self.before, *self.after]
        for drawing in self.after if answered else self.before:
            name = f"tour.{self.step}.{drawings.index(drawing)}"
            yield drawn(view, drawing, name, title)


def found_by(run: Run, lang: str, step: Step) -> PosedStep | Missing:
    """What a step asks about a run, in a language. Raises InputProblem."""
    view = build(choices_for(run, lang), dark=False)
    try:
        require(max(len(view.trace.src_tokens), len(view.trace.tgt_tokens)) <= LONGEST, "long")
        return _asked(view, step, step.find(view))
    except MissingError as error:
        return Missing(error.why)


def _asked(view: View, step: Step, posed: Posed) -> PosedStep:
    """The question of a step. Raises MissingError if too few of its options differ."""
    options = [of if isinstance(of, str | None) else posed.spelt(of) for of in posed.options]
    names = posed.names or [GLOSS.sub("", option or "") for option in options]
    asks = question(step.id, options, step.wrong, names)
    if asks is None:
        raise MissingError("alike")
    values, place = dict(posed.values), posed.place
    values |= {name: posed.spelt(of) for name, of in values.items() if isinstance(of, float)}
    if posed.row is not None:
        site = posed.row.site
        query = quoted_at(view, view.trace.query_tokens(site.name), posed.row.query)
        where = {"kind": view.t("kinds", site.role), "layer": site.layer + 1}
        values = {**where, "head": posed.row.head + 1, "query": query, **values}
        place = {**posed.row.place, **place}
    drawings = [*posed.before, *posed.after]
    asked = {id(of): of.asked(view) for of in drawings if isinstance(of, Exhibited)}
    before, after = ([asked.get(id(of), of) for of in side] for side in (posed.before, posed.after))
    return PosedStep(step.id, asks, values, before, after, place)
