"""Several trainings in one chart, labelled by their differences; two of them side by side."""

from collections.abc import Sequence
from typing import get_args

import numpy as np

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import in_a_row
from explorer.exhibits.training import room
from explorer.exhibits.training.choices import TrainingChoices
from explorer.exhibits.training.live import curves, heads, pick_role
from explorer.exhibits.training.setting import label_of, value_of
from explorer.figures.training import Curve
from explorer.numbers import percent
from explorer.training.comparing import Arm, Band, Difference, Measure, arms, band, difference
from explorer.training.runs import TrainingRun

MEASURES: tuple[Measure, ...] = get_args(Measure)
MOST_SHOWN = 6
"""Most arms in one chart: the number of colours."""


def show(start: TrainingRun, view: View) -> b.Blocks:
    """The trainings of the newest one's task; a hint while there are fewer than two."""
    begun = [run for run in view.choices(TrainingChoices).runs if run.scores]
    if len(begun) < 2:
        yield b.Hero((b.Hint(view.t("training.compare.few")),))
    else:
        newest = begun[-1].setup.task
        yield b.Hero((*_compared(view, [run for run in begun if run.setup.task == newest]),))
    yield from room.small_print(view, room.filled(room.run_of(view), start))


def _compared(view: View, begun: Sequence[TrainingRun]) -> b.Blocks:
    groups, measure = arms(begun)[-MOST_SHOWN:], view.one_of("picture", MEASURES)
    bands = [band(arm, measure) for arm in groups]
    names = [arm_name(view, arm, at) for at, arm in enumerate(groups)]
    more = b.More(said="training.measures.", label="training.compare.measure", quiet=True)
    yield pick_one(view, "training.measure", MEASURES, measure, "picture", **more)
    yield b.Sentence("training-compared", _reading(view, names, bands, measure))
    yield chart(view, names, bands, measure, max(run.setup.steps for run in begun))
    yield _table(view, groups, names)
    yield from _beside(view, begun)


def _reading(view: View, names: Sequence[str], bands: Sequence[Band], measure: Measure) -> str:
    """The last two arms compared, or the range of the only one."""
    last = bands[-1]
    if len(bands) > 1:
        return verdict(view, difference(bands[-2], last, measure), names[-2:], measure)
    if last.n_seeds == 1:
        return view.t("training.compare.alone")
    low, high = (number(float(end[-1]), measure) for end in (last.low, last.high))
    step = int(last.steps[-1])
    return view.t("training.compare.range", n=last.n_seeds, step=step, low=low, high=high)


def chart(
    view: View, names: Sequence[str], bands: Sequence[Band], measure: Measure, last: int
) -> b.Chart:
    """One curve per arm, with the band of its seeds."""
    lines = [
        Curve(
            name,
            spread.steps,
            spread.mean,
            *((spread.low, spread.high) if spread.n_seeds > 1 else ()),
        )
        for name, spread in zip(names, bands, strict=True)
        if len(spread.steps)
    ]
    y_title = view.t(f"training.measures.{measure}")
    draw = curves(view, lines, y_title, last, percent=measure != "loss", height=340)
    return b.Chart("training.compared", draw, view.t("training.compare.alt"))


def arm_name(view: View, arm: Arm, at: int) -> str:
    """The name of an arm: its differences from the others."""
    parts = [
        f"{label_of(view, name)}: {value_of(view, name, value)}" for name, value in arm.differs
    ]
    parts += [
        view.t("training.compare.from_step", fault=view.t(f"training.faults.{name}.short"), step=n)
        for n, name in arm.faults
    ]
    seeds = view.t("training.compare.seeds", n=len(arm.runs)) if len(arm.runs) > 1 else ""
    return " · ".join(filter(None, (f"{at + 1}", *parts, seeds)))


def number(value: float, measure: Measure) -> str:
    """Format a value of a measure."""
    return f"{value:.3f}" if measure == "loss" else percent(value)


def verdict(view: View, gap: Difference, names: Sequence[str], measure: Measure) -> str:
    """The comparison of two arms, and whether seeds alone could explain it."""
    if gap.outcome == "nothing":
        return view.t("training.compare.nothing")
    ranges = [
        number(mean, measure)
        if low == high
        else f"{number(mean, measure)} ({number(low, measure)} – {number(high, measure)})"
        for low, mean, high in gap.ranges
    ]
    sides = dict(zip(("first", "second", "one", "other"), (*names, *ranges), strict=True))
    measured = view.t(f"training.measures.{measure}")
    words = view.t("training.compare.outcome", measure=measured, step=gap.step, **sides)
    better = {"better": sides.get(gap.outcome), "chance": percent(gap.chance)}
    key = "better" if better["better"] else gap.outcome
    return in_a_row((words, view.t(f"training.compare.{key}", **better)))


def _table(view: View, groups: Sequence[Arm], names: Sequence[str]) -> b.Table:
    rows = []
    for arm, name in zip(groups, names, strict=True):
        last = [run.scores[-1] for run in arm.runs]
        means = [np.mean([getattr(score, measure) for score in last]) for measure in MEASURES]
        step = str(max(score.step for score in last))
        rows.append((name, step, *map(number, map(float, means), MEASURES)))
    titles = [view.t(f"training.measures.{measure}") for measure in MEASURES]
    return b.Table(("", view.t("training.curve.step"), *titles), rows)


def _beside(view: View, runs: Sequence[TrainingRun]) -> b.Blocks:
    """The heads of two trainings at the same step."""
    with_frames = [run for run in runs if len(run.frames) > 1]
    if len(with_frames) < 2:
        return
    both = with_frames[-2:]
    one, other = ({frame.step: frame for frame in run.frames} for run in both)
    steps = sorted(one.keys() & other.keys())
    if not steps:
        return
    chosen = view.choices(TrainingChoices).both
    step = chosen if chosen in steps else steps[-1]
    yield b.Title(view.t("training.compare.beside"))
    if len(steps) > 1:
        words = view.t("training.moment")
        yield b.Slider("training.both", words, steps, step, lambda at: b.choose(both=at))
    pick, role = pick_role(view, *both)
    yield pick
    sides = zip(both, (one, other), strict=True)
    yield b.Columns([heads(view, run, at[step], role, True) for run, at in sides], gap="medium")


EXHIBIT = Exhibit(room.untrained, show, inputs=room.START, open=room.is_shown)
