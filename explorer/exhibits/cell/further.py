"""The menu of asides."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.cell.choices import ASIDES, CellChoices
from explorer.exhibits.picking import pick_aside


def show(answer: None, view: View) -> b.Blocks:
    """The buttons; at most one aside is open."""
    now = view.choices(CellChoices).aside
    yield from pick_aside(view, "cell.aside", "cell.further", ASIDES, now)


EXHIBIT = Exhibit(None, show)
