"""Logit decomposition: the next word's logit as a sum, and one head's part of it by key."""

import math

import numpy as np
import streamlit as st

from explorer.analysis.causes.ranking import largest
from explorer.analysis.causes.writers import Detail, output, writers_at
from explorer.analysis.causes.writes import Writes, pushes, silence, writes
from explorer.exhibits.view import View
from explorer.figures.causes.terms import ranking
from explorer.numbers import compact, fixed, percent, signed
from explorer.pages.causes import cached
from explorer.pages.causes.choices import CausesChoices
from explorer.pages.causes.detail import pick_detail
from explorer.pages.causes.names import (
    group_names,
    in_half_precision,
    whether_it_adds_up,
    writer_name,
)
from explorer.pages.causes.one_head import one_head
from explorer.pages.causes.waiting import waited
from explorer.pages.causes.words import pick_position, pick_words, token_name
from explorer.ui import controls, session

MOST = 18
"""Most bars in the ranking; the smallest terms share the last one."""


def what_it_writes(view: View) -> None:
    """Draw this part of the page."""
    if view.trace.predicts is None:
        st.info(view.t("causes.no_logits"), icon=":material/lightbulb:")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        position = pick_position(view)
        word, rival = pick_words(view, position)
        detail = pick_detail(view)
    second = word if rival is None else rival
    found = waited(view, "writes", cached.writes, position, word, second, detail)
    if found is None:
        return
    values = found.shares if rival is None else found.differences
    with controls.reading_first():
        _drawn(view, found, values, rival)
        controls.reading("writes", _reading(view, found, values, rival))
    config = view.loaded.config
    notes = {"logit_cap": config.logit_cap is not None, "gate": config.head_net}
    for name, here in {**notes, "precision": in_half_precision(view)}.items():
        if here:
            st.caption(view.t(f"causes.note_{name}"))
    _check(view, found, detail, values, rival)
    drawn = one_head(view, found, rival)
    controls.small_print(
        view,
        "causes",
        explained="causes.writes_formula",
        formula=(
            r"\ell_w = \sum_a x_a \cdot U_w + b_w, \qquad "
            r"\ell_w - \ell_v = \ln \frac{p_w}{p_v}",
            r"x_{h} = \sum_j a_{ij}\, v_j W_O^{h}",
        ),
        code=(
            writes,
            output,
            writers_at,
            *([silence] if rival is not None else []),
            *([pushes] if drawn else []),
        ),
        numbers=lambda: _numbers(view, found),
    )


def _drawn(view: View, found: Writes, values: np.ndarray, rival: int | None) -> None:
    """The terms of the logit, or of the difference, as a ranking."""
    groups = largest(found.writers, values, MOST)
    extra = [(view.t("causes.rest"), _between(found.rests, rival))]
    if view.loaded.config.logit_cap is not None:
        extra.insert(0, (view.t("causes.cap"), _between(found.caps, rival)))
    free = np.array(
        [found.lost[g.members[0]] if g.writer and rival is not None else np.nan for g in groups]
        + [np.nan] * len(extra)
    )
    loaded = view.loaded
    title = view.t(
        "causes.logit_of" if rival is None else "causes.logit_between",
        word=token_name(loaded, found.word),
        other=token_name(loaded, found.other),
    )
    figure = ranking(
        [*group_names(view, groups), *(name for name, _ in extra)],
        np.array([*(group.of(values) for group in groups), *(value for _, value in extra)]),
        free=free if rival is not None else None,
        title=title,
        dark=view.dark,
        words=view.words("figures.causes"),
    )
    controls.chart(figure, "causes.shares", alt=title)


def _between(two: tuple[float, float], rival: int | None) -> float:
    """The first number, or its difference from the second."""
    return two[0] if rival is None else two[0] - two[1]


def _reading(view: View, found: Writes, values: np.ndarray, rival: int | None) -> str:
    trace, loaded = view.trace, view.loaded
    most, least = int(values.argmax()), int(values.argmin())
    words = {
        "before": controls.quoted_at(view, trace.tgt_str_tokens, found.position),
        "word": controls.quoted(view, token_name(loaded, found.word)),
        "chance": percent(found.probabilities[0]),
        "total": signed(_between(found.logits, rival)),
        "most": writer_name(view, found.writers[most]),
        "up": signed(float(values[most])),
        "least": writer_name(view, found.writers[least]),
        "down": signed(float(values[least])),
        "sum": whether_it_adds_up(view, _between(found.rests, rival), values),
    }
    if rival is None:
        return view.t("causes.read_logit", **words)
    difference = found.logits[0] - found.logits[1]
    return view.t(
        "causes.read_more" if difference >= 0 else "causes.read_less",
        other=controls.quoted(view, token_name(loaded, found.other)),
        other_chance=percent(found.probabilities[1]),
        times=_times(math.exp(min(abs(difference), 300))),
        **words,
    )


def _times(ratio: float) -> str:
    """Format a probability ratio: 1.8, 310."""
    return f"{ratio:.1f}" if ratio < 9.95 else compact(float(f"{ratio:.2g}"))


def _check(
    view: View, found: Writes, detail: Detail, values: np.ndarray, rival: int | None
) -> None:
    """The experiment: ablate a writer at this position."""
    if rival is None:
        st.caption(view.t("causes.check_two"))
        return
    st.subheader(view.t("causes.check"), anchor=False)
    order = [
        at
        for at in np.argsort(-np.abs(values), kind="stable").tolist()
        if found.writers[at].kind != "bias"
    ]
    made = view.choices(CausesChoices)
    writer: int = order[0] if made.taken not in order else order[order.index(made.taken)]
    with st.container(width=260):
        controls.pick(
            view.t("causes.take"),
            order,
            writer,
            "causes.taken",
            lambda at: session.change(taken=at),
            format_func=lambda at: (
                f"{writer_name(view, found.writers[at])} ({signed(float(values[at]))})"
            ),
        )
    asked = (found.position, found.word, found.other)
    out = waited(view, "silenced", cached.silenced, *asked, detail, writer)
    if out is None:
        return
    controls.reading(
        "silenced",
        view.t(
            "causes.read_silenced",
            writer=writer_name(view, out.writer),
            before=fixed(out.before),
            predicted=fixed(out.predicted),
            held=fixed(out.held),
            left=signed(out.held - out.predicted),
            free=fixed(out.free),
            later=signed(out.free - out.held),
        ),
    )


def _numbers(view: View, found: Writes) -> dict[str, list[object]]:
    loaded = view.loaded
    return {
        "": [writer_name(view, writer) for writer in found.writers],
        token_name(loaded, found.word): np.round(found.shares, 5).tolist(),
        f"{token_name(loaded, found.other)} ": np.round(found.other_shares, 5).tolist(),
        view.t("causes.difference"): np.round(found.differences, 5).tolist(),
    }
