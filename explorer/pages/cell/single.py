"""A single head of any width: its shapes and numbers compared with the model's head."""

import math

import numpy as np
import streamlit as st

from explorer.analysis.cell.single import Single, SingleHead, cut_head, single, widths
from explorer.analysis.cell.steps import Cell
from explorer.exhibits.view import View
from explorer.numbers import fixed, number, percent
from explorer.pages.cell.choices import CellChoices
from explorer.pages.cell.shown import weights
from explorer.ui import controls, session
from explorer.ui.tables import table

CODE = (SingleHead, cut_head)
ROUNDING = 1e-4
"""Smallest weight difference at which two heads count as different."""


def alone(view: View, cell: Cell) -> None:
    """The width, the shapes from x to the output, both patterns, and the conclusion."""
    st.markdown(view.t("cell.single_lead", d_in=view.loaded.config.d_model))
    found = single(view.loaded, view.trace, cell.site, cell.head, _pick_width(view, cell))
    _shapes(view, cell, found)
    own = view.trace.pattern(cell.site.name)[cell.head]
    titles = {"d_out": found.d_out, "head": cell.head + 1}
    patterns = {"single_this": found.tensors["pattern"], "single_own": own}
    named = [(view.t(f"cell.{name}", **titles), each) for name, each in patterns.items()]
    weights(view, cell, "single_weights", named)
    controls.reading("aside", _reading(view, found))
    if found.refused:
        st.markdown(view.t("cell.single_refused", d_in=found.d_in, d_out=found.d_out))
        st.code(found.refused, language=None, wrap_lines=True)
    own = view.loaded.config.score_divisor
    scores = r"\frac{Q K^\top}{\sqrt{d'}}" if own is None else view.scaled(r"Q K^\top")
    st.latex(
        r"Q = X W_Q,\quad K = M W_K,\quad V = M W_V \in \mathbb{R}^{n\times d'},\qquad "
        rf"Y = \mathrm{{softmax}}\Big({scores}\Big) V\, W_O,\quad "
        r"W_O \in \mathbb{R}^{d'\times d}"
    )
    st.caption(view.t("cell.single_formula"))


def _pick_width(view: View, cell: Cell) -> int:
    """The width control; defaults to the model's own width if the link's is not possible."""
    offered = widths(view.loaded, cell.site)
    chosen = view.choices(CellChoices).d_out
    width = chosen if chosen in offered else view.loaded.config.d_head
    if len(offered) > 1:
        st.session_state["cell.d_out"] = width
        st.select_slider(
            "d_out",
            offered,
            key="cell.d_out",
            width=420,
            on_change=lambda: session.change(d_out=st.session_state["cell.d_out"]),
        )
    return width


def _shapes(view: View, cell: Cell, found: Single) -> None:
    """Each tensor with its formula, its shape, and its norm at the query or key."""
    wide, narrow = found.d_in, found.d_out
    divisor = f"√{narrow}" if view.loaded.config.score_divisor is None else view.divisor
    rows: tuple[tuple[str, str, str, int], ...] = (
        ("X", "x", view.t("cell.single_stream"), cell.query),
        ("M", "memory", view.t("cell.single_memory"), cell.key),
        ("Q", "q", f"X W_Q · {wide} → {narrow}", cell.query),
        ("K", "k", f"M W_K · {wide} → {narrow}", cell.key),
        ("V", "v", f"M W_V · {wide} → {narrow}", cell.key),
        ("A", "pattern", f"softmax(Q Kᵀ ÷ {divisor})", cell.query),
        ("Z", "z", "A V", cell.query),
        ("Y", "out", f"Z W_O · {narrow} → {wide}", cell.query),
    )
    if cell.site.kind == "self":
        rows = (rows[0], *((a, b, made.replace("M W", "X W"), at) for a, b, made, at in rows[2:]))
    query, key = (
        controls.quoted_at(view, tokens, at)
        for tokens, at in (
            (view.trace.query_tokens(cell.site.name), cell.query),
            (view.trace.key_tokens(cell.site.name), cell.key),
        )
    )
    table(
        ["", *(view.t(f"cell.single_{name}") for name in ("made", "shape", "norm"))],
        [
            [
                f"**{name}**",
                made,
                " × ".join(map(str, found.tensors[tensor].shape)),
                f"{_norm(found.tensors[tensor][at])} · {key if name in 'MKV' else query}",
            ]
            for name, tensor, made, at in rows
        ],
        "llrr",
    )


def _norm(row: np.ndarray) -> str:
    return fixed(float(np.linalg.norm(row)))


def _reading(view: View, found: Single) -> str:
    """Whether this equals the model's head, and the effect of dividing by √d_in."""
    own = "same" if found.apart < ROUNDING else "positions"
    kind = own if found.own else "other"
    apart = percent(found.apart) if found.apart >= ROUNDING else number(found.apart)
    values = {"d_out": found.d_out, "apart": apart, "parameters": f"{found.parameters:,}"}
    if kind == "positions":
        lacks = (view.t(f"cell.single_lack_{name}") for name in found.lacks)
        values["more"] = view.t("heads.and").join(lacks)
    words = view.t(f"cell.single_{kind}", **values)
    if math.isnan(found.entropy) or found.d_in == found.d_out:
        return words
    bits = {"entropy": fixed(found.entropy), "wide": fixed(found.entropy_wide)}
    scale = "flatter" if found.entropy_wide > found.entropy else "sharper"
    said = view.t(f"cell.single_{scale}", d_in=found.d_in, most=fixed(found.most), **bits)
    return f"{words} {said}"
