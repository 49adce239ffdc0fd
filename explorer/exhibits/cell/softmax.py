"""Step 4: the weights of this query over all keys."""

from functools import partial

from explorer.exhibits import View, block as b
from explorer.exhibits.cell import place
from explorer.exhibits.cell.place import CellEffect
from explorer.exhibits.saying import axis_title
from explorer.figures import bars
from explorer.numbers import fixed, percent


def show(found: CellEffect, view: View) -> b.Blocks:
    """The row of weights, and how this key's weight is computed."""
    cell, site = found.cell, view.site
    draw = partial(
        bars.row,
        view.trace.key_tokens(site.name),
        cell.weights,
        stream=site.key_stream,
        allowed=cell.allowed,
        title=axis_title(view, "key", site.key_stream),
        words=view.words("figures.bars"),
    )
    values = {
        "score": fixed(cell.score),
        "largest": fixed(cell.largest),
        "exponential": f"{cell.exponentials[cell.key]:.3f}",
        "row_sum": fixed(cell.row_sum),
        "weight": percent(cell.weight),
        **place.tokens(view),
    }
    words = view.t("cell.reading_softmax", **values)
    if not cell.is_allowed:
        words = view.t("cell.reading_blocked", **place.tokens(view))
    yield place.with_sentence(view, words, *place.keys_chart(view, "softmax", draw))
    yield from place.small_print(view, found)


EXHIBIT = place.step("softmax", show)
