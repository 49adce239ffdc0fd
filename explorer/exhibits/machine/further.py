"""The menu of asides about a model."""

from collections.abc import Iterator

from explorer.exhibits import block as b
from explorer.exhibits.exhibit import Exhibit
from explorer.exhibits.machine.choices import ASIDES, MachineChoices
from explorer.exhibits.view import View


def is_open(name: str, view: View) -> bool:
    """Whether the user has opened this aside."""
    return view.choices(MachineChoices).further == name


def show(answer: None, view: View) -> Iterator[b.Block]:
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
