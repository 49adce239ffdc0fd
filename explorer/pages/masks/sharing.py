"""Sentences that share a batch with this one: correct masks keep them independent."""

import streamlit as st

from explorer.analysis.masks.batch import Member
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.numbers import number
from explorer.pages.masks import cached
from explorer.problems import InputProblem
from explorer.text import shorten
from explorer.ui import controls
from explorer.ui.problem import show_problem
from explorer.ui.tables import table

NOTICED = 5e-5
"""A change of a weight from which it is more than the rounding of float32."""


def shared_batch(view: View) -> None:
    """The batch of this sentence and those beside it, each alone and in it."""
    st.markdown(f"**{view.t('masks.batch')}**")
    if not view.others:
        st.caption(view.t("masks.batch_empty"))
        return
    texts = (view.text, *view.others)
    try:
        with st.spinner(view.t("shell.working")):
            found = cached.batch(view.loaded.name, texts, view.trace.edits)
    except InputProblem as problem:
        show_problem(problem, view.lang)
        return
    worst = max(found, key=lambda member: member.weight_moved)
    noticed = worst.weight_moved >= NOTICED
    same = "masks.batch_same_edits" if view.trace.edits else "masks.batch_same"
    controls.reading(
        "batch",
        view.t(
            "masks.batch_moved" if noticed else same,
            points=f"{100 * worst.weight_moved:.1f}",
            text=f"“{escape(shorten(worst.text, 40))}”",
            exact=number(worst.weight_moved),
        ),
    )
    _table(view, found)


def _table(view: View, found: tuple[Member, ...]) -> None:
    translates = bool(view.sites_of("cross"))
    names = ["sentence", "text_pads", "moved_head"]
    if translates:
        names = ["sentence", "pads", "alone", "together", "moved_head"]
    rows = []
    for member in found:
        same = member.alone == member.together
        together = escape(member.together)
        cells = [
            escape(member.text),
            _pads(member),
            *((escape(member.alone), together if same else f"**{together}**") * translates),
            f"{100 * member.weight_moved:.1f}",
        ]
        rows.append(cells)
    table([view.t(f"masks.batch_{name}") for name in names], rows, "l" * (len(names) - 1) + "r")


def _pads(member: Member) -> str:
    return (
        f"{member.src_pads} + {member.tgt_pads}" if member.src_str_tokens else f"{member.tgt_pads}"
    )
