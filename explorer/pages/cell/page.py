"""One cell: a query and a key of one head, followed to the logit of a token."""

import streamlit as st

from explorer.analysis.cell.steps import Cell, Effect, cell_of, effect
from explorer.exhibits.view import View
from explorer.pages.cell import cached
from explorer.pages.cell.asides import aside, code_of
from explorer.pages.cell.choices import STAGES, CellChoices
from explorer.pages.cell.steps import chain, step
from explorer.ui import controls, session
from explorer.ui.page import draw_page
from models.attention import attend


def render(view: View) -> None:
    """Draw the page."""
    draw_page(view, "cell", _drawn)


def _drawn(view: View) -> None:
    """Draw the page below its introduction."""
    controls.sentence_line(view)
    controls.edits_bar(view, "cell.reset")
    _place(view)
    cell = cell_of(view.loaded, view.trace, view.site, view.head, view.row, key_of(view))
    goal = _effect(view, cell)
    chain(view, cell, goal)
    _stepper(view)
    step(view, cell, goal)
    aside(view, cell, goal)
    score = view.scaled(r"q_i\cdot k_j") + ("" if cell.bias is None else r" + b_{ij}")

    def bias(name: str) -> str:
        return f" + b_{name}" if view.loaded.config.bias else ""

    controls.small_print(
        view,
        "cell",
        formula=(
            r"q_i = x_i W_Q" + bias("Q") + r", \qquad k_j = x_j W_K" + bias("K") + r", \qquad "
            r"v_j = x_j W_V" + bias("V"),
            rf"s_{{ij}} = {score}, \qquad "
            r"p_{ij} = \frac{e^{s_{ij}}}{\sum_{k\;\text{allowed}} e^{s_{ik}}}, \qquad "
            r"\text{output}_i = \sum_{\text{heads}} \sum_j p_{ij}\,v_j W_O" + bias("O"),
        ),
        code=_code(view, cell, goal),
        numbers=lambda: _numbers(view, cell),
    )


def _code(view: View, cell: Cell, goal: Effect | None) -> tuple[object, ...]:
    """The code of the open aside, of the current step, and of the other steps."""
    sublayer = view.loaded.model.get_submodule(view.site.name)
    steps: tuple[object, ...]
    match STAGES[view.choices(CellChoices).stage]:
        case "projection":
            steps = (sublayer, attend, cell_of)
        case "values":
            steps = (cell_of, sublayer, attend)
        case _:
            steps = (attend, sublayer, cell_of)
    more = code_of(view, cell)
    changed = [] if goal is None else [effect]
    return (*(each for each in more if each not in (*steps, *changed)), *steps, *changed)


def key_of(view: View) -> int:
    """The chosen key, else the key with the highest weight."""
    n_key = len(view.trace.key_tokens(view.site.name))
    if view.state.key is not None:
        return min(view.state.key, n_key - 1)
    return int(view.trace.pattern(view.site.name)[view.head, view.row].argmax())


def _effect(view: View, cell: Cell) -> Effect | None:
    """The cell's effect on the token predicted at its query; for an encoder, on a chosen token.

    None for a model without logits.
    """
    if view.trace.predicts is None:
        return None
    n_real = int(view.trace.tgt_valid.sum())
    place = view.step if cell.site.query_stream == "src" else cell.query
    position = min(place, n_real - 1)
    goal = view.choices(CellChoices).goal
    if goal is not None and goal >= view.loaded.config.vocab_size:
        goal = None
    at = (cell.head, cell.query, cell.key)
    return cached.effect(view.run, cell.site.name, at, position, goal)


def _place(view: View) -> None:
    """The controls: kind, layer, head, query, key, and the token whose logit is measured."""
    site = view.site.name
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.pick_place(view, "cell")
        with st.container(width=170):
            _pick(view, "query", view.trace.query_tokens(site), view.row, "row")
        with st.container(width=170):
            _pick(view, "key", view.trace.key_tokens(site), key_of(view), "key")
        if view.site.query_stream == "src":
            n_real = int(view.trace.tgt_valid.sum())
            tokens = view.trace.predicted_str_tokens[:n_real]
            with st.container(width=190):
                _pick(view, "token", tokens, min(view.step, n_real - 1), "step")


def _pick(view: View, name: str, tokens: tuple[str, ...], value: int, field: str) -> None:
    def change(chosen: int) -> None:
        # Fix the default query and key, which could change with an edit.
        fields: dict[str, int | None] = {"layer": view.layer, "head": view.head, "row": view.row}
        if field != "key":
            fields["goal"] = None
        if field == "row":
            fields["key"] = None
        session.change(**{**fields, field: chosen})

    controls.pick(
        view.t(f"cell.{name}"),
        range(len(tokens)),
        value,
        f"cell.{name}",
        change,
        format_func=lambda index: f"{index}  {tokens[index]}",
    )


def _stepper(view: View) -> None:
    stage = view.choices(CellChoices).stage
    st.session_state["cell.stage"] = STAGES[stage]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.segmented_control(
            view.t("cell.stage"),
            STAGES,
            format_func=lambda name: f"{STAGES.index(name) + 1} · {view.t(f'cell.stages.{name}')}",
            required=True,
            key="cell.stage",
            label_visibility="collapsed",
            on_change=lambda: session.change(stage=STAGES.index(st.session_state["cell.stage"])),
        )
        st.button(
            view.t("cell.next"),
            key="cell.next",
            icon=":material/arrow_forward:",
            disabled=stage == len(STAGES) - 1,
            on_click=lambda: session.change(stage=stage + 1),
        )


def _numbers(view: View, cell: Cell) -> dict[str, list[object]]:
    tokens = view.trace.key_tokens(cell.site.name)
    return {
        view.t("cell.key"): [f"{index} {token}" for index, token in enumerate(tokens)],
        view.t("cell.score"): [round(float(score), 4) for score in cell.scores],
        view.t("cell.allowed"): [bool(allowed) for allowed in cell.allowed],
        view.t("cell.exponential"): [round(float(value), 4) for value in cell.exponentials],
        view.t("cell.weight"): [round(float(weight), 4) for weight in cell.weights],
    }
