"""The chosen measure of every head: shown in the picture once it is computed."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.heads.linked import values_of
from explorer.exhibits.heads.sides import Sides, sides_of
from models.hooks import Role

Values = tuple[NDArray[np.float64] | None, ...]


def measures(
    asked: tuple[tuple[Run, Role, str], ...], *, progress: Callable[[int, int], None] | None = None
) -> Values:
    """A measure of each head of these runs, [layer, head]; None for "", or if a run has none.

    Raises InputProblem.
    """
    return tuple(values_of(*each, progress) if each[2] else None for each in asked)


def show(found: Values, view: View) -> b.Blocks:
    """Only the progress is shown."""
    yield from ()


def values(sides: Sides) -> Values:
    """The chosen measure for each side; None if it has none, or while it is being computed."""
    view = sides.view
    is_chosen = any(name for _, _, name in _asked(view))
    if not is_chosen or (_takes_long(view) and not EXHIBIT.is_answered(view)):
        return (None,) * len(sides.shown)
    return EXHIBIT.answer(view)


def _asked(view: View) -> tuple[tuple[Run, Role, str], ...]:
    """Of each side its run, its kind of attention, and the measure to compute."""
    names = (each.measure if each.measure != "differs" else None for each in sides_of(view).shown)
    shown = zip(sides_of(view).shown, names, strict=True)
    return tuple((each.view.run, each.kind, name or "") for each, name in shown)


def _takes_long(view: View) -> bool:
    shown = zip(sides_of(view).shown, _asked(view), strict=True)
    return any(
        name == "needed" or (name and not each.view.trace.patterns_kept)
        for each, (_, _, name) in shown
    )


EXHIBIT: Exhibit[Values] = Exhibit(
    measures, show, inputs={"asked": _asked}, working="heads.working", open=_takes_long
)
