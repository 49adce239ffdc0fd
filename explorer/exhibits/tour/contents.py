"""All steps of the tour, each with its result."""

from collections.abc import Iterable

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.tour import course
from explorer.exhibits.tour.choices import TourChoices
from explorer.exhibits.tour.course import CourseProgress

ICONS = {None: "circle", True: "check_circle", False: "cancel"}


def show(progress: CourseProgress, view: View) -> b.Blocks:
    """All steps by chapter; the entries of a sheet in its order."""
    yield from course.heading(view)
    if view.choices(TourChoices).sheet:
        yield lines(view, progress, progress.entries, "contents")
        whole = b.choose(sheet=(), sheet_title="", lesson="")
        yield b.Button("tour.whole", view.t("tour.whole"), whole)
    else:
        yield listed(view, progress, "tour")


def listed(view: View, progress: CourseProgress, page: str) -> b.Row:
    """The groups of a page side by side."""
    panes = []
    for group, inside in course.GROUPS.items():
        if group[0] == f"{page}.groups":
            entries = lines(view, progress, [entry.id for entry in inside], "contents")
            panes.append(b.Pane((b.Title(view.t(*group)), entries), 330))
    return b.Row(panes, align="top", gap="medium")


def lines(view: View, progress: CourseProgress, entries: Iterable[str], key: str) -> b.Pane:
    """A button for each of these entries, with its result."""
    buttons = []
    for entry in entries:
        name, icon = f"tour.{key}.{entry}", ICONS[progress.outcomes.get(entry)]
        title, opens = course.title_of(view, entry), course.ENTRIES[entry].opens
        buttons.append(b.Button(name, title, opens, icon, kind="quiet"))
    return b.Pane(buttons, gap=None)


EXHIBIT = Exhibit(course.progress, show, inputs=course.SOLVED)
