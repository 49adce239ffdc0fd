"""The menu of asides about a model."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.machine.choices import ASIDES, MachineChoices


def is_open(name: str, view: View) -> bool:
    """Whether the user has opened this aside."""
    return view.choices(MachineChoices).further == name


def show(answer: None, view: View) -> b.Blocks:
    """The buttons; at most one aside is open."""
    title, now = view.t("machine.further"), view.choices(MachineChoices).further or None
    yield b.Title(title, large=True)
    yield b.Pick(
        "machine.further",
        title,
        ASIDES,
        now,
        lambda name: view.t(f"machine.asides.{name}"),
        change=lambda name: b.choose(further=name or ""),
        quiet=True,
        optional=True,
    )


EXHIBIT = Exhibit(None, show)
