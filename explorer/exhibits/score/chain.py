"""Every number between q . k and the logit, side by side, and the open step of the calculation: a
picture below its sentence."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from explorer.analysis.score.steps import Cell, Effect, cell_of, effect, lengths
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.choices import ScreenChoices
from explorer.exhibits.picking import pick_aside, pick_one, pick_place, pick_token
from explorer.exhibits.saying import axis_title, in_a_row, quoted
from explorer.exhibits.score.choices import ASIDES, STAGES, ScoreChoices
from explorer.exhibits.score.place import goal_of, key_of, tokens
from explorer.figures import bars, score as figures
from explorer.library import LoadedModel
from explorer.numbers import fixed, percent, signed
from explorer.runs.trace import Trace
from models.attention import attend
from models.hooks import AttentionSite


@dataclass(frozen=True, eq=False)
class CellEffect:
    """A cell, and its effect on a token's logit; None in a model without logits."""

    cell: Cell
    goal: Effect | None


def compute(
    loaded: LoadedModel,
    trace: Trace,
    site: AttentionSite,
    head: int,
    row: int,
    key: int,
    goal: tuple[int, int] | None,
) -> CellEffect:
    """A cell and its effect; `goal` is a position and the token whose logit counts there."""
    cell = cell_of(loaded, trace, site, head, row, key)
    return CellEffect(cell, None if goal is None else effect(loaded, trace, cell, *goal))


def show(answer: CellEffect, view: View) -> b.Blocks:
    """The controls for the place, the numbers, the step with its controls, and the menu of
    asides."""
    yield b.SentenceLine()
    yield b.Changes("score.reset")
    yield b.Row((*pick_place(view, "score"), *_pick_tokens(view)))
    cell, goal = answer.cell, answer.goal
    exponential = f"{cell.exponentials[cell.key]:.3f}" if cell.is_allowed else ""
    shown = [
        (view.t("score.dot"), fixed(cell.dot)),
        (view.t("score.scaled", divisor=view.divisor), fixed(cell.scaled)),
        *_joined(view, cell),
        (view.t("score.exponential"), exponential or view.t("score.blocked")),
        (view.t("score.row_sum"), fixed(cell.row_sum)),
        (view.t("score.weight"), percent(cell.weight)),
        (view.t("score.written"), fixed(lengths([cell.written])[0])),
    ]
    if goal is not None:
        token = escape(goal.str_tokens[goal.chosen])
        change = signed(float(goal.change[goal.chosen]), 3)
        shown.append((view.t("score.logit", token=token), change))
    yield b.Metrics(shown)
    stage = view.choices(ScoreChoices).stage
    names = {name: f"{at} · {view.t('score.stages', name)}" for at, name in enumerate(STAGES, 1)}
    more = b.More(change=lambda name: b.choose(stage=STAGES.index(name)), quiet=True)
    step = pick_one(view, "score.stage", STAGES, STAGES[stage], said=names.__getitem__, **more)
    last, further = stage == len(STAGES) - 1, b.choose(stage=stage + 1)
    onward = b.Button("score.next", view.t("score.next"), further, "arrow_forward", disabled=last)
    yield b.Row((step, onward))
    yield from STEPS[STAGES[stage]](answer, view)
    aside = view.choices(ScoreChoices).aside
    yield from pick_aside(view, "score.aside", "score.further", ASIDES, aside)


def _joined(view: View, cell: Cell) -> tuple[tuple[str, str], ...]:
    """The contribution of positions to the score and the resulting score, or the capped score."""
    if cell.cap is not None:
        return ((view.t("score.capped", cap=fixed(cell.cap)), fixed(cell.score)),)
    if cell.bias is None:
        return ()
    bias = signed(cell.bias)
    return ((view.t("score.bias"), bias), (view.t("score.score"), fixed(cell.score)))


def _pick_tokens(view: View) -> Iterator[b.Pick]:
    """Query and key; in an encoder also the output token whose logit is measured."""
    trace, site = view.trace, view.site
    # Fix the default query and key, which could change with an edit.
    place: dict[str, Any] = {"layer": view.layer, "head": view.head, "row": view.row}

    def pick(key: str, tokens: Sequence[str], now: int, forgotten: tuple[str, ...]) -> b.Pick:
        field = {"score.query": "row", "score.key": "key", "score.token": "step"}[key]

        def change(chosen: int) -> b.Change:
            return b.choose(**place | dict.fromkeys(forgotten) | {field: chosen})

        return pick_token(view, key, key, tokens, now, change=change, width=140)

    yield pick("score.query", trace.query_tokens(site.name), view.row, ("goal", "key"))
    yield pick("score.key", trace.key_tokens(site.name), key_of(view), ())
    if site.query_stream == "src":
        n_real = int(trace.tgt_valid.sum())
        at = min(view.step, n_real - 1)
        yield pick("score.token", trace.predicted_str_tokens[:n_real], at, ("goal",))


