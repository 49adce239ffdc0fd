"""Step 3: the scores of this query with all keys, scaled and before the mask."""

from functools import partial

from explorer.analysis.cell.steps import Cell
from explorer.exhibits import View, block as b
from explorer.exhibits.cell import place
from explorer.exhibits.cell.place import CellEffect
from explorer.exhibits.saying import axis_title
from explorer.figures.cell import signed as bars
from explorer.numbers import fixed, signed


def show(found: CellEffect, view: View) -> b.Blocks:
    """The row of scores, and the rank of this key in it."""
    cell, site = found.cell, view.site
    draw = partial(
        bars,
        view.trace.key_tokens(site.name),
        cell.scores,
        title=view.t("cell.score"),
        stream=site.key_stream,
        axis_title=axis_title(view, "key", site.key_stream),
        allowed=cell.allowed,
        marked=cell.key,
        words=view.words("figures.cell"),
    )
    yield place.with_sentence(view, _reading(view, cell), *place.keys_chart(view, "scale", draw))
    yield from place.small_print(view, found)


def _reading(view: View, cell: Cell) -> str:
    if not cell.is_allowed:
        return view.t("cell.reading_blocked", **place.tokens(view))
    seen = cell.scores[cell.allowed]
    key, more = "cell.reading_scale", {}
    if cell.cap is not None:
        key = "cell.reading_scale_capped"
        more = {"scaled": fixed(cell.scaled), "cap": fixed(cell.cap)}
    elif cell.bias is not None:
        key, more = "cell.reading_scale_biased", {"bias": signed(cell.bias)}
    return view.t(
        key,
        **more,
        dot=fixed(cell.dot),
        divisor=view.divisor,
        score=fixed(cell.score),
        rank=int((seen > cell.scores[cell.key]).sum()) + 1,
        count=len(seen),
        blocked=len(cell.scores) - len(seen),
        **place.tokens(view),
    )


EXHIBIT = place.step("scale", show)
