"""The menu of asides."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.cell.choices import ASIDES, CellChoices


def show(answer: None, view: View) -> b.Blocks:
    """The buttons; at most one aside is open."""
    title, now = view.t("cell.further"), view.choices(CellChoices).aside or None
    yield b.Title(title, large=True)
    yield b.Pick(
        "cell.aside",
        title,
        ASIDES,
        now,
        lambda name: view.t(f"cell.asides.{name}"),
        change=lambda name: b.choose(aside=name or ""),
        quiet=True,
        optional=True,
    )


EXHIBIT = Exhibit(None, show)
