"""A teacher's sheet: entries of the course in any order under a title, as a link."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.tour.choices import MOST_TITLE, TourChoices, one_line
from explorer.exhibits.tour.course import ENTRIES, STEPS, heading, link_of, sheet_of, title_of


def show(answer: None, view: View) -> b.Blocks:
    """The controls and the link, which opens the steps, or the contents if there is more."""
    yield from heading(view)
    tour, label = view.choices(TourChoices), view.t("tour.sheet_title")
    picked = sheet_of(view)
    yield b.Prose(view.t("tour.sheet_lead"))
    yield b.Several(
        "tour.sheet",
        view.t("tour.sheet_steps"),
        {name: title_of(view, name) for name in ENTRIES},
        picked,
        lambda chosen: b.choose(sheet=tuple(chosen), lesson=""),
        display=b.Display(hint=view.t("tour.sheet_all")),
    )
    yield b.TextBox("tour.sheet_title", label, tour.sheet_title, _titled, most=MOST_TITLE)
    yield b.Note(view.t("tour.sheet_link"))
    yield link_of(view, part="" if STEPS.keys() >= {*picked} else "contents")
    yield b.Note(view.t("tour.sheet_note"))


def _titled(typed: str) -> b.Change:
    return b.choose(sheet_title=one_line(typed, MOST_TITLE))


EXHIBIT = Exhibit(None, show)
