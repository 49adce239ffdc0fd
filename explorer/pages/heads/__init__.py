"""Heads: every head of one kind of attention at once, some of them large, one row read out."""

import streamlit as st

from explorer.pages.heads.attribution import four_numbers
from explorer.pages.heads.contexts import contexts
from explorer.pages.heads.matter import ablation_of, heads_that_matter
from explorer.pages.heads.opened import Opened
from explorer.pages.heads.picture import BESIDE, go_down, linked_heads, take_clicks
from explorer.pages.heads.reading import difference, read_row, switch_off
from explorer.pages.heads.takeaway import take_away
from explorer.ui import controls, session
from explorer.ui.current import beside, latest
from explorer.ui.view import View
from models.attention import attend


def render(view: View) -> None:
    """The page."""
    st.markdown(view.t("heads.lead"))
    st.markdown(view.t("heads.try"))
    _linked(view)


@st.fragment
def _linked(view: View) -> None:
    view, other = _taken(latest(view))
    choice = Opened(view)
    if other is None:
        controls.sentence_line(view)
    controls.edits_bar(view, "heads.reset")
    _controls(choice)
    controls.reading("heads", read_row(choice))
    _aggregates(choice)
    linked_heads(choice, None if other is None else Opened(other))
    switch_off(choice)
    difference(choice)
    if other is not None:
        contexts(view, other)
    ablation = ablation_of(view)
    if ablation is not None:
        four_numbers(choice)
        heads_that_matter(choice, ablation)
    biased = r" + B" if view.site.hook("bias") in view.trace.activations else ""
    controls.small_print(
        view,
        "heads",
        formula=(
            r"\text{pattern} = \mathrm{softmax}_{\,m = 1}\!\left("
            r"\frac{QK^\top}{\sqrt{d_\mathrm{head}}}" + biased + r"\right), \qquad "
            r"z = \text{pattern}\cdot V",
        ),
        code=(view.loaded.model.get_submodule(view.site.name), attend),
        numbers=lambda: _numbers(choice),
    )


def _aggregates(choice: Opened) -> None:
    """What the squares behind the heads are; flow is there for short self-attention alone."""
    rolled = "heads.rollout_cross_note" if choice.kind == "cross" else "heads.rollout_note"
    notes = {"rollout": rolled, "flow": "heads.flow_note"}
    keys = [notes[each.name] for each in choice.aggregates if each.layer is None]
    st.caption(" ".join(map(choice.view.t, ["heads.mean_note", *keys])))


def _taken(view: View) -> tuple[View, View | None]:
    """The view and the one beside it, with what was just chosen in either picture."""
    other = beside(view)
    go_down(view)
    if other is not None:
        go_down(other, BESIDE, view)
    if take_clicks(view) or (other is not None and take_clicks(other, BESIDE)):
        view = latest(view)
        other = beside(view)
    return view, other


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
        take_away(choice)


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
