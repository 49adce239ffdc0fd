"""The course: five chapters of steps, in the order in which the tutorials teach them."""

from collections.abc import Sequence
from typing import Any

from explorer.exhibits import View, block as b
from explorer.exhibits.escape import escape
from explorer.exhibits.tour import attention, blocks, masks, positions, writing
from explorer.exhibits.tour.asked import Step
from explorer.exhibits.tour.chapters import NAMES
from explorer.exhibits.tour.choices import StepAnswer, TourChoices
from explorer.text import shorten

_CHAPTERS = (attention.STEPS, masks.STEPS, positions.STEPS, blocks.STEPS, writing.STEPS)
CHAPTERS: dict[str, tuple[Step, ...]] = dict(zip(NAMES, _CHAPTERS, strict=True))
"""The steps of each chapter; the words for a chapter are at `tour.groups.<name>`."""
STEPS: dict[str, Step] = {step.id: step for steps in CHAPTERS.values() for step in steps}
assert len(STEPS) == sum(map(len, CHAPTERS.values())), "two steps have one name"

TASK_OF: dict[str, str] = {
    "attention": "softmax",
    "masks": "causal",
    "positions": "sine",
    "blocks": "layer_norm",
    "writing": "top_p",
}
"""The exercise at the end of a chapter."""


def chapter_of(step: str) -> str:
    """The chapter of a step. Raises KeyError."""
    return next(name for name, steps in CHAPTERS.items() if STEPS[step] in steps)


def number_of(step: str) -> str:
    """A step's number, as 2.3 for the third of the second chapter. Raises KeyError."""
    chapter = chapter_of(step)
    return f"{NAMES.index(chapter) + 1}.{CHAPTERS[chapter].index(STEPS[step]) + 1}"


def title_of(view: View, step: str) -> str:
    """A step's title with its number."""
    return f"{number_of(step)} · {view.t(f'tour.steps.{step}.title')}"


def steps_of(sheet: Sequence[str]) -> tuple[str, ...]:
    """The existing steps of a teacher's sheet; all steps without one."""
    return tuple(name for name in sheet if name in STEPS) or tuple(STEPS)


def opened(lesson: str, sheet: Sequence[str]) -> str:
    """The open step; the first if the link names none of the sheet."""
    named = steps_of(sheet)
    return lesson if lesson in named else named[0]


def heading(view: View) -> b.Blocks:
    """The title of a teacher's sheet, and messages about what a link names but does not exist."""
    made = view.choices(TourChoices)
    if made.sheet_title:
        yield b.Title(escape(made.sheet_title), large=True)
    unknown = " ".join(name for name in made.sheet if name not in STEPS)
    wrong = {"sheet": unknown, "lesson": "" if made.lesson in STEPS else made.lesson}
    for name, value in wrong.items():
        if value:
            words = view.t("shell.refused", name=name, value=escape(shorten(value, 40)))
            yield b.Hint(words, "link_off", warns=True)


def steps_of_view(view: View) -> tuple[str, ...]:
    """`steps_of` the user's sheet."""
    return steps_of(view.choices(TourChoices).sheet)


def link_of(view: View, **chosen: Any) -> b.Link:
    """A link to this sheet with this sentence and the unedited model, and with further choices."""
    made = view.choices(TourChoices)
    here = {"model": view.loaded.name, "text": view.text, "target": view.target}
    return b.Link({**here, "sheet": made.sheet, "sheet_title": made.sheet_title, **chosen})


def answers_of(view: View) -> dict[str, StepAnswer]:
    """The answers to existing steps, by step."""
    return {each.step: each for each in view.choices(TourChoices).answers if each.step in STEPS}
