"""A weight is not a cause: four measures for one head and one output token, compared."""

import math

import streamlit as st

from explorer.analysis.heads.attribution import MEASURES, Attribution, Measure
from explorer.analysis.heads.ranks import HeadRanks, head_ranks, likely
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.view import View
from explorer.figures.theme import show
from explorer.numbers import fixed, percent, signed
from explorer.pages.heads import cached
from explorer.ui import controls, session

STRONG, WEAK = 0.6, 0.3
"""Rank correlations from which two orders count as similar, or as weakly similar."""


def four_numbers(choice: Opened) -> Attribution | None:
    """Show the four measures of the current head, for the token predicted at the query.

    Returns their source; None if there is no such head or token.
    """
    view, shown = choice.view, choice.current
    st.subheader(view.t("measured.title"), anchor=False)
    if shown is None or shown.site is None or shown.head is None:
        st.caption(view.t("measured.no_head"))
        return None
    position = view.row if shown.site.query_stream == "tgt" else _pick_token(view)
    if position >= int(view.trace.tgt_valid.sum()):
        st.caption(view.t("measured.pad"))
        return None
    found = cached.attribute(view.run, position)
    ranked = head_ranks(found, shown.site.name, shown.head)
    st.markdown(
        view.t(
            "measured.lead",
            layer=shown.site.layer + 1,
            head=shown.head + 1,
            token=controls.quoted(view, found.str_token),
        )
    )
    _row(view, ranked, _heaviest(view, found, ranked, shown.site.key_stream))
    with st.container(key="reading-measured"):
        st.markdown(_verdict(view, ranked))
    others = {name: ranked.agreement[name] for name in ("contribution", "gradient")}
    if not any(map(math.isnan, others.values())):
        rhos = {name: fixed(rho) for name, rho in others.items()}
        st.caption(view.t("measured.agree_others", **rhos))
    return found


def _pick_token(view: View) -> int:
    """The control for the output token, for an encoder without output positions."""
    n_real = int(view.trace.tgt_valid.sum())
    written = view.trace.tgt_str_tokens[1:n_real]
    tokens = (*written, view.trace.predicted_str_tokens[n_real - 1])
    now = min(view.step, n_real - 1)
    with st.container(width=240):
        controls.pick(
            view.t("measured.token"),
            range(len(tokens)),
            now,
            "heads.token",
            lambda step: session.change(step=step),
            format_func=lambda step: f"{step + 1}  {show(tokens[step])}",
        )
    return now


def _heaviest(view: View, found: Attribution, ranked: HeadRanks, stream: str) -> str:
    tokens = view.trace.src_str_tokens if stream == "src" else view.trace.tgt_str_tokens
    return controls.quoted_at(view, tokens, ranked.key)


def _row(view: View, ranked: HeadRanks, key: str) -> None:
    for column, name in zip(st.columns(len(MEASURES)), MEASURES, strict=True):
        with column, st.container(key=f"cause-{name}", gap=None):
            st.caption(view.t(f"measured.{name}"), help=view.t(f"measured.{name}_help"))
            st.markdown(f"**{_value(view, name, ranked.values[name])}**")
            rank = view.t("measured.rank", rank=ranked.ranks[name], count=ranked.n_heads)
            st.caption(f"{view.t('measured.at', key=key)} · {rank}" if name == "weight" else rank)


def _value(view: View, name: Measure, value: float) -> str:
    if name == "weight":
        return percent(value)
    if name == "contribution":
        return f"{value:.2f}"
    return view.t("measured.nats", value=signed(value, 3))


def _verdict(view: View, ranked: HeadRanks) -> str:
    rho = ranked.agreement["weight"]
    if math.isnan(ranked.agreement["off"]):
        return view.t("measured.agree_unknown")
    if math.isnan(rho):  # with one visible key, its weight is 1 in every head
        return view.t("measured.agree_equal", count=ranked.n_heads)
    limit = likely(ranked.n_heads)
    values = {"rho": fixed(rho), "limit": fixed(limit), "count": ranked.n_heads}
    if WEAK <= rho < limit:
        return view.t("measured.agree_chance", **values)
    strength = "strong" if rho >= STRONG else "weak" if rho >= WEAK else "none"
    return view.t(f"measured.agree_{strength}", **values)
