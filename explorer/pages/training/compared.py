"""Several trainings in one chart, labelled by their differences; two of them side by side."""

from collections.abc import Sequence
from typing import get_args

import numpy as np
import streamlit as st

from explorer.exhibits.view import View
from explorer.figures.training.curves import Curve, over_steps
from explorer.numbers import percent
from explorer.pages.training import live
from explorer.pages.training.setting import before, label_of, value_of
from explorer.training.comparing import Arm, Band, Difference, Measure, arms, band, difference
from explorer.training.rooms import Room
from explorer.training.runs import TrainingRun
from explorer.ui import controls
from explorer.ui.parts import pick_one
from explorer.ui.tables import table

MEASURES: tuple[Measure, ...] = get_args(Measure)[:4]
MOST_SHOWN = 6
"""Most arms in one chart: the number of colours."""


def draw_comparison(view: View, room: Room | None) -> None:
    """Draw this part of the page."""
    begun = [run for run in (room.runs if room else ()) if run.scores]
    if len(begun) < 2:
        st.info(view.t("training.compare.few"), icon=":material/lightbulb:")
        return
    tasks = list(dict.fromkeys(run.setup.task for run in reversed(begun)))
    begun = [run for run in begun if run.setup.task == tasks[0]]
    found = arms(begun)[-MOST_SHOWN:]
    measure = pick_one(
        view,
        "picture",
        view.t("training.compare.measure"),
        MEASURES,
        "training.measure",
        lambda name: view.t(f"training.measures.{name}"),
        label_visibility="collapsed",
    )
    bands = [band(arm, measure) for arm in found]
    names = [arm_name(view, arm, at) for at, arm in enumerate(found)]
    with controls.reading_first():
        words = view.t("training.compare.alone")
        if len(found) > 1:
            words = verdict(view, difference(bands[-2], bands[-1], measure), names[-2:], measure)
        elif bands[0].n_seeds > 1:
            last = bands[0]
            words = view.t(
                "training.compare.band",
                n=last.n_seeds,
                step=int(last.steps[-1]),
                low=number(float(last.low[-1]), measure),
                high=number(float(last.high[-1]), measure),
            )
        controls.reading("training-compared", words)
        chart(view, names, bands, measure, max(run.setup.steps for run in begun))
    _table(view, found, names)
    _beside(view, begun)


def chart(
    view: View, names: Sequence[str], bands: Sequence[Band], measure: Measure, last: int
) -> None:
    """One curve per arm, with the band of its seeds."""
    curves = [
        Curve(
            name,
            each.steps,
            each.mean,
            each.low if each.n_seeds > 1 else None,
            each.high if each.n_seeds > 1 else None,
        )
        for name, each in zip(names, bands, strict=True)
        if len(each.steps)
    ]
    figure = over_steps(
        curves,
        x_title=view.t("training.curve.step"),
        y_title=view.t(f"training.measures.{measure}"),
        last=last,
        percent=measure != "loss",
        height=340,
        dark=view.dark,
    )
    controls.chart(figure, "training.compared", alt=view.t("training.compare.alt"))


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


def verdict(view: View, found: Difference, names: Sequence[str], measure: Measure) -> str:
    """The comparison of two arms, and whether seeds alone could explain it."""
    if found.outcome == "nothing":
        return view.t("training.compare.nothing")
    ranges = [
        number(mean, measure)
        if low == high
        else f"{number(mean, measure)} ({number(low, measure)} – {number(high, measure)})"
        for low, mean, high in found.ranges
    ]
    return view.t(
        f"training.compare.outcome_{found.outcome}",
        measure=view.t(f"training.measures.{measure}"),
        first=names[0],
        second=names[1],
        one=ranges[0],
        other=ranges[1],
        step=found.step,
    )


def _table(view: View, found: Sequence[Arm], names: Sequence[str]) -> None:
    rows = []
    for arm, name in zip(found, names, strict=True):
        last = [run.scores[-1] for run in arm.runs]
        rows.append(
            (
                name,
                str(max(score.step for score in last)),
                f"{np.mean([score.loss for score in last]):.3f}",
                *(
                    percent(float(np.mean([getattr(score, measure) for score in last])))
                    for measure in MEASURES[1:]
                ),
            )
        )
    heads = [view.t(f"training.measures.{measure}") for measure in MEASURES]
    table(("", view.t("training.curve.step"), *heads), rows)


def _beside(view: View, runs: Sequence[TrainingRun]) -> None:
    """The heads of two trainings at the same step."""
    with_frames = [run for run in runs if len(run.frames) > 1]
    if len(with_frames) < 2:
        return
    one, other = with_frames[-2:]
    steps = sorted({f.step for f in one.frames} & {f.step for f in other.frames})
    if not steps:
        return
    st.markdown(f"**{view.t('training.compare.beside')}**")
    st.session_state.setdefault("training.both", steps[-1])
    if st.session_state["training.both"] not in steps:
        st.session_state["training.both"] = steps[-1]
    step = steps[0]
    if len(steps) > 1:
        step = st.select_slider(view.t("training.moment"), steps, key="training.both")
    role = live.pick_role(view, before(one.setup), before(other.setup))
    for column, run in zip(st.columns(2, gap="medium"), (one, other), strict=True):
        frame = next(f for f in run.frames if f.step == step)
        with column:
            live.heads(view, before(run.setup), frame, role, run)
