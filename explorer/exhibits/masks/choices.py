"""The user's choices on the Masks page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.exhibits import PageChoices
from explorer.exhibits.choices import choice, one_of, unlinked, whole
from models.hooks import Role

FURTHER = ("twins", "forced")
"""Effects of changed masks that are shown on request; "" is none."""
RENDERINGS = ("ones", "keep", "blocked", "infinite", "billion")
READERS = ("equals_zero", "true_hides", "added", "sdpa", "mha")
WAYS = ("filled", "added", "twice")
TOOLS, SCOPES = ("look", "brush"), ("everywhere", "layer", "head")

MOST_LOWERED = 60_000
"""Slightly less than the largest float16 (65,504)."""


@dataclass(frozen=True)
class MasksChoices(PageChoices):
    """`parts` are the parts of the page with their exhibits, `pictures` the views of the comparison
    of patterns; the first of each is the default.

    `rendering` is the convention in which the mask is written and `reader` the code that it is
    passed to. `effect` is the open one of FURTHER. `way` is how a fill is applied, and `lowered` is
    subtracted from all scores first.
    `tool` is the effect of a click on a matrix, `scope` the heads that it applies to, `mask_cell`
    the selected cell (role, query, key), and `next_step` the number of generated words after which
    the next one is predicted.
    """

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "matrices": (
            "masks.rules",
            "masks.largest",
            "masks.matrices",
            "masks.causal",
            "masks.twins",
            "masks.effect",
            "masks.forced",
            "masks.batch",
        ),
        "conventions": ("masks.rules", "masks.conventions"),
        "fills": ("masks.rules", "masks.fills"),
        "pass": ("decoding.one_pass", "decoding.labels"),
    }
    pictures: ClassVar[tuple[str, ...]] = ("sides", "scores", "difference")
    early: ClassVar[dict[str, tuple[str, ...]]] = {"masks.effect": ("site", "head")}
    effect: str = choice("", one_of(FURTHER))
    rendering: str = choice("keep", one_of(RENDERINGS))
    reader: str = choice("mha", one_of(READERS))
    way: str = choice("filled", one_of(WAYS))
    lowered: int = choice(0, whole(0, MOST_LOWERED))
    tool: str = unlinked(TOOLS[0])
    scope: str = unlinked(SCOPES[0])
    mask_cell: tuple[Role, int, int] | None = unlinked(None)
    next_step: int = unlinked(1)
