"""The five steps of a cell, in the order of the calculation: each a picture below its sentence."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from explorer.analysis.score.steps import Cell, Effect, cell_of, effect, lengths
from explorer.exhibits import View, block as b
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import axis_title, quoted
from explorer.exhibits.score.choices import STAGES
from explorer.exhibits.score.place import tokens
from explorer.exhibits.shared import ScreenChoices
from explorer.figures import bars, score as figures
from explorer.numbers import fixed, percent, signed
from models.attention import attend


@dataclass(frozen=True, eq=False)
class CellEffect:
    """A cell, and its effect on a token's logit; None in a model without logits."""

    cell: Cell
    goal: Effect | None


def projection(answer: CellEffect, view: View) -> b.Blocks:
    """Step 1: the query and the key vector of this head, and how the model changes them after
    projection."""
    site, cell = view.site, answer.cell
    draw = partial(
        figures.vectors,
        np.stack([cell.q, cell.k]),
        (view.t("score.q_of"), view.t("score.k_of")),
        (site.query_stream, site.key_stream if site.key_stream != site.query_stream else None),
        words=view.words("figures.score"),
    )
    changed = view.t("heads.and").join(_changes(view))
    values = {"d_model": len(cell.stream), "d_head": len(cell.q), **tokens(view)}
    turned = {"changed": changed} if changed else {}
    key = "score.reading_projection_turned" if changed else "score.reading_projection"
    chart = b.Chart("score.vectors", draw, view.t("score.stages.projection"))
    yield _with_sentence(view, view.t(key, **values, **turned), chart)
    yield from _small_print(view, answer, 1)


def _changes(view: View) -> Iterator[str]:
    """The model's changes of queries and keys after projection."""
    config = view.loaded.config
    if config.qk_norm:
        yield view.t("score.changed_normed")
    if config.position_type.acts == "turns" and view.site.kind == "self":
        partly = config.n_turned < config.d_head
        yield view.t(
            "score.changed_partly" if partly else "score.changed_turned", n=config.n_turned
        )


def similarity(answer: CellEffect, view: View) -> b.Blocks:
    """Step 2: the dot product, dimension by dimension, and the largest product."""
    products = answer.cell.products
    most = int(np.abs(products).argmax())
    values = {"dot": fixed(answer.cell.dot), "dim": most, "most": fixed(float(products[most]))}
    words = view.t("score.reading_similarity", **tokens(view), **values)
    draw = partial(figures.products, products, words=view.words("figures.score"))
    chart = b.Chart("score.products", draw, view.t("score.stages.similarity"))
    yield _with_sentence(view, words, chart)
    yield from _small_print(view, answer)


def scale(answer: CellEffect, view: View) -> b.Blocks:
    """Step 3: the scores of this query with all keys, scaled and before the mask, and the rank of
    this key among them."""
    cell, site = answer.cell, view.site
    draw = partial(
        figures.signed,
        view.trace.key_tokens(site.name),
        cell.scores,
        title=view.t("score.score"),
        stream=site.key_stream,
        axis_title=axis_title(view, "key", site.key_stream),
        allowed=cell.allowed,
        marked=cell.key,
        words=view.words("figures.score"),
    )
    yield _with_sentence(view, _score(view, cell), *_keys_chart(view, "scale", draw))
    yield from _small_print(view, answer)


def _score(view: View, cell: Cell) -> str:
    if not cell.is_allowed:
        return view.t("score.reading_blocked", **tokens(view))
    seen = cell.scores[cell.allowed]
    key, more = "score.reading_scale", {}
    if cell.cap is not None:
        key = "score.reading_scale_capped"
        more = {"scaled": fixed(cell.scaled), "cap": fixed(cell.cap)}
    elif cell.bias is not None:
        key, more = "score.reading_scale_biased", {"bias": signed(cell.bias)}
    return view.t(
        key,
        **more,
        dot=fixed(cell.dot),
        divisor=view.divisor,
        score=fixed(cell.score),
        rank=int((seen > cell.scores[cell.key]).sum()) + 1,
        count=len(seen),
        blocked=len(cell.scores) - len(seen),
        **tokens(view),
    )


def softmax(answer: CellEffect, view: View) -> b.Blocks:
    """Step 4: the weights of this query over all keys, and how this key's weight is computed."""
    cell, site = answer.cell, view.site
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
        **tokens(view),
    }
    words = view.t("score.reading_softmax", **values)
    if not cell.is_allowed:
        words = view.t("score.reading_blocked", **tokens(view))
    yield _with_sentence(view, words, *_keys_chart(view, "softmax", draw))
    yield from _small_print(view, answer)


