"""The course: the steps of the tour, and the exercises."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from explorer.analysis.exercises.tasks import tasks
from explorer.exhibits import View, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.exercises.choices import ExercisesChoices
from explorer.exhibits.tour import attention, blocks, masks, positions, writing
from explorer.exhibits.tour.choices import CHAPTERS, StepAnswer, TourChoices
from explorer.exhibits.tour.posed import Step
from explorer.text import shorten

_MODULES = dict(zip(CHAPTERS, (attention, masks, positions, blocks, writing), strict=True))
STEPS: dict[str, Step] = {
    step: Step(getattr(_MODULES[chapter], step), **values)
    for chapter, table in CHAPTERS.items()
    for step, values in table["steps"].items()
}
"""The steps of all chapters."""


@dataclass(frozen=True, eq=False)
class Entry:
    """A step or an exercise, by its `id` in links.

    `group` is the table of its group's text and the name there, `title` an exercise's title by
    language, `opens` the change that opens it.
    """

    id: str
    group: tuple[str, str]
    title: Mapping[str, str] | None
    opens: b.Change


def _entries() -> Iterator[Entry]:
    for chapter, table in CHAPTERS.items():
        for step in table["steps"]:
            yield Entry(step, ("tour.groups", chapter), None, open_step(step))
    for task in tasks():
        opens = b.choose(visit="exercises", task=task.id, part="task")
        yield Entry(f"task_{task.id}", ("exercises.groups", task.kind), task.name, opens)


def open_step(step: str) -> b.Change:
    """The change that opens a step."""
    return b.choose(lesson=step, part="steps")


GROUPS = {name: tuple(inside) for name, inside in groupby(_entries(), lambda each: each.group)}
ENTRIES = {each.id: each for inside in GROUPS.values() for each in inside}


def chapter_of(step: str) -> str:
    """The chapter of a step. Raises KeyError."""
    return ENTRIES[step].group[1]


def number_of(entry: str) -> str:
    """An entry's number, as 2.3 for the third of the second group. Raises KeyError."""
    group = ENTRIES[entry].group
    return f"{[*GROUPS].index(group) + 1}.{GROUPS[group].index(ENTRIES[entry]) + 1}"


def title_of(view: View, entry: str) -> str:
    """An entry's title with its number."""
    title = ENTRIES[entry].title
    words = title[view.lang] if title else view.t("tour.steps", entry, "title")
    return f"{number_of(entry)} · {words}"


def group_title(view: View, group: tuple[str, str]) -> str:
    """The title of a group, after its page's unless it is a chapter."""
    page, title = group[0].partition(".")[0], view.t(*group)
    return title if page == "tour" else f"{view.t(page, 'title')} · {title}"


def steps_of(sheet: Sequence[str]) -> tuple[str, ...]:
    """The existing steps of a teacher's sheet; all steps without one."""
    return tuple(name for name in sheet if name in STEPS) or tuple(STEPS)


def opened(lesson: str, sheet: Sequence[str]) -> str:
    """The open step; the first if the link names none of the sheet."""
    named = steps_of(sheet)
    return lesson if lesson in named else named[0]


def sheet_of(sheet: Sequence[str]) -> tuple[str, ...]:
    """The existing entries of a teacher's sheet."""
    return tuple(name for name in sheet if name in ENTRIES)


@dataclass(frozen=True)
class CourseProgress:
    """`outcomes`: whether the learner's answer is right, for each answered entry. `entries`: the
    sheet's entries; without a sheet, the steps, and all entries of the other groups that the
    learner has begun."""

    entries: tuple[str, ...]
    outcomes: dict[str, bool]


def progress(
    answers: Sequence[StepAnswer], solved: Sequence[str], sheet: Sequence[str]
) -> CourseProgress:
    """What follows from the answers to steps and from the exercises that are solved."""
    results = {answer.step: answer.right for answer in answers}
    results |= {f"task_{task}": True for task in solved}
    outcomes = {name: right for name, right in results.items() if name in ENTRIES}
    begun = {ENTRIES[name].group for name in outcomes}
    all_begun = (id for id, entry in ENTRIES.items() if id in STEPS or entry.group in begun)
    return CourseProgress(sheet_of(sheet) or tuple(all_begun), outcomes)


SOLVED = {"solved": lambda view: view.choices(ExercisesChoices).solved}
"""The input of `progress` that is a choice of another page."""


def heading(view: View) -> b.Blocks:
    """The title of a teacher's sheet, and messages about what a link names but does not exist."""
    choices = view.choices(TourChoices)
    if choices.sheet_title:
        yield b.Title(escape(choices.sheet_title), large=True)
    unknown = " ".join(name for name in choices.sheet if name not in ENTRIES)
    wrong = {"sheet": unknown, "lesson": "" if choices.lesson in STEPS else choices.lesson}
    for name, value in wrong.items():
        if value:
            words = view.t("shell.refused", name=name, value=escape(shorten(value, 40)))
            yield b.Hint(words, "link_off", warns=True)


def link_of(view: View, **chosen: Any) -> b.Link:
    """A link to this sheet with this sentence and the unedited model, and with further choices."""
    choices = view.choices(TourChoices)
    here = {"model": view.loaded.name, "text": view.text, "target": view.target}
    return b.Link({**here, "sheet": choices.sheet, "sheet_title": choices.sheet_title, **chosen})
