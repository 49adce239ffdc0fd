"""Every number between q . k and the logit, side by side, and the open step with its picture."""

from collections.abc import Iterator, Sequence
from typing import Any

from explorer.analysis.score.steps import Cell, cell_of, effect, lengths
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.escape import escape
from explorer.exhibits.picking import pick_aside, pick_one, pick_place
from explorer.exhibits.score.choices import ASIDES, STAGES, ScoreChoices
from explorer.exhibits.score.place import goal_of, key_of
from explorer.exhibits.score.steps import STEPS, CellEffect
from explorer.library import LoadedModel
from explorer.numbers import fixed, percent, signed
from explorer.runs.trace import Trace
from models.hooks import AttentionSite


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
    names = {name: f"{at} · {view.t(f'score.stages.{name}')}" for at, name in enumerate(STAGES, 1)}
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
    yield _pick(view, "query", trace.query_tokens(site.name), view.row, "row")
    yield _pick(view, "key", trace.key_tokens(site.name), key_of(view), "key")
    if site.query_stream == "src":
        n_real = int(trace.tgt_valid.sum())
        at = min(view.step, n_real - 1)
        yield _pick(view, "token", trace.predicted_str_tokens[:n_real], at, "step", 190)


def _pick(
    view: View, name: str, tokens: Sequence[str], now: int, field: str, width: int = 150
) -> b.Pick:
    def change(chosen: int) -> b.Change:
        # Fix the default query and key, which could change with an edit.
        place: dict[str, Any] = {"layer": view.layer, "head": view.head, "row": view.row}
        forgotten = {"key": (), "step": ("goal",), "row": ("goal", "key")}[field]
        return b.choose(**place | dict.fromkeys(forgotten) | {field: chosen})

    names = [f"{at}  {token}" for at, token in enumerate(tokens)]
    more = b.More(said=names.__getitem__, change=change, menu=True, width=width)
    return pick_one(view, f"score.{name}", range(len(tokens)), now, **more)


EXHIBIT = Exhibit(compute, show, inputs={"key": key_of, "goal": goal_of})
