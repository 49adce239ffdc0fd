"""Heads: every head of one kind of attention, some of them large, and a reading of one query."""

import streamlit as st

from explorer.analysis.heads.ablation import ablate
from explorer.analysis.heads.aggregates import MAX_ROWS
from explorer.analysis.heads.attribution import attribute
from explorer.analysis.heads.contexts import shared_words
from explorer.analysis.heads.flow import attention_flow
from explorer.analysis.heads.measures import head_measures
from explorer.analysis.heads.ranks import need_map
from explorer.analysis.heads.rollout import cross_rollout, mean_head, rollout
from explorer.analysis.heads.versus import mean_divergence
from explorer.analysis.heads.words import by_word
from explorer.exhibits.heads.choices import HeadsChoices
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.needs import WORDS
from explorer.exhibits.view import View
from explorer.pages.heads.attribution import four_numbers
from explorer.pages.heads.contexts import contexts
from explorer.pages.heads.matter import ablation_of, heads_that_matter
from explorer.pages.heads.pair import ViewPair, linked_pair, pair_of, pick_other
from explorer.pages.heads.pair import go_down as go_down_beside
from explorer.pages.heads.pair import take_clicks as take_clicks_beside
from explorer.pages.heads.picture import BESIDE, go_down, linked_heads, take_clicks
from explorer.pages.heads.reading import difference, read_row, switch_off
from explorer.pages.heads.takeaway import take_away
from explorer.pages.heads.versus import compared, verdict
from explorer.ui import controls, session
from explorer.ui.current import beside, latest
from explorer.ui.page import fragment
from explorer.ui.share import shared
from explorer.ui.source import pick_source
from explorer.ui.stage import hero, stage
from models.attention import attend

AGGREGATES = {
    "mean": r"\bar A_\ell = \frac1H \sum_h A_{\ell h}",
    "rollout": r"R_\ell = \tfrac12(\bar A_\ell + I)\,R_{\ell - 1}, \qquad R_0 = I",
    "flow": r"F_{ij} = \max\ \sum_{i \to j} f, \qquad "
    r"0 \le f_\ell \le \tfrac12(\bar A_\ell + I)",
}
"""The formulas of the aggregates: Abnar & Zuidema 2020."""


def render(view: View) -> None:
    """Draw the page."""
    controls.opening(view, "heads")
    pick_source(view, "heads")
    _linked(view)


@fragment
def _linked(view: View) -> None:
    view, other, pair = _taken(latest(view))
    choice = Opened(view, None if pair is None else pair.differs)
    with shared(view, "heads", more=lambda: take_away(choice, pair)), stage():
        _drawn(choice, other, pair)


def _drawn(choice: Opened, other: View | None, pair: ViewPair | None) -> None:
    """Draw the page below its introduction; `other` is the view of a second sentence, `pair` this
    view with another model's view."""
    view = choice.view
    if other is None and pair is None:
        controls.sentence_line(view, mapped=False)
    controls.edits_bar(view, "heads.reset")
    with hero():
        if pair is not None:
            verdict(pair)
        controls.reading("heads", read_row(choice))
    _controls(choice)
    with hero():
        if pair is None:
            linked_heads(choice, None if other is None else Opened(other))
        else:
            linked_pair(pair)
    _aggregates(choice)
    switch_off(choice)
    difference(choice)
    if pair is not None:
        compared(choice, pair)
    if other is not None:
        contexts(view, other)
    ablation = ablation_of(view)
    further: list[object] = [] if other is None else [shared_words]
    if ablation is not None:
        found = four_numbers(choice)
        heads_that_matter(choice, ablation)
        further += [ablate] if found is None else [ablate, attribute]
    controls.small_print(
        view,
        "heads",
        formula=_formula(choice),
        code=(*_code(choice), *further),
        numbers=lambda: _numbers(choice),
    )


