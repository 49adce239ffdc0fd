"""The menu of asides about a model."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.machine.choices import ASIDES, MachineChoices
from explorer.exhibits.picking import pick_aside


def is_open(name: str, view: View) -> bool:
    """Whether the user has opened this aside."""
    return view.choices(MachineChoices).further == name


def show(answer: None, view: View) -> b.Blocks:
    """The buttons; at most one aside is open."""
    now = view.choices(MachineChoices).further
    yield from pick_aside(view, "machine.further", "machine.further", ASIDES, now)


EXHIBIT = Exhibit(None, show)
