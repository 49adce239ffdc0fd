"""Why no program can run here, if none can."""

from explorer import sandbox
from explorer.exhibits import Exhibit, View, block as b


def show(answer: None, view: View) -> b.Blocks:
    """A hint, or nothing."""
    if not sandbox.available():
        yield b.Hero((b.Hint(view.t("workshop.absent"), "extension_off"),))


EXHIBIT = Exhibit(None, show)
