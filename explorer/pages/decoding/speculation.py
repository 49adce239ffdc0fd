"""Speculative decoding: proposed and accepted draft tokens, and the saved passes."""

import math

import numpy as np
import streamlit as st

from explorer.analysis.decoding.speculation import (
    MOST_DRAFTED,
    RUNS,
    Speculation,
    drafts,
    layers_of,
    passes,
    speculation,
)
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.numbers import fixed, percent
from explorer.pages.decoding import cached
from explorer.pages.decoding.choices import DecodingChoices
from explorer.runs.speculative import first_layers, speculate
from explorer.ui import controls, session
from explorer.ui.problem import show_refused
from explorer.ui.tables import table

MOST_ROWS, MOST_TALL = 10, 400
"""A table of more rows scrolls in a box of this height in pixels."""


def speculative(view: View) -> None:
    """Draw the section."""
    st.markdown(view.t("speculation.lead"))
    if view.trace.edits:
        st.caption(view.t("speculation.without_edits"))
    choices = view.choices(DecodingChoices)
    offered = drafts(view.loaded)
    if not offered:
        st.info(view.t("speculation.no_draft"), icon=":material/lightbulb:")
        return
    draft = choices.draft if choices.draft in offered else offered[0]
    if choices.draft not in ("", draft):
        show_refused("draft", choices.draft, view.lang)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        with st.container(width=320):
            controls.pick(
                view.t("speculation.draft"),
                offered,
                draft,
                "speculation.draft",
                lambda name: session.change(draft=name),
                format_func=lambda name: _name(view, name),
                help=view.t("speculation.draft_help"),
            )
        st.session_state["speculation.ahead"] = choices.ahead
        st.slider(
            view.t("speculation.ahead"),
            1,
            MOST_DRAFTED,
            RUNS,
            key="speculation.ahead",
            width=240,
            on_change=lambda: session.change(ahead=st.session_state["speculation.ahead"]),
        )
    with st.spinner(view.t("speculation.working")):
        found = cached.speculation_of(
            view.loaded.name, view.text, draft, choices.ahead, choices.limit
        )
    _rounds(view, found)
    _reading(view, found)
    _by_number(view, found, choices.ahead)
    controls.small_print(
        view,
        "speculation",
        formula=(
            r"o_i = \arg\max_y\; p(y \mid x,\, y_{<t},\, d_1 \ldots d_i), \qquad "
            r"n = \min\{\, i : d_{i+1} \neq o_i \,\}, \qquad y_t \ldots y_{t+n} = o_0 \ldots o_n",
            r"\mathbb{E}[n + 1] = \frac{1 - \alpha^{k+1}}{1 - \alpha}",
        ),
        explained="speculation.formula",
        code=(speculate, first_layers, speculation),
        numbers=lambda: {
            view.t("speculation.round"): list(range(1, len(found.rounds) + 1)),
            view.t("speculation.drafted"): [" ".join(each) for each in found.drafted],
            view.t("speculation.accepted"): [each.accepted for each in found.rounds],
            view.t("speculation.written"): [" ".join(each) for each in found.written],
        },
    )


def _name(view: View, draft: str) -> str:
    kept = layers_of(draft)
    if kept is None:
        return draft
    return view.t("speculation.layers", kept=kept, layers=view.loaded.config.n_layers)


def _rounds(view: View, found: Speculation) -> None:
    """One line per round: the draft's tokens, accepted or struck out, and the model's own token."""
    rows, n = [], 0
    for index, each in enumerate(found.rounds):
        drafted, written = found.drafted[index], found.written[index]
        right = [f":green[{escape(token)}]" for token in drafted[: each.accepted]]
        wrong = [f":gray[~~{escape(token)}~~]" for token in drafted[each.accepted :]]
        own = [f":orange[**{escape(token)}**]" for token in written[each.accepted :]]
        n += len(written)
        rows.append((str(index + 1), " ".join([*right, *wrong]), " ".join(own), str(n)))
    head = (
        view.t("speculation.round"),
        view.t("speculation.drafted"),
        view.t("speculation.own"),
        view.t("speculation.so_far"),
    )
    with st.container(height=MOST_TALL if len(rows) > MOST_ROWS else "content", border=False):
        table(head, rows, "rllr")


def _reading(view: View, found: Speculation) -> None:
    greedy, model, draft = found.adds
    slow, quick = (min(each) for each in found.seconds)
    words = view.t(
        "speculation.reading" if found.same else "speculation.reading_differs",
        written=found.n_written,
        passes=len(found.rounds),
        rate=fixed(found.n_written / len(found.rounds)),
        drafted=found.n_drafted,
        accepted=found.n_accepted,
        share=percent(found.n_accepted / max(found.n_drafted, 1)),
    )
    cost = view.t(
        f"speculation.{_pace(*found.seconds)}",
        adds=fixed((model + draft) / greedy),
        times=fixed(max(slow, quick) / min(slow, quick)),
        tries=RUNS,
        rate=percent(1 / math.comb(2 * RUNS, RUNS)),
        slow=f"{1000 * slow:.0f}",
        quick=f"{1000 * quick:.0f}",
    )
    controls.reading("speculation", f"{words} {cost}")


def _pace(greedy: tuple[float, ...], rounds: tuple[float, ...]) -> str:
    """Whether speculative decoding was faster or slower in all runs than greedy decoding in any."""
    if max(rounds) < min(greedy):
        return "faster"
    return "slower" if min(rounds) > max(greedy) else "alike"


def _by_number(view: View, found: Speculation, ahead: int) -> None:
    """Tokens per pass for each number of draft tokens, measured and by the formula."""
    numbers = np.arange(1, MOST_DRAFTED + 1)
    counted = [len(found.agree) / passes(found.agree, int(k)) for k in numbers]
    chance = float(found.agree.mean())
    curve = [sum(chance**i for i in range(int(k) + 1)) for k in numbers]
    title = view.t("speculation.by_number")
    st.caption(title)
    figure = lines(
        numbers,
        np.array([counted, curve]),
        [view.t("speculation.counted"), view.t("speculation.expected", share=percent(chance))],
        x_title=view.t("speculation.ahead"),
        y_title=view.t("speculation.rate"),
        marked_x=float(ahead),
        height=280,
        dark=view.dark,
    )
    controls.chart(figure, "speculation.by_number", alt=title)
