"""Three layouts of the same weights: a matrix per projection, one per head, or one for all."""

from functools import partial

from explorer.analysis.cases import Result
from explorer.analysis.cases.backend import LAYOUTS
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.cases.outcome import print_of, table_of, words_of
from explorer.exhibits.score.place import is_open


def show(result: Result, view: View) -> b.Blocks:
    """Their sizes, and the differences of their results."""
    yield b.Prose(view.t("cases.layouts.lead"))
    yield from table_of(view, result)
    yield b.Sentence("aside", words_of(view, LAYOUTS.id, result))
    yield from print_of(view, LAYOUTS, result)


EXHIBIT = Exhibit(LAYOUTS.measure, show, open=partial(is_open, "layouts"))
