"""Several trainings in one chart, labelled by their differences; two of them side by side."""

from collections.abc import Sequence
from typing import Literal, get_args

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import in_a_row
from explorer.exhibits.training import room
from explorer.exhibits.training.choices import TrainingChoices
from explorer.exhibits.training.live import curves, heads, pick_role
from explorer.exhibits.training.setting import label_of, value_of
from explorer.figures.training import Curve
from explorer.numbers import percent
from explorer.training.runs import TrainingRun
from explorer.training.setup import Setup

Measure = Literal["loss", "forced", "free", "rows"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
MOST_SHOWN = 6
"""Most trainings in one chart: the number of colours."""


def show(start: TrainingRun, view: View) -> b.Blocks:
    """The trainings of the newest one's task; a hint while there are fewer than two."""
    begun = [run for run in view.choices(TrainingChoices).runs if run.scores]
    alike = [run for run in begun if run.setup.task == begun[-1].setup.task]
    if len(alike) < 2:
        yield b.Hero((b.Hint(view.t("training.compare.few")),))
    else:
        yield b.Hero((*_compared(view, alike[-MOST_SHOWN:]),))
    yield from room.small_print(view, room.filled(room.run_of(view), start))


def _compared(view: View, runs: Sequence[TrainingRun]) -> b.Blocks:
    measure, names = view.one_of("picture", MEASURES), names_of(view, runs)
    more = b.More(label="training.compare.measure", quiet=True)
    yield pick_one(view, "training.measure", MEASURES, measure, "picture", **more)
    yield b.Sentence("training-compared", verdict(view, runs[-2:], names[-2:], measure))
    yield _chart(view, runs, names, measure)
    yield _table(view, runs, names)
    yield from _beside(view, runs)


def _chart(
    view: View, runs: Sequence[TrainingRun], names: Sequence[str], measure: Measure
) -> b.Chart:
    lines = [
        Curve(name, [score.step for score in run.scores], _values(run, measure))
        for name, run in zip(names, runs, strict=True)
    ]
    y_title, last = view.t("training.measures", measure), max(run.setup.steps for run in runs)
    draw = curves(view, lines, y_title, last, percent=measure != "loss", height=340)
    return b.Chart("training.compared", draw, view.t("training.compare.alt"))


def _values(run: TrainingRun, measure: Measure) -> list[float]:
    return [getattr(score, measure) for score in run.scores]


def names_of(view: View, runs: Sequence[TrainingRun]) -> list[str]:
    """The name of each training: its number, and its differences from the others."""
    setups = [run.setup for run in runs]
    fields = [name for name in Setup.__dataclass_fields__ if name != "text"]
    differ = [name for name in fields if len({getattr(setup, name) for setup in setups}) > 1]
    names = []
    for run in runs:
        parts = [str(run.number)]
        for name in differ:
            value = value_of(view, name, getattr(run.setup, name))
            parts.append(f"{label_of(view, name)}: {value}")
        for step, name, on in run.faults:
            if on and step:
                fault = view.t("training.faults", name, "short")
                parts.append(view.t("training.compare.from_step", fault=fault, step=step))
        names.append(" · ".join(parts))
    return names


def number(value: float, measure: Measure) -> str:
    """Format a value of a measure."""
    return f"{value:.3f}" if measure == "loss" else percent(value)


def verdict(view: View, runs: Sequence[TrainingRun], names: Sequence[str], measure: Measure) -> str:
    """Two trainings at the last step at which both were measured."""
    one, other = ({score.step: score for score in run.scores} for run in runs)
    if not (common := one.keys() & other.keys()):
        return view.t("training.compare.nothing")
    step = max(common)
    ends = (number(getattr(scores[step], measure), measure) for scores in (one, other))
    sides = dict(zip(("first", "second", "one", "other"), (*names, *ends), strict=True))
    measured = view.t("training.measures", measure)
    words = view.t("training.compare.outcome", measure=measured, step=step, **sides)
    return in_a_row((words, view.t("training.compare.one_seed")))


def _table(view: View, runs: Sequence[TrainingRun], names: Sequence[str]) -> b.Table:
    rows = []
    for run, name in zip(runs, names, strict=True):
        last = run.scores[-1]
        measures = (number(getattr(last, measure), measure) for measure in MEASURES)
        rows.append((name, str(last.step), *measures))
    titles = [view.t("training.measures", measure) for measure in MEASURES]
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
