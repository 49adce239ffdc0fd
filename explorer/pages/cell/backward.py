"""The backward pass of this head: its five gradients computed manually, and the memory of a fused
kernel."""

import numpy as np
import streamlit as st

from explorer.analysis.cell.backward import (
    GRADIENTS,
    Gradient,
    HeadBackward,
    attention_backward,
    fused_backward,
    fused_forward,
)
from explorer.analysis.cell.steps import Cell, Effect
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.figures import cell as figures
from explorer.numbers import byte_size, digits, number
from explorer.pages.cell import cached
from explorer.ui import controls
from explorer.ui.parts import pick_one
from explorer.ui.tables import table

CODE = (attention_backward, fused_forward, fused_backward)
NAMES: dict[Gradient, str] = {
    "v": "dV",
    "pattern": "dA",
    "scores": "dS",
    "q": "dQ",
    "k": "dK",
}
MADE: dict[Gradient, str] = {
    "v": "Aᵀ dZ",
    "pattern": "dZ Vᵀ",
    "scores": "A ∘ (dA − Σ A ∘ dA)",
    "q": "dS K ÷ {divisor}",
    "k": "dSᵀ Q ÷ {divisor}",
}
"""The formulas of the gradients, the same in both languages."""
CAPPED: dict[Gradient, str] = {
    "q": "(dS ∘ (1 − tanh²)) K ÷ {divisor}",
    "k": "(dS ∘ (1 − tanh²))ᵀ Q ÷ {divisor}",
}
"""The formulas with a softcap, cap · tanh(score / cap)."""


def backward(view: View, cell: Cell, goal: Effect | None) -> None:
    """The choice of a gradient, its picture, all of them against autograd, and the memory."""
    at = None if goal is None else (goal.position, goal.tokens[goal.chosen])
    found = cached.backward(view.run, cell.site.name, cell.head, at)
    if goal is None:
        st.markdown(view.t("cell.backward_lead_silent"))
    else:
        token = controls.quoted(view, goal.str_tokens[goal.chosen])
        st.markdown(view.t("cell.backward_lead", token=token))
    chosen = pick_one(
        view,
        "gradient",
        view.t("cell.backward_which"),
        GRADIENTS,
        "cell.gradient",
        lambda name: NAMES[name],
        label_visibility="collapsed",
    )
    _matrix(view, cell, chosen, found.gradients[chosen])
    _table(view, found)
    controls.reading("aside", _reading(view, found))
    st.markdown(_memory(view, cell))
    config, slope, root = view.loaded.config, "", r"\sqrt{d}"
    if config.score_cap is not None:
        slope = r"\circ (1 - \tanh^2)"
    if config.score_divisor is not None:
        root = view.divisor.replace("√", r"\sqrt ", 1)
    st.latex(
        r"dV = A^\top dZ,\quad dA = dZ\,V^\top,\quad "
        r"dS_{ij} = A_{ij}\Big(dA_{ij} - \sum_k A_{ik}\,dA_{ik}\Big),\quad "
        rf"dQ = \frac{{(dS{slope})\,K}}{{{root}}},\quad "
        rf"dK = \frac{{(dS{slope})^\top Q}}{{{root}}}"
    )
    st.latex(
        r"A_{ij} = e^{S_{ij} - L_i},\quad L_i = \log\sum_j e^{S_{ij}},\qquad "
        r"\sum_k A_{ik}\,dA_{ik} = dZ_i\cdot Z_i"
    )
    said = view.t("cell.backward_root") if config.score_divisor is None else ""
    st.caption(view.t("cell.backward_formula", divisor=said))


def _matrix(view: View, cell: Cell, name: Gradient, values: np.ndarray) -> None:
    """One gradient: query by key, or token by dimension."""
    site = cell.site
    queries, keys = (
        view.trace.query_tokens(site.name),
        view.trace.key_tokens(site.name),
    )
    words = view.words("figures.cell")
    of_scores = name in ("pattern", "scores")
    by_query = of_scores or name == "q"
    if not of_scores:
        words = words | {"key": words["dimension"]}
        words = words if by_query else words | {"query": view.t("cell.key")}
    figure = figures.matrix(
        values,
        queries if by_query else keys,
        keys if of_scores else [str(at) for at in range(values.shape[1])],
        title=NAMES[name],
        streams=(
            site.query_stream if by_query else site.key_stream,
            site.key_stream if of_scores else None,
        ),
        marked=(cell.query, cell.key) if of_scores else None,
        dark=view.dark,
        words=words,
    )
    controls.chart(figure, "cell.backward", alt=view.t("cell.backward_alt", name=NAMES[name]))


def _table(view: View, found: HeadBackward) -> None:
    made = MADE | (CAPPED if view.loaded.config.score_cap is not None else {})
    rows = [
        [
            f"**{NAMES[name]}**",
            made[name].format(divisor=view.divisor),
            " × ".join(map(str, found.gradients[name].shape)),
            digits(float(np.abs(found.gradients[name]).max(initial=0.0)), 2),
            number(found.errors[name]),
            number(found.recomputed[name]) if name in found.recomputed else "–",
        ]
        for name in GRADIENTS
    ]
    names = ("made", "shape", "largest", "error", "recomputed")
    table(["", *(view.t(f"cell.backward_{name}") for name in names)], rows, "llrrrr")


def _reading(view: View, found: HeadBackward) -> str:
    """Whether the manual gradients match autograd, with and without a stored pattern."""
    error, again = max(found.errors.values()), max(found.recomputed.values())
    largest = max(float(np.abs(each).max(initial=0.0)) for each in found.gradients.values())
    agrees = max(error, again) <= 1e-9 * max(largest, 1e-9)
    return view.t(
        "cell.backward_agrees" if agrees else "cell.backward_differs",
        error=number(error),
        again=number(again),
        largest=digits(largest, 2),
        sums=number(found.row_sums),
    )


def _memory(view: View, cell: Cell) -> str:
    lines = []
    for each in cached.memory_kept(view.run, cell.site.name):
        sizes = {"explicit": byte_size(each.explicit), "fused": byte_size(each.fused)}
        lines.append(view.t("cell.backward_kept", queries=each.n_query, keys=each.n_key, **sizes))
    heads = escape(str(cell.site.n_heads))
    return f"{view.t('cell.backward_memory', heads=heads)} {' '.join(lines)}"
