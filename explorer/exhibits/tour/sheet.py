"""A teacher's sheet: a ready lesson, or entries of the course in any order, as a link."""

import tomllib

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.tour.choices import MOST_TITLE, TourChoices, one_line
from explorer.exhibits.tour.course import ENTRIES, STEPS, heading, link_of, sheet_of, title_of
from models.training.home import asset

with asset("lessons", "ready.toml").open("rb") as _file:
    LESSONS: dict[str, dict[str, int]] = tomllib.load(_file)
"""The minutes of each part of a lesson, by lesson."""


def entries_in(lesson: str) -> tuple[str, ...]:
    """The entries of the course in a lesson."""
    return tuple(part for part in LESSONS[lesson] if part in ENTRIES)


def show(picked: tuple[str, ...], view: View) -> b.Blocks:
    """The ready lessons, the controls and the link, which opens the steps, or the contents if there
    is more; then the plan of the open lesson."""
    yield from heading(view)
    tour, label = view.choices(TourChoices), view.t("tour.sheet_title")
    titles = {name: view.t("tour.lessons", name, "title") for name in LESSONS}
    ready = (_ready(name, title) for name, title in titles.items())
    entries = b.Several(
        "tour.sheet",
        view.t("tour.sheet_steps"),
        {name: title_of(view, name) for name in ENTRIES},
        picked,
        lambda chosen: b.choose(sheet=tuple(chosen), lesson=""),
        display=b.Display(hint=view.t("tour.sheet_all")),
    )
    controls = (
        b.Prose(view.t("tour.sheet_lead")),
        b.Row((*ready,)),
        entries,
        b.TextBox("tour.sheet_title", label, tour.sheet_title, _titled, most=MOST_TITLE),
        b.Note(view.t("tour.sheet_link")),
        link_of(view, part="" if STEPS.keys() >= {*picked} else "contents"),
    )
    yield b.Pane(controls, key="tour-noprint")
    yield from (_plan(view, name) for name in LESSONS if picked == entries_in(name))


def _ready(lesson: str, title: str) -> b.Button:
    """A button that makes a lesson the sheet."""
    change = b.choose(sheet=entries_in(lesson), sheet_title=title, lesson="")
    return b.Button(f"tour.ready.{lesson}", title, change, "school")


def _plan(view: View, lesson: str) -> b.Table:
    """When each part of a lesson begins and ends, in minutes, and what to say."""
    rows, begins = [], 0
    for part, minutes in LESSONS[lesson].items():
        title = title_of(view, part) if part in ENTRIES else view.t("tour", part)
        words = view.t("tour.lessons", lesson, part)
        rows.append((f"{begins}–{begins + minutes}", title, words))
        begins += minutes
    return b.Table([*map(view.t, ("tour.minutes", "tour.step", "tour.say"))], rows, "lll")


def _titled(typed: str) -> b.Change:
    return b.choose(sheet_title=one_line(typed, MOST_TITLE))


EXHIBIT = Exhibit(sheet_of, show)