def values(answer: CellEffect, view: View) -> b.Blocks:
    """Step 5: the lengths of what is added to the residual stream, and the logits with the cell
    minus those without it."""
    cell, goal, words = answer.cell, answer.goal, view.words("figures.score")
    long = lengths([cell.stream, cell.site_written, cell.head_written, cell.written])
    names = [view.t(f"score.{name}") for name in ("stream", "all_heads", "this_head", "this_cell")]
    axis = view.t("score.length")
    draw = partial(figures.signed, names, np.array(long), title=axis, words=words)
    title = view.t("score.lengths")
    left = (b.Note(title), b.Chart("score.lengths", draw, title))
    config = view.loaded.config
    is_normed = config.norm_placement == "sublayer" or config.out_norms
    moved = {
        "weight": percent(cell.weight),
        "written": fixed(long[3]),
        "stream": fixed(long[0]),
        "added": view.t("score.added_normed" if is_normed else "score.added"),
        **tokens(view),
    }
    if goal is None:
        silent = view.t("score.reading_values_silent", **moved)
        yield _with_sentence(view, silent, b.Columns((left, ()), (2, 3)))
    else:
        reading = view.t("score.reading_values", **_change(view, goal), **moved)
        both = b.Columns((left, _logits(view, goal)), (2, 3))
        yield _with_sentence(view, reading, both, _pick_goal(view, goal))
    yield from _small_print(view, answer, 2)


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
        figures.signed,
        goal.str_tokens,
        goal.change,
        title=view.t("score.gain"),
        stream="tgt",
        marked=goal.chosen,
        words=view.words("figures.score"),
    )
    title = view.t("score.logits")
    return b.Note(title), b.Chart("score.logits", draw, title)


def _pick_goal(view: View, goal: Effect) -> b.Pick:
    ids, said = goal.tokens, goal.str_tokens.__getitem__
    more = b.More(change=lambda at: b.choose(goal=ids[at]), menu=True, width=260)
    return pick_one(view, "score.goal", range(len(ids)), goal.chosen, said=said, **more)


STEPS: Mapping[str, Callable[[CellEffect, View], b.Blocks]] = dict(
    zip(STAGES, (projection, similarity, scale, softmax, values), strict=True)
)
"""Each of STAGES."""


def _with_sentence(view: View, words: str, *shown: b.Block) -> b.Hero:
    """A picture below the sentence about it; in presentation mode above it."""
    sentence = b.Sentence("score", words)
    first = view.choices(ScreenChoices).beamer
    return b.Hero((*shown, sentence) if first else (sentence, *shown))


def _keys_chart(view: View, name: str, draw: Callable[..., b.Figure]) -> tuple[b.Block, ...]:
    """A chart with a bar for each key: a click on its column opens that key's cell."""

    def by_column(*, dark: bool) -> b.Figure:
        figure = draw(dark=dark)  # a score near 0 has no bar to click
        return {**figure, "layout": {**figure["layout"], "hovermode": "x"}}

    layer, head, row = view.layer, view.head, view.row
    keys = range(len(view.trace.key_tokens(view.site.name)))
    clicks = [b.choose(layer=layer, head=head, row=row, key=key) for key in keys]
    chart = b.Chart(f"score.{name}", by_column, view.t(f"score.stages.{name}"), clicks=clicks)
    return chart, b.Note(view.t("score.click"))


def _small_print(view: View, answer: CellEffect, first: int = 0) -> b.Blocks:
    """Formulas, code and numbers of all steps; `first` is the code to begin with: how the layer
    attends, the layer, or the cell."""
    score = view.scaled(r"q_i\cdot k_j") + ("" if answer.cell.bias is None else r" + b_{ij}")

    def bias(name: str) -> str:
        return f" + b_{name}" if view.loaded.config.bias else ""

    lines = (
        r"q_i = x_i W_Q" + bias("Q") + r", \qquad k_j = x_j W_K" + bias("K") + r", \qquad "
        r"v_j = x_j W_V" + bias("V"),
        rf"s_{{ij}} = {score}, \qquad "
        r"p_{ij} = \frac{e^{s_{ij}}}{\sum_{k\;\text{allowed}} e^{s_{ik}}}, \qquad "
        r"\text{output}_i = \sum_{\text{heads}} \sum_j p_{ij}\,v_j W_O" + bias("O"),
    )
    yield b.Formula(lines, view.t("score.formula"))
    code = [attend, view.loaded.model.get_submodule(view.site.name), cell_of]
    yield b.Code((code.pop(first), *code, *([] if answer.goal is None else [effect])))
    yield b.Numbers(lambda: _numbers(view, answer.cell))


def _numbers(view: View, cell: Cell) -> dict[str, list[object]]:
    keys = view.trace.key_tokens(cell.site.name)
    return {
        view.t("score.key"): [f"{index} {token}" for index, token in enumerate(keys)],
        view.t("score.score"): cell.scores.round(4).tolist(),
        view.t("score.allowed"): cell.allowed.tolist(),
        view.t("score.exponential"): cell.exponentials.round(4).tolist(),
        view.t("score.weight"): cell.weights.round(4).tolist(),
    }
