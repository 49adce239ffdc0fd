"""The effect on the translation of ablating the aligning heads, compared with random heads."""

import numpy as np
import streamlit as st

from explorer.analysis.alignment.removal import (
    DRAWS,
    Removal,
    drawn,
    heads_off,
    mean_logprob,
    removal,
)
from explorer.engine import jobs
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.numbers import percent, signed
from explorer.pages.alignment import cached
from explorer.pages.alignment.opened import Opened
from explorer.runs.generation import StepsDone
from explorer.ui import controls, running
from explorer.ui.stage import hero
from explorer.ui.tables import table

JOB = "alignment.removal"
Outputs = tuple[tuple[int, str, str], ...]


def without_heads(choice: Opened) -> None:
    """Draw this part of the page."""
    view, back = choice.view, choice.back
    model, text = view.loaded.name, view.trace.text
    st.markdown(view.t("alignment.without_lead"))

    def work(tell: StepsDone) -> tuple[Removal | None, Outputs]:
        step = jobs.whole(tell)
        return (
            cached.removal(model, back, progress=step),
            cached.outputs_without(model, back, text, progress=step),
        )

    done = running.awaited(
        JOB, (model, back, text), work, view.t("alignment.without_working"), view.lang
    )
    if done is None:
        return
    found, outputs = done
    if found is None:
        st.info(view.t("alignment.one_head"), icon=":material/info:")
        return
    with hero():
        controls.reading("without", _reading(view, found))
        _curves(view, found)
    st.markdown(f"**{view.t('alignment.without_here')}**")
    before = escape(view.before().output)
    rows = [["0", before, before]]
    rows += [[str(count), _shown(own), _shown(other)] for count, own, other in outputs]
    head = [view.t(f"alignment.{name}") for name in ("off_count", "off_aligning", "off_drawn")]
    table(head, rows, "rll")
    controls.small_print(
        view,
        "alignment",
        formula=(
            r"\Delta = \frac1n\sum_t \Big(\log p(y_t \mid y_{<t}, x;\ \text{heads off}) "
            r"- \log p(y_t \mid y_{<t}, x)\Big)",
        ),
        code=(removal, drawn, mean_logprob, heads_off),
        numbers=lambda: {
            view.t("alignment.off_count"): list(found.counts),
            view.t("alignment.off_aligning"): [f"{x - found.whole:+.3f}" for x in found.aligning],
            view.t("alignment.off_others"): [
                f"{x.mean() - found.whole:+.3f}" for x in found.others
            ],
        },
        explained="alignment.without_formula",
    )


def _shown(text: str) -> str:
    return escape(text) if text.strip() else "–"


def _reading(view: View, found: Removal) -> str:
    """The reading: the cost of the largest ablation, and the highest cost of as many others."""
    own, others = found.aligning - found.whole, [each - found.whole for each in found.others]
    return view.t(
        f"alignment.without_{'more' if found.stands_out else 'less'}",
        count=found.counts[-1],
        total=found.n_heads,
        own=signed(float(own[-1])),
        mean=signed(float(others[-1].mean())),
        worst=signed(float(others[-1].min())),
        first=signed(float(own[0])),
        first_mean=signed(float(others[0].mean())),
        draws=DRAWS,
        rate=percent(1 / (DRAWS + 1)),
    )


def _curves(view: View, found: Removal) -> None:
    means, worst = ([f(each) for each in found.others] for f in (np.mean, np.min))
    curves = np.array([found.aligning, means, worst]) - found.whole
    figure = lines(
        np.array([0, *found.counts]),
        np.pad(curves, ((0, 0), (1, 0))),
        [view.t(f"alignment.{name}") for name in ("off_aligning", "off_others", "off_worst")],
        x_title=view.t("alignment.off_count"),
        y_title=view.t("alignment.change"),
        dark=view.dark,
    )
    for trace in figure["data"]:
        trace["mode"] = "lines+markers"
    controls.chart(figure, "alignment.without", alt=view.t("alignment.without_alt"))
