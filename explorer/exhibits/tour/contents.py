"""All steps of the tour, each with its result."""

from collections.abc import Sequence

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.tour.choices import TourChoices
from explorer.exhibits.tour.course import CHAPTERS, answers_of, heading, steps_of_view, title_of
from explorer.exhibits.tour.steps import OPEN, RIGHT, WRONG, open_step


def show(answer: None, view: View) -> b.Blocks:
    """All steps by chapter; the steps of a sheet in its order."""
    yield from heading(view)
    if view.choices(TourChoices).sheet:
        yield lines(view, steps_of_view(view), "contents")
        whole = b.choose(sheet=(), sheet_title="", lesson="")
        yield b.Button("tour.whole", view.t("tour.whole"), whole)
        return
    chapters = []
    for name, steps in CHAPTERS.items():
        inside = lines(view, [step.id for step in steps], "contents")
        chapters.append(b.Pane((b.Title(view.t(f"tour.groups.{name}")), inside), 330))
    yield b.Row(chapters, align="top", gap="medium")


def lines(view: View, steps: Sequence[str], key: str) -> b.Pane:
    """A button for each of these steps, with its result."""
    known, buttons = answers_of(view), []
    for step in steps:
        icon = OPEN if step not in known else RIGHT if known[step].right else WRONG
        name, opens = f"tour.{key}.{step}", open_step(step)
        buttons.append(b.Button(name, title_of(view, step), opens, icon, quiet=True))
    return b.Pane(buttons, gap=None)


EXHIBIT = Exhibit(None, show)
