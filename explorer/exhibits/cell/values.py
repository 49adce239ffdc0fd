"""Step 5: what this cell adds to the residual stream, and its effect on the next token."""

from functools import partial

import numpy as np

from explorer.analysis.cell.steps import Effect, lengths
from explorer.exhibits import View, block as b
from explorer.exhibits.cell import place
from explorer.exhibits.cell.place import CellEffect
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import quoted
from explorer.figures.cell import signed as bars
from explorer.numbers import fixed, percent, signed


def show(found: CellEffect, view: View) -> b.Blocks:
    """The lengths of what is added, and the logits with the cell minus those without it."""
    cell, goal, words = found.cell, found.goal, view.words("figures.cell")
    long = lengths([cell.stream, cell.site_written, cell.head_written, cell.written])
    names = [view.t(f"cell.{name}") for name in ("stream", "all_heads", "this_head", "this_cell")]
    draw = partial(bars, names, np.array(long), title=view.t("cell.length"), words=words)
    title = view.t("cell.lengths")
    left = (b.Note(title), b.Chart("cell.lengths", draw, title))
    config = view.loaded.config
    is_normed = config.norm_placement == "sublayer" or config.out_norms
    moved = {
        "weight": percent(cell.weight),
        "written": fixed(long[3]),
        "stream": fixed(long[0]),
        "added": view.t("cell.added_normed" if is_normed else "cell.added"),
        **place.tokens(view),
    }
    if goal is None:
        said = view.t("cell.reading_values_silent", **moved)
        yield place.with_sentence(view, said, b.Columns((left, ()), (2, 3)))
    else:
        said = view.t("cell.reading_values", **_change(view, goal), **moved)
        both = b.Columns((left, _logits(view, goal)), (2, 3))
        yield place.with_sentence(view, said, both, _pick_goal(view, goal))
    yield from place.small_print(view, found, 2)


def _change(view: View, goal: Effect) -> dict[str, str]:
    return {
        "token": quoted(view, goal.str_tokens[goal.chosen]),
        "before": fixed(float(goal.before[goal.chosen])),
        "after": fixed(float(goal.after[goal.chosen])),
        "change": signed(float(goal.change[goal.chosen]), 3),
        "slope": signed(goal.slope, 3),
    }


def _logits(view: View, goal: Effect) -> tuple[b.Block, ...]:
    draw = partial(
        bars,
        goal.str_tokens,
        goal.change,
        title=view.t("cell.gain"),
        stream="tgt",
        marked=goal.chosen,
        words=view.words("figures.cell"),
    )
    title = view.t("cell.logits")
    return b.Note(title), b.Chart("cell.logits", draw, title)


def _pick_goal(view: View, goal: Effect) -> b.Pick:
    ids, said = goal.tokens, goal.str_tokens.__getitem__
    more = b.More(change=lambda at: b.choose(goal=ids[at]), menu=True, width=260)
    return pick_one(view, "cell.goal", range(len(ids)), goal.chosen, said=said, **more)


EXHIBIT = place.step("values", show)
