"""What a visitor chooses on the Masks page."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from explorer.exhibits.choices import choice, one_of, unlinked, whole
from models.hooks import Role

RenderingName = Literal["ones", "keep", "blocked", "infinite", "billion"]
ReaderName = Literal["equals_zero", "true_hides", "added", "sdpa", "mha"]
Way = Literal["filled", "added", "twice"]
RENDERINGS: tuple[RenderingName, ...] = get_args(RenderingName)
READERS: tuple[ReaderName, ...] = get_args(ReaderName)
WAYS: tuple[Way, ...] = get_args(Way)
TOOLS, SCOPES = ("look", "brush"), ("everywhere", "layer", "head")

MOST_LOWERED = 60_000
"""A little less than float16 can hold (65,504)."""


@dataclass(frozen=True)
class MasksChoices:
    """`parts` are those of the page, each with the exhibits that stand there; `pictures` is what
    the comparison of patterns can show. The first of each is what it opens with.

    `rendering` is how the mask is written and `reader` the code that it is handed to; `way` is how
    a fill is applied, and `lowered` what is taken from all scores beforehand. `tool` is what a
    click on a matrix does, `scope` to which heads, `mask_cell` the cell that is looked at (role,
    query, key), `next_step` how many written words the next one is asked after.
    """

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "matrices": (
            "sentence",
            "masks.largest",
            "masks.rules",
            "masks.matrices",
            "masks.causal",
            "masks.twins",
            "masks.effect",
            "masks.forced",
            "masks.batch",
        ),
        "conventions": ("sentence", "masks.rules", "masks.conventions"),
        "fills": ("sentence", "masks.rules", "masks.fills"),
    }
    pictures: ClassVar[tuple[str, ...]] = ("sides", "scores", "difference")
    rendering: RenderingName = choice("keep", one_of(RENDERINGS))
    reader: ReaderName = choice("mha", one_of(READERS))
    way: Way = choice("filled", one_of(WAYS))
    lowered: int = choice(0, whole(0, MOST_LOWERED))
    tool: str = unlinked(TOOLS[0])
    scope: str = unlinked(SCOPES[0])
    mask_cell: tuple[Role, int, int] | None = unlinked(None)
    next_step: int = unlinked(1)
