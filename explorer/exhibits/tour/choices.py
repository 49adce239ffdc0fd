"""Choices on the guided tour, and the link format of answers and of a teacher's sheet."""

import re
import tomllib
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from explorer.exhibits import PageChoices
from explorer.exhibits.choices import RefusedError, as_digit, choice, switch, unlinked
from explorer.exhibits.exercises.choices import MOST_IDS, read_ids
from explorer.exhibits.view import View, build
from models.training.home import asset

MOST_TITLE, MOST_NAME = 100, 40
"""Most characters of a sheet's title and of a learner's name; longer ones are cut."""
_ANSWER = re.compile(r"([a-z][a-z0-9_]{0,39})\.([1-9])\.([01])\.([0-9a-z]{1,7})", re.ASCII)


with asset("lessons", "course.toml").open("rb") as _file:
    CHAPTERS: dict[str, dict[str, Any]] = tomllib.load(_file)
CHAPTER_OF = {page: name for name, chapter in CHAPTERS.items() for page in chapter["pages"]}
"""The chapter that links to a page, and to which the page links back."""


@dataclass(frozen=True)
class StepAnswer:
    """The answer to a step, or to a question of Train: the option (from 0), whether it was right,
    and the mark of the question, which depends on the sentence and model."""

    step: str
    option: int
    right: bool
    mark: str


def read_answers(text: str) -> tuple[StepAnswer, ...]:
    """Read `look.2.1.k3f~rest.1.0.9ab`: step, option from 1, 1 for right, mark; a step once."""
    parts = text.split("~") if text else []
    matches = [_ANSWER.fullmatch(part) for part in parts[:MOST_IDS]]
    answers = tuple(StepAnswer(m[1], int(m[2]) - 1, m[3] == "1", m[4]) for m in matches if m)
    if len({answer.step for answer in answers}) < len(parts):
        raise RefusedError(text)
    return answers


def write_answers(answers: tuple[StepAnswer, ...]) -> str:
    """The inverse of `read_answers`."""
    return "~".join(f"{a.step}.{a.option + 1}.{int(a.right)}.{a.mark}" for a in answers)


def one_line(text: str, most: int) -> str:
    """A text as one line of at most `most` characters."""
    return " ".join(text.split())[:most].strip()


@dataclass(frozen=True)
class TourChoices(PageChoices):
    """`lesson` is the open step ("" is the first), `answers` the given answers, `sheet` the entries
    picked by a teacher (empty: all), with a title; `solutions`: print it with answers. `learner` is
    the name entered for a class, `class_links` the links of a class."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "steps": ("tour.steps",),
        "contents": ("tour.contents",),
        "results": ("tour.results",),
        "sheet": ("tour.sheet",),
        "printed": ("tour.printed",),
        "class": ("tour.learners",),
    }
    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "learner": ("steps", "contents", "results"),
        "teacher": ("sheet", "printed", "class"),
    }
    lesson: str = choice("", str)
    answers: tuple[StepAnswer, ...] = choice((), read_answers, write_answers)
    sheet: tuple[str, ...] = choice((), read_ids, "~".join)
    sheet_title: str = choice("", partial(one_line, most=MOST_TITLE))
    solutions: bool = choice(False, switch, as_digit)
    learner: str = choice("", partial(one_line, most=MOST_NAME))
    class_links: str = unlinked("")

    def answered(self, step: str) -> StepAnswer | None:
        """The answer to a step, if any."""
        return next((answer for answer in self.answers if answer.step == step), None)

    def with_answer(self, answer: StepAnswer) -> tuple[StepAnswer, ...]:
        """`answers` with this one, replacing an earlier one for the same step."""
        return (*(entry for entry in self.answers if entry.step != answer.step), answer)

    @staticmethod
    def opens(view: View) -> View:
        """The same sentence in the unedited model, without padding or a selection.

        Raises InputProblem.
        """
        state = replace(view.state, model=view.loaded.name, text=view.text, edits=(), pads=0)
        nowhere: dict[str, Any] = dict.fromkeys(("layer", "head", "row", "key", "step"))
        return build(replace(state, site="cross", **nowhere), view.dark)
