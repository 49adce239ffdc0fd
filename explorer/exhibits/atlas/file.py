"""Problems with the atlas file of the open model."""

from collections.abc import Iterator

from explorer.analysis.atlas.finding import Found, stamp
from explorer.exhibits import block as b
from explorer.exhibits.atlas.measured import found
from explorer.exhibits.exhibit import Exhibit
from explorer.exhibits.saying import message
from explorer.exhibits.view import View


def show(file: Found, view: View) -> Iterator[b.Block]:
    """The problem, if there is one."""
    if file.problem is not None:
        yield b.Hint(message(file.problem, view.lang), "info", warns=True)
    if file.stale:
        yield b.Hint(view.t("atlas.stale", path=str(file.path)), "history", warns=True)


EXHIBIT = Exhibit(
    found,
    show,
    inputs={"model": lambda view: view.loaded.name, "stamp": lambda view: stamp(view.loaded)},
)
