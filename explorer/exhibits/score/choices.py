"""Choices on the Attention score page."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from explorer.analysis.score.initial import INITS, Init
from explorer.analysis.score.steps import SCALINGS, Scaling
from explorer.exhibits import PageChoices
from explorer.exhibits.choices import choice, from_one, one_of, plus_one, whole

Gradient = Literal["v", "pattern", "scores", "q", "k"]
GRADIENTS: tuple[Gradient, ...] = get_args(Gradient)
"""In the order in which the backward pass computes them."""
STAGES: tuple[str, ...] = ("projection", "similarity", "scale", "softmax", "values")
"""The five steps of a cell."""
ASIDES: tuple[str, ...] = ("scaling", "initial", "split", "raw", "dropout", "backward")
"""The asides that can be shown in addition to the steps; "" is none."""


@dataclass(frozen=True)
class ScoreChoices(PageChoices):
    """`stage` is the step of STAGES, `goal` the id of the token whose logit is measured, `aside`
    the open aside, with its `scaling`, `init`, `drop` (dropout in percent) and `gradient`."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "": tuple(f"score.{name}" for name in ("chain", *ASIDES))
    }
    stage: int = choice(0, from_one(len(STAGES)), plus_one)
    goal: int | None = choice(None, whole(0, 999_999))
    aside: str = choice("", one_of(ASIDES))
    scaling: Scaling = choice("head", one_of(SCALINGS))
    init: Init = choice("ours", one_of(INITS))
    drop: int = choice(50, whole(0, 90))
    gradient: Gradient = choice("scores", one_of(GRADIENTS))
