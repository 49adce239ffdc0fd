"""The thumbnails of a long text, layer by layer: the picture of all heads waits for them."""

from collections.abc import Callable

from explorer.components import HeadGrid
from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.heads.grids import grid_of
from explorer.exhibits.heads.sides import Sides, sides_of
from models.hooks import Role


def layers(
    long: tuple[tuple[Run, Role], ...],
    words: bool,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> bool:
    """Compute and cache the thumbnails of these runs. Raises InputProblem."""
    for run, kind in long:
        grid_of(run, kind, words, progress=progress)
    return True


def show(done: bool, view: View) -> b.Blocks:
    """Only the progress is shown."""
    yield from ()


def grids(sides: Sides) -> tuple[HeadGrid | None, ...]:
    """The thumbnails of each side; None while they are being computed."""
    is_done = not _long(sides.view) or EXHIBIT.is_answered(sides.view)
    return tuple(
        grid_of(each.view.run, each.kind, each.words is not None)
        if each.view.trace.patterns_kept or is_done
        else None
        for each in sides.shown
    )


def _long(view: View) -> tuple[tuple[Run, Role], ...]:
    """The sides whose patterns are not kept."""
    sides = sides_of(view).shown
    return tuple((each.view.run, each.kind) for each in sides if not each.view.trace.patterns_kept)


EXHIBIT = Exhibit(
    layers,
    show,
    inputs={"long": _long},
    working="heads.working",
    open=lambda view: bool(_long(view)),
)
