"""What the causal mask is for: what a run without it does, and a model that was trained without."""

from functools import partial
from typing import Any

import streamlit as st

from explorer.analysis.masks.ahead import ahead
from explorer.analysis.masks.reasons import blocked_by
from explorer.analysis.masks.twins import CHEAT, LONGEST, NO_CAUSAL, RIGHT
from explorer.engine import cache
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.figures.heatmap import weights
from explorer.numbers import percent
from explorer.pages.masks import cached, history
from explorer.problems import InputProblem
from explorer.runs.edits import MaskSwitch
from explorer.runs.interventions import rules_in_force
from explorer.ui import controls, session
from explorer.ui.tables import table

PROSE = 640
"""Pixels beside a button; on a phone the words take the whole line, and the button the next."""


def purpose(view: View) -> None:
    """Beside the mask: why it is there, and a switch. Without it: what that does, and to whom.

    Nothing for a model without a causal mask.
    """
    if not view.loaded.config.is_causal:
        return
    on = rules_in_force(view.trace.edits)["causal"]
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.container(width=PROSE if on else "stretch"):
            st.markdown(f"**{view.t('masks.purpose')}** {view.t('masks.purpose_why')}")
        if on:
            st.button(view.t("masks.purpose_off"), key="masks.purpose", on_click=_switch_off)
    if on:
        return
    _looking_ahead(view)
    _twins(view)


def _switch_off() -> None:
    history.change_edits((*session.state().edits, MaskSwitch("causal", False)))


def _looking_ahead(view: View) -> None:
    """The head that looks ahead most, as it was and as it is; why the output need not change."""
    found = ahead(view.trace, view.own_role)
    if found is None:
        return
    place = {"layer": found.layer + 1, "head": found.head + 1}
    words = view.t("masks.ahead", share=percent(found.share), most=percent(found.most), **place)
    controls.reading("ahead", words)
    if found.seen == found.real:
        st.markdown(view.t("masks.newest", real=found.real))
    else:
        st.markdown(view.t("masks.newest_less", real=found.real, seen=found.seen))
    site = view.sites_of(view.own_role)[found.layer]
    titles: dict[str, Any] = {
        "query_title": controls.axis_title(view, "query", site.query_stream),
        "key_title": controls.axis_title(view, "key", site.key_stream),
        "query_stream": site.query_stream,
        "key_stream": site.key_stream,
    }
    kind = view.t(f"kinds.{site.role}")
    shown = [
        (
            caption,
            weights(
                trace.pattern(site.name)[found.head],
                trace.mask(site.name)[found.head],
                trace.query_tokens(site.name),
                trace.key_tokens(site.name),
                blocked_labels=controls.blocker_words(
                    view, blocked_by(trace, site.name)[found.head]
                ),
                words=view.words("figures.heatmap"),
                **titles,
            ),
        )
        for trace, caption in (
            (view.before(), view.t("masks.ahead_with", kind=kind, **place)),
            (view.trace, view.t("masks.ahead_without")),
        )
    ]
    controls.heatmaps(view, shown, "masks.ahead")


def _twins(view: View) -> None:
    """What a model that was trained without the causal mask does with the same sentence."""
    if not view.sites_of("cross") or not {RIGHT, CHEAT} <= set(cache.models()):
        return
    try:
        right, cheat = cached.twins(view.text, view.target)
    except InputProblem:  # the twins know shorter sentences; the page is not about them
        return
    st.markdown(f"**{view.t('masks.twins')}**")
    st.markdown(view.t("masks.twins_lead"))
    rows = [
        (
            view.t(f"masks.twins_{which}"),
            f"{each.loss:.2f}",
            escape(each.writes) or view.t("masks.twins_nothing"),
        )
        for which, each in (("right", right), ("cheat", cheat))
    ]
    table([view.t(f"masks.twins_{name}") for name in ("model", "loss", "writes")], rows, "lrl")
    key = "masks.twins_copies" if cheat.loss < right.loss else "masks.twins_alike"
    losses = {"cheat": f"{cheat.loss:.2f}", "right": f"{right.loss:.2f}"}
    controls.reading("twins", view.t(key, **losses))
    if len(view.text) > LONGEST:
        controls.offer(view, "twins")
    if view.loaded.name != CHEAT:
        st.button(
            view.t("masks.twins_open"),
            key="masks.twins",
            on_click=partial(
                session.change_site, model=CHEAT, edits=NO_CAUSAL, text=view.text, step=None
            ),
        )
