"""A teacher's sheet: steps in any order under a title, as a link."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.tour.choices import MOST_TITLE, TourChoices, one_line
from explorer.exhibits.tour.course import STEPS, heading, link_of, title_of


def show(answer: None, view: View) -> b.Blocks:
    """The controls and the link."""
    yield from heading(view)
    tour, label = view.choices(TourChoices), view.t("tour.sheet_title")
    yield b.Prose(view.t("tour.sheet_lead"))
    yield b.Several(
        "tour.sheet",
        view.t("tour.sheet_steps"),
        tuple(STEPS),
        [step for step in tour.sheet if step in STEPS],
        lambda step: title_of(view, step),
        lambda picked: b.choose(sheet=tuple(picked), lesson=""),
        none=view.t("tour.sheet_all"),
    )
    yield b.TextBox("tour.sheet_title", label, tour.sheet_title, _titled, most=MOST_TITLE)
    yield b.Note(view.t("tour.sheet_link"))
    yield link_of(view)
    yield b.Note(view.t("tour.sheet_note"))


def _titled(typed: str) -> b.Change:
    return b.choose(sheet_title=one_line(typed, MOST_TITLE))


EXHIBIT = Exhibit(None, show)
