"""Problems with the atlas file of the open model."""

from explorer.analysis.atlas.finding import Found, stamp
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.atlas.measured import found
from explorer.exhibits.saying import message


def show(file: Found, view: View) -> b.Blocks:
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
