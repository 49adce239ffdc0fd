"""One training pass compared with token-by-token generation: the question, and the switch."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.machine.choices import MachineChoices
from explorer.exhibits.picking import toggle


def show(answer: None, view: View) -> b.Blocks:
    """The times are measured on request."""
    yield b.Title(view.t("machine.passes"), large=True)
    yield b.Prose(view.t("machine.passes_lead"))
    yield toggle(view, "machine.measure", view.choices(MachineChoices).timed, "timed")


EXHIBIT = Exhibit(None, show, open=lambda view: view.trace.config.generates)
