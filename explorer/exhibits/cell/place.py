"""The open cell with its numbers, and what its steps and asides share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from explorer.analysis.cell.steps import Cell, Effect, cell_of, chosen_token, effect
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.cell.choices import STAGES, CellChoices
from explorer.exhibits.saying import quoted_at, site_axes
from explorer.exhibits.shared import ScreenChoices
from explorer.figures import cell as figures
from explorer.figures.heatmap import weights
from explorer.library import LoadedModel
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


def key_of(view: View) -> int:
    """The chosen key, else the key with the highest weight."""
    if view.state.key is not None:
        return min(view.state.key, len(view.trace.key_tokens(view.site.name)) - 1)
    return int(view.trace.pattern(view.site.name)[view.head, view.row].argmax())


def goal_of(view: View) -> tuple[int, int] | None:
    """The position of the query (in an encoder, the chosen one) and the chosen token, by default
    the predicted one; None for a model without logits."""
    trace, chosen = view.trace, view.choices(CellChoices).goal
    if not trace.config.lm_head:
        return None
    place = view.step if view.site.query_stream == "src" else view.row
    position = min(place, int(trace.tgt_valid.sum()) - 1)
    if chosen is None or chosen >= trace.config.vocab_size:
        chosen = chosen_token(trace, position)
    return position, chosen


def step(name: str, show: Callable[[CellEffect, View], b.Blocks]) -> Exhibit[CellEffect]:
    """One of STAGES, drawn if it is open."""
    inputs = {"key": key_of, "goal": goal_of}
    return Exhibit(compute, show, inputs=inputs, open=partial(is_open, name))


def is_open(name: str, view: View) -> bool:
    """Whether the user has opened this step or aside."""
    choices = view.choices(CellChoices)
    return name in (STAGES[choices.stage], choices.aside)


def with_sentence(view: View, words: str, *shown: b.Block) -> b.Hero:
    """A picture below the sentence about it; in presentation mode above it."""
    sentence = b.Sentence("cell", words)
    first = view.choices(ScreenChoices).beamer
    return b.Hero((*shown, sentence) if first else (sentence, *shown))


def tokens(view: View) -> dict[str, str]:
    """The query and the key in quotation marks."""
    site = view.site.name
    return {
        "query": quoted_at(view, view.trace.query_tokens(site), view.row),
        "key": quoted_at(view, view.trace.key_tokens(site), key_of(view)),
    }


def keys_chart(view: View, name: str, draw: Callable[..., b.Figure]) -> tuple[b.Block, ...]:
    """A chart with a bar for each key: a click on its column opens that key's cell."""

    def by_column(*, dark: bool) -> b.Figure:
        figure = draw(dark=dark)  # a score near 0 has no bar to click
        return {**figure, "layout": {**figure["layout"], "hovermode": "x"}}

    layer, head, row = view.layer, view.head, view.row
    keys = range(len(view.trace.key_tokens(view.site.name)))
    clicks = [b.choose(layer=layer, head=head, row=row, key=key) for key in keys]
    chart = b.Chart(f"cell.{name}", by_column, view.t(f"cell.stages.{name}"), clicks=clicks)
    return chart, b.Note(view.t("cell.click"))


def small_print(view: View, found: CellEffect, first: int = 0) -> b.Blocks:
    """Formulas, code and numbers of all steps; `first` is the code to begin with: how the layer
    attends, the layer, or the cell."""
    score = view.scaled(r"q_i\cdot k_j") + ("" if found.cell.bias is None else r" + b_{ij}")

    def bias(name: str) -> str:
        return f" + b_{name}" if view.loaded.config.bias else ""

    lines = (
        r"q_i = x_i W_Q" + bias("Q") + r", \qquad k_j = x_j W_K" + bias("K") + r", \qquad "
        r"v_j = x_j W_V" + bias("V"),
        rf"s_{{ij}} = {score}, \qquad "
        r"p_{ij} = \frac{e^{s_{ij}}}{\sum_{k\;\text{allowed}} e^{s_{ik}}}, \qquad "
        r"\text{output}_i = \sum_{\text{heads}} \sum_j p_{ij}\,v_j W_O" + bias("O"),
    )
    yield b.Formula(lines, view.t("cell.formula"))
    code = [attend, view.loaded.model.get_submodule(view.site.name), cell_of]
    yield b.Code((code.pop(first), *code, *([] if found.goal is None else [effect])))
    yield b.Numbers(lambda: _numbers(view, found.cell))


def _numbers(view: View, cell: Cell) -> dict[str, list[object]]:
    keys = view.trace.key_tokens(cell.site.name)
    return {
        view.t("cell.key"): [f"{index} {token}" for index, token in enumerate(keys)],
        view.t("cell.score"): cell.scores.round(4).tolist(),
        view.t("cell.allowed"): cell.allowed.tolist(),
        view.t("cell.exponential"): cell.exponentials.round(4).tolist(),
        view.t("cell.weight"): cell.weights.round(4).tolist(),
    }


def matrix(
    view: View, values: np.ndarray, title: str, key: str, limit: float | None = None
) -> tuple[b.Block, ...]:
    """Scores of all queries and keys, with this cell marked, below their title."""
    site = view.site
    draw = partial(
        figures.matrix,
        values,
        view.trace.query_tokens(site.name),
        view.trace.key_tokens(site.name),
        title=view.t("cell.score"),
        streams=(site.query_stream, site.key_stream),
        limit=limit,
        marked=(view.row, key_of(view)),
        words=view.words("figures.cell"),
    )
    return b.Note(title), b.Chart(key, draw, title)


def patterns(view: View, name: str, shown: Sequence[tuple[str, np.ndarray]]) -> b.Heatmaps:
    """Patterns [query, key] under this head's mask side by side, each with its title."""
    site = view.site.name
    mask, words = view.trace.mask(site)[view.head], view.words("figures.heatmap")
    more = {"selected": view.row, "words": words, **site_axes(view)}
    return b.Heatmaps(
        f"cell.{name}", [(title, weights(each, mask, **more)) for title, each in shown]
    )


def pick_dropout(view: View, key: str, width: int) -> b.Slider:
    """The share of zeroed weights in percent, 0 to 90."""
    label, now = view.t("cell.drop"), view.choices(CellChoices).drop
    return b.Slider(
        key, label, 0, 90, now, lambda drop: b.choose(drop=drop), 5, width=width, form="%d %%"
    )


def drop_of(view: View) -> float:
    """The chosen dropout, 0 to 0.9."""
    return view.choices(CellChoices).drop / 100
