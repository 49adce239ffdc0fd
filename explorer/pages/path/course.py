"""The course: five chapters of steps, in the order in which the tutorials teach them."""

from explorer.pages.path import attention, blocks, masks, positions, writing
from explorer.pages.path.asked import Step
from explorer.pages.path.chapters import NAMES

CHAPTERS: dict[str, tuple[Step, ...]] = {
    "attention": attention.STEPS,
    "masks": masks.STEPS,
    "positions": positions.STEPS,
    "blocks": blocks.STEPS,
    "writing": writing.STEPS,
}
"""The steps of each chapter; the words for a chapter are at `path.groups.<name>`."""
assert tuple(CHAPTERS) == NAMES
STEPS: dict[str, Step] = {each.id: each for steps in CHAPTERS.values() for each in steps}
assert len(STEPS) == sum(map(len, CHAPTERS.values())), "two steps have one name"

TASK_OF: dict[str, str] = {
    "attention": "softmax",
    "masks": "causal",
    "positions": "sine",
    "blocks": "layer_norm",
    "writing": "top_p",
}
"""The workshop task at the end of a chapter."""


def chapter_of(step: str) -> str:
    """The chapter of a step. Raises KeyError."""
    return next(name for name, steps in CHAPTERS.items() if any(s.id == step for s in steps))


def number_of(step: str) -> str:
    """A step's number, as 2.3 for the third of the second chapter. Raises KeyError."""
    name = chapter_of(step)
    ids = [each.id for each in CHAPTERS[name]]
    return f"{list(CHAPTERS).index(name) + 1}.{ids.index(step) + 1}"
