"""Causes: why a head attends where it does, what it writes, and intermediate predictions."""

from explorer.exhibits.view import View
from explorer.pages.causes.choices import CausesChoices
from explorer.pages.causes.lens import through_the_lens
from explorer.pages.causes.telling import telling
from explorer.pages.causes.why import why_there
from explorer.pages.causes.writes import what_it_writes
from explorer.ui import controls
from explorer.ui.current import latest
from explorer.ui.page import fragment
from explorer.ui.parts import pick_part
from explorer.ui.share import shared
from explorer.ui.stage import stage

DRAW = {"why": why_there, "writes": what_it_writes, "lens": through_the_lens}


def render(view: View) -> None:
    """Draw the page."""
    controls.opening(view, "causes")
    _part(view)


@fragment
def _part(view: View) -> None:
    view = telling(latest(view))
    with shared(view, "causes"), stage():
        part = pick_part(view, "causes", CausesChoices.parts)
        controls.sentence_line(view)
        controls.edits_bar(view, "causes.reset")
        DRAW[part](view)
