"""The box for the results links of a class."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.workshop.choices import WorkshopChoices

MOST_PASTED = 800_000
"""Most characters of all links."""


def show(answer: None, view: View) -> b.Blocks:
    """The links become a choice of the session."""
    yield b.Prose(view.t("workshop.class_lead"))
    yield b.TextBox(
        "workshop.pasted",
        view.t("workshop.paste"),
        view.choices(WorkshopChoices).pasted,
        lambda text: b.choose(pasted=text),
        160,
        most=MOST_PASTED,
    )


EXHIBIT = Exhibit(None, show)
