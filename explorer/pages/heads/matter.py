"""Head importance: the ablation of every head as a map; a click ablates a head as an edit."""

from functools import partial

import streamlit as st

from explorer.analysis.heads.ablation import Ablation
from explorer.analysis.heads.ranks import LITTLE, need
from explorer.engine import jobs
from explorer.exhibits.heads import grids
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.view import View
from explorer.figures.head_map import head_map
from explorer.runs.edits import HeadOff
from explorer.runs.generation import StepsDone
from explorer.runs.rerun import written_tokens
from explorer.ui import controls, running, session
from models.hooks import ROLES

JOB = "heads.ablation"
AT_ONCE = 45e9
"""Most heads x tokens (source and target) x parameters that run without a click: 80 tokens of a
translator with 72 heads and 7.6 million parameters."""


def ablation_of(view: View) -> Ablation | None:
    """The ablation of every head if cached, quick or requested; None before that."""
    if not written_tokens(view.trace):
        silent = not view.trace.config.lm_head
        st.caption(view.t("matter.no_logits" if silent else "matter.nothing"))
        return None
    n_tokens = len(view.trace.src_tokens) + len(view.trace.tgt_tokens)
    n_heads = sum(site.n_heads for site in view.trace.sites)
    work = n_heads * n_tokens * view.loaded.n_parameters
    if work > AT_ONCE and not grids.ablation.is_kept(view.run):
        job = st.session_state.get(JOB)
        if job is None or job.key != view.run:
            st.markdown(view.t("matter.ask", heads=n_heads, count=n_tokens))
            if not st.button(view.t("matter.run"), key="heads.ablate"):
                return None
    return computed(view)


def computed(view: View) -> Ablation | None:
    """The ablation of the view's run; None while computing or after a stop."""
    work = partial(_ablate, view)
    return running.awaited(JOB, view.run, work, view.t("matter.working"), view.lang)


def begun(view: View) -> Ablation | None:
    """`computed` without a progress bar, for a picture above the map, which shows the progress."""
    job = running.job(JOB, view.run, partial(_ablate, view))
    if not job.wait(running.PATIENCE):
        return None
    try:
        return job.result()
    except jobs.StoppedError:
        return None


def _ablate(view: View, tell: StepsDone) -> Ablation:
    return grids.ablation(view.run, progress=jobs.whole(tell))


def heads_that_matter(choice: Opened, ablation: Ablation) -> None:
    """The map of all heads with its reading."""
    view = choice.view
    st.subheader(view.t("matter.title"), anchor=False)
    left, right = st.columns([3, 2], gap="large")
    with left:
        _map(choice, ablation)
    found = need(ablation)
    site = view.trace.site(found.site)
    with right:
        st.markdown(view.t("matter.lead"))
        with st.container(key="reading-matter"):
            st.markdown(
                view.t(
                    "matter.reading" if found.loss >= 0.005 else "matter.reading_none",
                    kind=view.t(f"kinds.{site.role}"),
                    layer=site.layer + 1,
                    head=found.head + 1,
                    loss=f"{found.loss:.2f}",
                    little=found.little,
                    count=found.n_heads,
                    limit=LITTLE,
                )
            )
        st.button(
            view.t("matter.open"),
            key="heads.open_needed",
            on_click=_open,
            args=(site.role, site.layer, found.head),
        )


def _open(kind: str, layer: int, head: int) -> None:
    session.change_site(site=kind, layer=layer, head=head)


def _map(choice: Opened, ablation: Ablation) -> None:
    view = choice.view
    kinds = [kind for kind in ROLES if kind in ablation.delta_logprob]
    addresses = {
        (at, site.layer, head): HeadOff(site.name, head)
        for at, kind in enumerate(kinds)
        for site in view.sites_of(kind)
        for head in range(site.n_heads)
    }
    shown = choice.current
    figure = head_map(
        [ablation.delta_logprob[kind] for kind in kinds],
        [view.t(f"kinds.{kind}") for kind in kinds],
        off=[address for address, edit in addresses.items() if edit in view.edits],
        selected=next(
            (
                address
                for address, edit in addresses.items()
                if shown and shown.site and edit == HeadOff(shown.site.name, shown.head or 0)
            ),
            None,
        ),
        dark=view.dark,
        words=view.words("figures.head_map"),
    )
    # A new key per change resets the chart's click, so that the same head can be clicked again.
    turn = st.session_state.setdefault("heads.map.turn", 0)
    key = f"heads.map.{turn}"
    controls.chart(
        figure,
        key,
        alt=view.t("matter.title"),
        below_picture=True,
        on_select=partial(_switch, key, view, tuple(addresses.values())),
        selection_mode="points",
    )


def _switch(key: str, view: View, heads: tuple[HeadOff, ...]) -> None:
    """Ablate the clicked head, or restore it."""
    point = controls.clicked_point(key, len(heads))
    if point is None:
        return
    edit = heads[point]
    st.session_state["heads.map.turn"] += 1
    without = tuple(each for each in view.edits if each != edit)
    session.change(edits=without if edit in view.edits else (*view.edits, edit))
