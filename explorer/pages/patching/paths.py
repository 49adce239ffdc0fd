"""Path patching: the effect of one head on another through the latter's query, key or value."""

import math

import numpy as np
import streamlit as st

from explorer.analysis.patching.maps import Cell, Map
from explorer.analysis.patching.pair import Pair
from explorer.analysis.patching.patched import patched_run
from explorer.analysis.patching.paths import Into, Paths, arriving, path_map, receivers
from explorer.engine import jobs
from explorer.exhibits.saying import in_a_row
from explorer.exhibits.view import View
from explorer.numbers import fixed
from explorer.pages.patching import cached
from explorer.pages.patching.cached import Asked
from explorer.pages.patching.choices import PatchingChoices
from explorer.pages.patching.patch import (
    LITTLE,
    against_chance,
    chance,
    computed_map,
    nothing_to_bring_back,
)
from explorer.pages.patching.second import two_runs
from explorer.pages.patching.shown import cell_words, draw_map, head_words, run_tables, said
from explorer.ui import controls, running, session
from explorer.ui.parts import pick_one
from explorer.ui.stage import hero


def head_to_head(view: View) -> None:
    """Draw this part: a receiver, a map of the senders, its reading, the run with one path
    patched."""
    found = two_runs(view)
    if found is None:
        return
    asked, both, _ = found
    if both.alike:
        nothing_to_bring_back(view, both)
        return
    heads = computed_map(view, asked, both, "z")
    if heads is None:
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        into = _pick_input(view)
        receiver = _pick_receiver(view, heads, into)
    if receiver is None:
        st.info(view.t("patching.no_receiver"), icon=":material/lightbulb:")
        return
    key = (asked, receiver, into)
    shown = running.awaited(
        "patching.paths",
        key,
        lambda tell: cached.paths_of(*key, progress=jobs.whole(tell)),
        view.t("patching.working"),
        view.lang,
    )
    if shown is None:
        return
    chosen = view.choices(PatchingChoices).sender
    best = shown.heads.best()
    sender = chosen if chosen is not None and _has(shown.heads, chosen) else best
    with controls.reading_first():
        controls.reading("patching-paths", _reading(view, shown, best))
        with hero():
            draw_map(
                view,
                both,
                shown.heads,
                sender,
                "patching.senders",
                lambda cell: session.change(sender=cell),
            )
    chance(view, shown.heads)
    if _has(shown.heads, sender):
        _run(view, asked, shown, sender)
    controls.small_print(
        view,
        "patching",
        formula=(
            r"z'_h = z^{(1)}_h, \quad z'_{h'} = z^{(2)}_{h'} \ (h' \ne h) \quad\Rightarrow\quad "
            + rf"{into}'_r \quad\Rightarrow\quad \text{{recovered}}({into}_r := {into}'_r)",
        ),
        code=(path_map, arriving, patched_run),
        numbers=lambda: _numbers(view, both, shown),
        explained="patching.paths_formula",
    )


def _has(heads: Map, cell: Cell) -> bool:
    return heads.has(cell) and not math.isnan(heads.effect(cell))


def _pick_input(view: View) -> Into:
    return pick_one(
        view,
        "into_head",
        view.t("patching.into_head"),
        ("v", "k", "q"),
        "patching.into_head",
        lambda into: view.t(f"patching.whats.{into}"),
        help=view.t("patching.into_head_help"),
    )


def _pick_receiver(view: View, heads: Map, into: Into) -> Cell | None:
    """The control for the receiver, sorted by the share that each head's output recovers."""
    reached = {(site.role, site.layer) for site in receivers(view.loaded, into)}
    cells = [
        (part.name, row, column)
        for part in heads.parts
        for row, column in np.ndindex(part.effects.shape)
        if (part.name, row) in reached
    ]
    cells.sort(key=lambda cell: -np.nan_to_num(heads.effect(cell)))
    if not cells:
        return None
    chosen = view.choices(PatchingChoices).receiver
    now = chosen if chosen in cells else cells[0]
    with st.container(width=420):
        controls.pick(
            view.t("patching.receiver"),
            cells,
            now,
            "patching.receiver",
            lambda cell: session.change(receiver=cell, sender=None),
            format_func=lambda cell: (
                f"{head_words(view, cell)} · {said(np.nan_to_num(heads.effect(cell)))}"
            ),
            help=view.t("patching.receiver_help"),
        )
    return now


def _input_words(view: View, into: Into) -> str:
    """The name of a head's input, for use in a sentence."""
    words = view.t(f"patching.whats.{into}")
    return words[0].lower() + words[1:]


def _reading(view: View, shown: Paths, best: Cell) -> str:
    whole = view.t(
        "patching.paths_read",
        into=_input_words(view, shown.into),
        receiver=head_words(view, shown.receiver),
        everything=said(shown.everything),
        words=said(shown.words),
    )
    whole = whole[0].upper() + whole[1:]
    if not _has(shown.heads, best):
        return whole
    effect = shown.heads.effect(best)
    much = effect >= LITTLE * abs(shown.everything)
    key = "patching.paths_best" if much else "patching.paths_none"
    words = view.t(key, sender=head_words(view, best), effect=said(effect))
    return in_a_row([whole, words, against_chance(view, shown.heads, effect) if much else ""])


def _run(view: View, asked: Asked, shown: Paths, sender: Cell) -> None:
    st.subheader(view.t("patching.run_title"), anchor=False)
    found = cached.path_run_of(asked, shown.receiver, shown.into, sender)
    st.markdown(
        view.t(
            "patching.path_reading",
            sender=head_words(view, sender),
            receiver=head_words(view, shown.receiver),
            into=_input_words(view, shown.into),
            effect=said(found.effect),
        )
    )
    run_tables(view, found)


def _numbers(view: View, both: Pair, shown: Paths) -> dict[str, list[object]]:
    cells = [
        ((part.name, row, column), float(value))
        for part in shown.heads.parts
        for (row, column), value in np.ndenumerate(part.effects)
        if not math.isnan(value)
    ]
    names = [cell_words(view, both, "z", cell) for cell, _ in cells]
    values = [value for _, value in cells]
    return {
        view.t("patching.sender"): [
            *names,
            view.t("patching.words"),
            view.t("patching.everything"),
        ],
        view.t("patching.recovered"): [
            fixed(value, 4) for value in (*values, shown.words, shown.everything)
        ],
    }
