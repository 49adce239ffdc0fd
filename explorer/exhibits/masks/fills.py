"""Fill values for blocked scores in every dtype: which leak, overflow or give NaN."""

from explorer.analysis.cases import Result
from explorer.analysis.cases.fills import FILL
from explorer.exhibits import Exhibit, View, block as b, picking, saying
from explorer.exhibits.cases.outcome import grids_of, print_of
from explorer.exhibits.masks.choices import MOST_LOWERED, WAYS, MasksChoices


def show(result: Result, view: View) -> b.Blocks:
    """How the fill is applied, a grid for rows with open keys and one for a row without."""
    choices = view.choices(MasksChoices)
    yield b.Row(picking.pick_place(view, "masks"))
    yield picking.pick_one(view, "masks.way", WAYS, choices.way)
    fills, display = b.Span(0, MOST_LOWERED, 1000), b.Display(420, view.t("masks.lowered_help"))
    yield picking.slider(view, "masks.lowered", fills, choices.lowered, display=display)
    query = saying.quoted_at(view, view.trace.query_tokens(view.site.name), view.row)
    yield from grids_of(view, FILL, result, query=query)
    if view.trace.mask(view.site.name)[view.head].all():
        yield b.Hint(view.t("cases.fill.all_open"))
    yield from print_of(view, FILL, result)


EXHIBIT = Exhibit(FILL.measure, show)
