"""Why no program can run here, if none can."""

from collections.abc import Iterator

from explorer import sandbox
from explorer.exhibits import block as b
from explorer.exhibits.exhibit import Exhibit
from explorer.exhibits.view import View


def show(answer: None, view: View) -> Iterator[b.Block]:
    """A hint, or nothing."""
    if not sandbox.available():
        yield b.Hero((b.Hint(view.t("workshop.absent"), "extension_off"),))


EXHIBIT = Exhibit(None, show)
