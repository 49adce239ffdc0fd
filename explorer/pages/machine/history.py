"""Training history of the loaded model: curves from the log in its card."""

import numpy as np
import streamlit as st

from explorer.analysis.card.words import card_words
from explorer.analysis.machine.history import Log, Moments, logs, rates
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.numbers import fixed
from explorer.pages.machine import cached
from explorer.ui import controls
from models.training.settings import learning_rate


def history(view: View) -> None:
    """Draw the aside."""
    found = logs(card_words(view.loaded.folder, "en").markdown)
    kept = cached.moments(view.run)
    if found:
        _losses(view, found)
        _rates(view, found)
    else:
        st.info(view.t("history.no_log"), icon=":material/lightbulb:")
    if kept is not None:
        _moments(view, kept)
    if found:
        controls.small_print(
            view,
            "history",
            explained="history.formula",
            formula=(
                r"\eta_t = \eta\,\frac{t + 1}{w}\;(t < w), \qquad "
                r"\eta\sqrt{\frac{w}{t + 1}} \;\text{or}\; "
                r"\frac{\eta}{2}\left(1 + \cos\frac{\pi (t - w)}{T - w}\right)\;(t \geq w)",
            ),
            code=(learning_rate, logs),
            numbers=lambda: {
                view.t("history.recipe"): [log.recipe or "" for log in found for _ in log.steps],
                view.t("history.step"): [step for log in found for step in log.steps],
                view.t("history.loss"): [loss for log in found for loss in log.loss],
                view.t("history.valid"): [loss for log in found for loss in log.valid],
            },
        )


def _starts(found: tuple[Log, ...]) -> list[int]:
    """The number of steps before each run."""
    return [sum(log.steps[-1] for log in found[:i]) for i in range(len(found))]


def _losses(view: View, found: tuple[Log, ...]) -> None:
    later = view.t("history.later") if len(found) > 1 else ""
    st.markdown(f"{view.t('history.lead', runs=len(found))} {later}")
    gap = float("nan")  # NaN breaks the curve between runs
    x: list[float] = []
    ys: list[tuple[float, float]] = []
    for start, log in zip(_starts(found), found, strict=True):
        x += [start + step for step in log.steps] + [start + log.steps[-1]]
        ys += [*zip(log.loss, log.valid, strict=True), (gap, gap)]
    figure = lines(
        np.array(x),
        np.array(ys).T,
        [view.t("history.loss"), view.t("history.valid")],
        x_title=view.t("history.step"),
        y_title=view.t("history.nats"),
        dark=view.dark,
    )
    for trace in figure["data"]:
        trace["mode"] = "lines+markers"
    controls.chart(figure, "history.losses", alt=view.t("history.lead", runs=len(found)))
    first, last = found[0], found[-1]
    best = int(np.argmin(last.valid))
    controls.reading(
        "history",
        view.t(
            "history.reading" if best == len(last.valid) - 1 else "history.reading_rose",
            steps=f"{sum(log.steps[-1] for log in found):,}",
            first=fixed(first.valid[0]),
            last=fixed(last.valid[-1]),
            best=fixed(last.valid[best]),
            epoch=best + 1,
            epochs=len(last.valid),
        ),
    )


def _rates(view: View, found: tuple[Log, ...]) -> None:
    x: list[float] = []
    y: list[float] = []
    for start, log in zip(_starts(found), found, strict=True):
        steps, values = rates(log)
        if steps:
            x += [*(start + step for step in steps), start + steps[-1]]
            y += [*values, float("nan")]
    if not x:
        return
    title = view.t("history.rate_title")
    st.caption(title)
    figure = lines(
        np.array(x),
        np.array([y]),
        [view.t("history.rate")],
        x_title=view.t("history.step"),
        y_title=view.t("history.rate"),
        height=240,
        dark=view.dark,
    )
    controls.chart(figure, "history.rates", alt=title)


def _moments(view: View, kept: Moments) -> None:
    title = view.t("history.moments")
    st.caption(title)
    figure = lines(
        np.array(kept.steps),
        kept.losses[None],
        [view.t("history.sentence")],
        x_title=view.t("history.step"),
        y_title=view.t("history.nats"),
        height=260,
        dark=view.dark,
    )
    figure["data"][0]["mode"] = "lines+markers"
    controls.chart(figure, "history.moments", alt=title)
    controls.reading(
        "moments",
        view.t(
            "history.moments_reading"
            if kept.losses[-1] < kept.losses[0]
            else "history.moments_rose",
            first=fixed(float(kept.losses[0])),
            last=fixed(float(kept.losses[-1])),
            begin=f"{kept.steps[0]:,}",
            step=f"{kept.steps[-1]:,}",
        ),
    )