def _aggregates(choice: Opened) -> None:
    """An explanation of the aggregates; flow exists only for short self-attention."""
    if not choice.aggregates:
        st.caption(choice.view.t("heads.no_aggregates", limit=MAX_ROWS))
        return
    rolled = "heads.rollout_cross_note" if choice.kind == "cross" else "heads.rollout_note"
    notes = {"rollout": rolled, "flow": "heads.flow_note"}
    keys = [notes[each.name] for each in choice.aggregates if each.layer is None]
    st.caption(" ".join(map(choice.view.t, ["heads.mean_note", *keys])))


def _taken(view: View) -> tuple[View, View | None, ViewPair | None]:
    """The view, and the view of a second sentence or model, updated by clicks in any picture."""
    pair = pair_of(view)
    if pair is not None:
        go_down(view)
        go_down_beside(pair)
        if take_clicks(view) or take_clicks_beside(pair):
            view = latest(view)
            pair = pair_of(view)
        return view, None, pair
    other = beside(view)
    go_down(view)
    if other is not None:
        go_down(other, BESIDE, view)
    if take_clicks(view) or (other is not None and take_clicks(other, BESIDE)):
        view = latest(view)
        other = beside(view)
    return view, other, None


def _controls(choice: Opened) -> None:
    view = choice.view
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.pick_kind(view, "heads.kind")
        with st.container(width=250):
            controls.pick(
                view.t("heads.measure"),
                ("", *choice.measure_names),
                choice.measure or "",
                "heads.measure",
                lambda name: session.change(measure=name),
                format_func=lambda name: view.t(f"heads.measures.{name or 'none'}"),
                help=view.t("heads.measure_help"),
            )
        if WORDS.met(view.loaded):
            st.session_state["heads.words"] = view.choices(HeadsChoices).words
            st.toggle(
                view.t("heads.words"),
                key="heads.words",
                help=view.t("heads.words_help"),
                on_change=lambda: session.change(words=st.session_state["heads.words"]),
            )
        pick_other(view)


def _formula(choice: Opened) -> tuple[str, ...]:
    """The formula of multi-head attention at this site, after the open aggregate's, if any."""
    view, shown = choice.view, choice.current
    source = "M" if view.site.kind == "cross" else "X"
    bias = {name: f" + b_{name}" if view.loaded.config.bias else "" for name in "QKVO"}
    biased = " + B" if view.site.hook("bias") in view.trace.activations else ""
    formula = (
        rf"Q = X W_Q{bias['Q']}, \qquad K = {source} W_K{bias['K']}, \qquad "
        rf"V = {source} W_V{bias['V']}",
        r"\text{pattern} = \mathrm{softmax}_{\,m = 1}\!\left("
        + view.scaled(r"QK^\top")
        + rf"{biased}\right), \qquad "
        r"z = \text{pattern}\cdot V",
        rf"\text{{output}} = \mathrm{{Concat}}(z_1, \dots, z_{{{view.site.n_heads}}})\,W_O"
        + bias["O"],
    )
    if shown is None or shown.aggregate is None:
        return formula
    name = "mean" if shown.aggregate.layer is not None else shown.aggregate.name
    return (AGGREGATES[name], *formula)


def _code(choice: Opened) -> list[object]:
    """The code of the open aggregate, of the heads, and of the measure."""
    view, shown = choice.view, choice.current
    code: list[object] = [view.loaded.model.get_submodule(view.site.name), attend]
    aggregate = shown.aggregate if shown else None
    if aggregate is not None:
        rolled = cross_rollout if view.kind == "cross" else rollout
        code.insert(0, {"rollout": rolled, "flow": attention_flow}.get(aggregate.name, mean_head))
    if choice.measure is not None:
        known = {"needed": need_map, "differs": mean_divergence}
        code.append(known.get(choice.measure, head_measures))
    if choice.words is not None:
        code.append(by_word)
    return code


def _numbers(choice: Opened) -> dict[str, list[object]]:
    view = choice.view
    shown = choice.current or choice.at((view.layer, view.head))
    columns: dict[str, list[object]] = {
        view.t("place.query"): [
            f"{row} {token}" for row, token in enumerate(view.trace.query_tokens(view.site.name))
        ]
    }
    for key, token in enumerate(view.trace.key_tokens(view.site.name)):
        columns[f"{key} {token}"] = [round(float(weight), 4) for weight in shown.pattern[:, key]]
    return columns
