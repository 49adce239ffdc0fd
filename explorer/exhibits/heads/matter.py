"""Which heads matter: the ablation of every head as a map; a click ablates a head as an edit."""

from typing import Any

import numpy as np

from explorer.analysis.heads.ablation import Ablation, ablating
from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.heads.choices import HeadsChoices
from explorer.exhibits.heads.opened import Opened, ablation
from explorer.exhibits.links import State
from explorer.exhibits.saying import head_name
from explorer.figures.maps import head_maps
from explorer.runs.edits import HeadOff
from explorer.runs.passes import Steps
from explorer.runs.rerun import written_tokens
from models.hooks import ROLES

LITTLE = 0.1
"""Nats: a smaller change of the whole text's log-probability counts as negligible."""
AT_ONCE = 45e9
"""Most heads x tokens (source and target) x parameters that run without a click: 80 tokens of a
translator with 72 heads and 7.6 million parameters."""


def ablated(run: Run, is_wanted: bool) -> Steps[Ablation | None]:
    """Every head of a run ablated, one at a time; None if nobody asks for it."""
    return (yield from ablation.steps(run)) if is_wanted else None


def is_wanted(view: View) -> bool:
    """Whether the ablation is quick, requested, or cached."""
    if not written_tokens(view.trace):
        return False
    heads, count = _sizes(view)
    choices = view.choices(HeadsChoices)
    return (
        not view.asks
        or heads * count * view.loaded.n_parameters <= AT_ONCE
        or choices.ablated == view.run
        or choices.measure == "needed"
        or ablation.is_kept(view.run)
    )


def _sizes(view: View) -> tuple[int, int]:
    """The numbers of heads and tokens."""
    trace = view.trace
    heads = sum(site.n_heads for site in trace.sites)
    return heads, len(trace.src_tokens) + len(trace.tgt_tokens)


def _request(view: View) -> b.Blocks:
    """Why nothing is ablated: nothing was predicted, or it takes long, with a button."""
    if not written_tokens(view.trace):
        silent = not view.trace.config.lm_head
        yield b.Note(view.t("matter.no_logits" if silent else "matter.nothing"))
        return
    heads, count = _sizes(view)
    yield b.Prose(view.t("matter.ask", heads=heads, count=count))
    yield b.Button("heads.ablate", view.t("matter.run"), b.choose(ablated=view.run))


def show(result: Ablation | None, view: View) -> b.Blocks:
    """The map of all heads with its reading, or a button that computes it."""
    if result is None:
        if not is_wanted(view):
            yield from _request(view)
        return
    yield b.Title(view.t("matter.title"), large=True)
    (site, head), totals = result.most_needed(), result.totals
    loss = -float(totals.min())
    reading = view.t(
        "matter.reading" if loss >= 0.005 else "matter.reading_none",
        kind=view.t(f"kinds.{site.role}"),
        name=head_name(view, (site.layer, head)),
        loss=f"{loss:.2f}",
        little=int((np.abs(totals) < LITTLE).sum()),
        count=len(totals),
        limit=LITTLE,
    )
    opens = b.choose(elsewhere=True, site=site.role, layer=site.layer, head=head)
    words = (
        b.Prose(view.t("matter.lead")),
        b.Sentence("matter", reading),
        b.Button("heads.open_needed", view.t("matter.open"), opens),
    )
    yield b.Columns(((_map(result, view),), words), (3, 2))
    yield b.Code((ablating,))


def _map(result: Ablation, view: View) -> b.Matrices:
    kinds = [kind for kind in ROLES if kind in result.delta_logprob]
    edits = {
        (at, site.layer, head): HeadOff(site.name, head)
        for at, kind in enumerate(kinds)
        for site in view.sites_of(kind)
        for head in range(site.n_heads)
    }
    shown = Opened(view).current
    current = HeadOff(shown.site.name, shown.head or 0) if shown and shown.site else None
    drawn = head_maps(
        [result.delta_logprob[kind] for kind in kinds],
        [view.t(f"kinds.{kind}") for kind in kinds],
        off=[address for address, edit in edits.items() if edit in view.edits],
        selected=next((at for at, edit in edits.items() if edit == current), None),
        words=view.words("figures.maps"),
    )
    return b.Matrices(
        "heads.map", drawn, picked=lambda cell: _switch(edits[cell[0], cell[1], cell[2]])
    )


def _switch(edit: HeadOff) -> b.Change:
    """Ablate a head, or restore it."""

    def choices(state: State) -> dict[str, Any]:
        without = tuple(change for change in state.edits if change != edit)
        return {"edits": without if edit in state.edits else (*state.edits, edit)}

    return b.Change(choices)


EXHIBIT = Exhibit(
    ablated,
    show,
    inputs={"is_wanted": is_wanted},
    wait=Wait(
        "matter.working",
        long=lambda view: is_wanted(view) and not ablation.is_kept(view.run),
        after="heads.heads",
    ),
)
