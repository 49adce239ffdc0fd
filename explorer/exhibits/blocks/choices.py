"""Choices about the parts of a block, on the Model page."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from explorer.analysis.blocks.norms import NORMS
from explorer.exhibits import PageChoices
from explorer.exhibits.choices import RefusedError, as_digit, choice, one_of, switch, whole

CurveOf = Literal["value", "slope", "difference"]
"""Which curve of an activation is drawn; the difference is from GELU."""
GAMMAS = (100, 250, 40, 100, 160, 100)
"""Initial gammas in percent, all different."""


def _gamma(text: str) -> tuple[int, ...]:
    parts = text.split("-")
    if len(parts) != len(GAMMAS):
        raise RefusedError(text)
    return tuple(whole(0, 300)(part) for part in parts)


def _experts(text: str) -> tuple[int, ...]:
    return tuple(sorted({whole(1, 4096, shift=1)(part) for part in text.split("-")}))


@dataclass(frozen=True)
class BlocksChoices(PageChoices):
    """`norm` is the selected norm, `depth` the number of layers of the untrained models, `final`
    whether they have a final norm, `gamma` the gammas in percent, `experts_off` the experts that
    are switched off in the selected layer."""

    pictures: ClassVar[tuple[CurveOf, ...]] = get_args(CurveOf)
    norm: str = choice("", one_of(NORMS))
    depth: int | None = choice(None, whole(1, 48))
    final: bool = choice(True, switch, as_digit)
    gamma: tuple[int, ...] = choice(GAMMAS, _gamma, lambda gamma: "-".join(map(str, gamma)))
    experts_off: tuple[int, ...] = choice(
        (), _experts, lambda off: "-".join(str(n + 1) for n in off)
    )
