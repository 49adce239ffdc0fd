"""Which heads matter: the ablation of every head as a map, together with the measure of that name.
A click ablates a head as an edit."""

from typing import Any

import numpy as np

from explorer.analysis.heads.ablation import Ablation, ablating
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.heads.choices import HeadsChoices
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.links import State
from explorer.exhibits.saying import head_name
from explorer.figures.maps import head_maps
from explorer.runs.edits import HeadOff
from explorer.runs.rerun import written_tokens
from models.hooks import ROLES

LITTLE = 0.1
"""Nats: a smaller change of the whole text's log-probability counts as negligible."""


def is_open(view: View) -> bool:
    """Whether the ablation of all heads is requested, and has an output to measure."""
    is_requested = view.choices(HeadsChoices).measure == "needed" or not view.asks
    return is_requested and bool(written_tokens(view.trace))


def show(result: Ablation | None, view: View) -> b.Blocks:
    """The map of all heads with its reading."""
    if result is None:  # the heads above are still measured
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
    cache.ablation, show, open=is_open, wait=Wait("matter.working", after="heads.heads")
)
