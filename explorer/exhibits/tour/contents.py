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
    chapters = (
        b.Pane(
            (
                b.Title(view.t(f"tour.groups.{name}")),
                lines(view, [step.id for step in steps], "contents"),
            ),
            330,
        )
        for name, steps in CHAPTERS.items()
    )
    yield b.Row(tuple(chapters), align="top", gap="medium")


def lines(view: View, steps: Sequence[str], key: str) -> b.Pane:
    """A button for each of these steps, with its result."""
    known = answers_of(view)

    def icon(step: str) -> str:
        return OPEN if step not in known else RIGHT if known[step].right else WRONG

    buttons = (
        b.Button(
            f"tour.{key}.{step}", title_of(view, step), open_step(step), icon(step), quiet=True
        )
        for step in steps
    )
    return b.Pane(tuple(buttons), gap=None)


EXHIBIT = Exhibit(None, show)
