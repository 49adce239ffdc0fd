"""Head importance: the ablation of every head as a map; a click ablates a head as an edit."""

from functools import partial
from typing import Any

from explorer.analysis.heads.ablation import Ablation, ablate
from explorer.analysis.heads.ranks import LITTLE, need
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.heads import grids
from explorer.exhibits.heads.ablation import is_wanted
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.links import State
from explorer.figures.head_map import head_map
from explorer.runs.edits import HeadOff
from models.hooks import ROLES


def show(found: Ablation | None, view: View) -> b.Blocks:
    """The map of all heads with its reading."""
    if found is None:  # while the heads are being ablated
        return
    yield b.Title(view.t("matter.title"), large=True)
    most = need(found)
    site = view.trace.site(most.site)
    reading = view.t(
        "matter.reading" if most.loss >= 0.005 else "matter.reading_none",
        kind=view.t(f"kinds.{site.role}"),
        layer=site.layer + 1,
        head=most.head + 1,
        loss=f"{most.loss:.2f}",
        little=most.little,
        count=most.n_heads,
        limit=LITTLE,
    )
    opens = b.choose(elsewhere=True, site=site.role, layer=site.layer, head=most.head)
    told = (
        b.Prose(view.t("matter.lead")),
        b.Sentence("matter", reading),
        b.Button("heads.open_needed", view.t("matter.open"), opens),
    )
    yield b.Columns(((_map(found, view),), told), (3, 2))
    yield b.Code((ablate,))


def _map(found: Ablation, view: View) -> b.Chart:
    kinds = [kind for kind in ROLES if kind in found.delta_logprob]
    addresses = {
        (at, site.layer, head): HeadOff(site.name, head)
        for at, kind in enumerate(kinds)
        for site in view.sites_of(kind)
        for head in range(site.n_heads)
    }
    shown = Opened(view).current
    current = HeadOff(shown.site.name, shown.head or 0) if shown and shown.site else None
    title = view.t("matter.title")
    draw = partial(
        head_map,
        [found.delta_logprob[kind] for kind in kinds],
        [view.t(f"kinds.{kind}") for kind in kinds],
        off=[address for address, edit in addresses.items() if edit in view.edits],
        selected=next((at for at, edit in addresses.items() if edit == current), None),
        words=view.words("figures.head_map"),
    )
    clicks = [_switch(edit) for edit in addresses.values()]
    return b.Chart("heads.map", draw, title, waits=True, clicks=clicks)


def _switch(edit: HeadOff) -> b.Change:
    """Ablate a head, or restore it."""

    def choices(state: State) -> dict[str, Any]:
        without = tuple(each for each in state.edits if each != edit)
        return {"edits": without if edit in state.edits else (*state.edits, edit)}

    return b.Change(choices)


EXHIBIT = Exhibit(
    grids.ablation, show, working="matter.working", open=is_wanted, after="heads.ablation"
)