def projection(answer: CellEffect, view: View) -> b.Blocks:
    """Step 1: the query and the key vector of this head, and how the model changes them after
    projection."""
    site, cell = view.site, answer.cell
    draw = partial(
        bars.grouped,
        [str(at) for at in range(len(cell.q))],
        (cell.q, cell.k),
        (view.t("score.q_of"), view.t("score.k_of")),
        title="",
        label_title=view.t("figures.score.dimension"),
        streams=(
            site.query_stream,
            site.key_stream if site.key_stream != site.query_stream else None,
        ),
        height=300,
    )
    values = {"d_model": len(cell.stream), "d_head": len(cell.q), **tokens(view)}
    words = [view.t("score.reading_projection", **values)]
    if changed := view.t("heads.and").join(_changes(view)):
        words.append(view.t("score.reading_changed", changed=changed))
    chart = b.Chart("score.vectors", draw, view.t("score.stages.projection"))
    yield _with_sentence(view, in_a_row(words), chart)
    yield from _small_print(view, answer, 1)


def _changes(view: View) -> Iterator[str]:
    """The model's changes of queries and keys after projection."""
    config = view.loaded.config
    if config.qk_norm:
        yield view.t("score.changed_normed")
    if view.site.kind == "self" and config.turns(view.site.layer):
        partly = config.n_turned < config.d_head
        key = "score.changed_partly" if partly else "score.changed_turned"
        yield view.t(key, n=config.n_turned)


def similarity(answer: CellEffect, view: View) -> b.Blocks:
    """Step 2: the dot product, dimension by dimension, and the largest product."""
    products = answer.cell.products
    most = int(np.abs(products).argmax())
    values = {"dot": fixed(answer.cell.dot), "dim": most, "most": fixed(float(products[most]))}
    words = view.t("score.reading_similarity", **values)
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
    terms = f"{fixed(cell.dot)} ÷ {view.divisor}"
    if cell.cap is not None:
        cap = fixed(cell.cap)
        terms = f"{cap} · tanh({terms} ÷ {cap})"
    if cell.bias is not None:
        bias = signed(cell.bias)
        terms += f" {bias[0]} {bias[1:]}"
    rank = int((seen > cell.scores[cell.key]).sum()) + 1
    values = {"sum": terms, "score": fixed(cell.score), "rank": rank, "count": len(seen)}
    return view.t("score.reading_scale", **values, **tokens(view))


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
    keys = ("score.stream", "score.all_heads", "score.this_head", "score.this_cell")
    names = [*map(view.t, keys)]
    axis = view.t("score.length")
    draw = partial(figures.signed, names, np.array(long), title=axis, words=words)
    title = view.t("score.lengths")
    left = (b.Note(title), b.Chart("score.lengths", draw, title))
    if goal is None:
        yield _with_sentence(view, view.t("score.reading_silent"), b.Columns((left, ()), (2, 3)))
    else:
        at = goal.chosen
        change = {
            "token": quoted(view, goal.str_tokens[at]),
            "before": fixed(float(goal.before[at])),
            "after": fixed(float(goal.after[at])),
            "change": signed(float(goal.change[at]), 3),
            "slope": signed(goal.slope, 3),
        }
        reading = view.t("score.reading_values", **change)
        both = b.Columns((left, _logits(view, goal)), (2, 3))
        yield _with_sentence(view, reading, both, _pick_goal(view, goal))
    yield from _small_print(view, answer, 2)


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
    ids, label = goal.tokens, goal.str_tokens.__getitem__
    more = b.More(change=lambda at: b.choose(goal=ids[at]), form="menu", width=260)
    return pick_one(view, "score.goal", range(len(ids)), goal.chosen, said=label, **more)


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
    chart = b.Chart(f"score.{name}", by_column, view.t("score.stages", name), clicks=clicks)
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
    cell, keys = answer.cell, view.trace.key_tokens(view.site.name)
    yield b.Numbers(
        lambda: {
            view.t("score.key"): [f"{index} {token}" for index, token in enumerate(keys)],
            view.t("score.score"): cell.scores.round(4).tolist(),
            view.t("score.allowed"): cell.allowed.tolist(),
            view.t("score.exponential"): cell.exponentials.round(4).tolist(),
            view.t("score.weight"): cell.weights.round(4).tolist(),
        }
    )


EXHIBIT = Exhibit(compute, show, inputs={"key": key_of, "goal": goal_of})
