"""Which heads matter: every head ablated, as a map; and whether the open head's attention weight
shows it, compared with three other measures of its effect on one output token.

A click on the map ablates a head as an edit.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.analysis.heads.ablation import Ablation, ablating
from explorer.analysis.heads.attribution import (
    MEASURES,
    Attribution,
    HeadRanks,
    Measure,
    attribute,
    likely,
)
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.heads.sides import is_ablated
from explorer.exhibits.links import State
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import head_name, quoted, quoted_at
from explorer.figures.maps import head_maps
from explorer.figures.theme import show as visible
from explorer.library import LoadedModel
from explorer.numbers import fixed, percent, signed
from explorer.runs.edits import HeadOff
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace
from models.hooks import ROLES

LITTLE = 0.1
"""Nats: a smaller change of the whole text's log-probability counts as negligible."""


@dataclass(frozen=True, eq=False)
class Matter:
    """Every head ablated, and the four measures of all heads for one output token; instead of
    these, the reason why no token is measured."""

    ablation: Ablation
    measured: Attribution | str


def compute(loaded: LoadedModel, run: Run, trace: Trace, position: int | str) -> Steps[Matter]:
    """`position` is the position of the output token, or the reason why there is none."""
    ablated = yield from cache.ablation.steps(run)
    if isinstance(position, str):
        return Matter(ablated, position)
    return Matter(ablated, attribute(loaded, trace, position, ablated))


def show(matter: Matter | None, view: View) -> b.Blocks:
    """The map of all heads with its reading, and the open head's measures."""
    if matter is None:  # the heads above are still measured
        return
    yield b.Title(view.t("heads.matter.title"), large=True)
    (site, head), totals = matter.ablation.most_needed(), matter.ablation.totals
    loss = -float(totals.min())
    is_needed = loss >= 0.005
    reading = view.t(
        "heads.matter.reading" if is_needed else "heads.matter.reading_none",
        kind=view.t("kinds", site.role),
        name=head_name(view, (site.layer, head)),
        loss=f"{loss:.2f}",
        little=int((np.abs(totals) < LITTLE).sum()),
        count=len(totals),
        limit=LITTLE,
    )
    opens = b.choose(elsewhere=True, site=site.role, layer=site.layer, head=head)
    words: list[b.Block] = [b.Prose(view.t("heads.matter.lead")), b.Sentence("matter", reading)]
    if is_needed:
        words.append(b.Button("heads.open_needed", view.t("heads.matter.open"), opens))
    yield b.Columns(((_map(matter.ablation, view),), words), (3, 2))
    yield b.Title(view.t("heads.measured.title"), large=True)
    yield from _measures(matter.measured, view)
    yield b.Code((ablating, *(() if isinstance(matter.measured, str) else (attribute,))))


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
        [view.t("kinds", kind) for kind in kinds],
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


# The open head.


def _position(view: View) -> int | str:
    """The position of the output token, or why there is none."""
    current, n_real = Opened(view).current, int(view.trace.tgt_valid.sum())
    if current is None or current.site is None or current.head is None:
        return "no_head"
    if current.site.query_stream != "tgt":
        return min(view.step, n_real - 1)
    return view.row if view.row < n_real else "pad"


def _measures(measured: Attribution | str, view: View) -> b.Blocks:
    """The four measures of the current head, for the token predicted at the query."""
    current = Opened(view).current
    if isinstance(measured, str) or current is None or current.site is None or current.head is None:
        yield b.Note(view.t("heads.measured.unmeasured", str(measured)))
        return
    if current.site.query_stream != "tgt":
        yield _pick_token(view)
    ranked = measured.ranks(current.site.name, current.head)
    token = quoted(view, measured.str_token)
    yield b.Prose(view.t("heads.measured.lead", name=current.name, token=token))
    heaviest = quoted_at(view, view.trace.str_tokens(current.site.key_stream), ranked.key)
    yield b.Columns([(_number(view, name, ranked, heaviest),) for name in MEASURES], gap="small")
    yield b.Sentence("measured", _verdict(view, ranked))
    others = {name: ranked.agreement[name] for name in ("contribution", "gradient")}
    if not any(map(math.isnan, others.values())):
        rhos = {name: fixed(rho) for name, rho in others.items()}
        yield b.Note(view.t("heads.measured.agree_others", **rhos))


def _pick_token(view: View) -> b.Pick:
    """The control for the output token, for an encoder without output positions."""
    n_real = int(view.trace.tgt_valid.sum())
    written = view.trace.tgt_str_tokens[1:n_real]
    tokens = (*written, view.trace.predicted_str_tokens[n_real - 1])
    names = [f"{step}  {visible(token)}" for step, token in enumerate(tokens, 1)]
    more = b.More(label="heads.measured.token", said=names.__getitem__, form="menu", width=240)
    return pick_one(
        view, "heads.token", range(len(tokens)), min(view.step, n_real - 1), "step", **more
    )


def _number(view: View, name: Measure, ranked: HeadRanks, key: str) -> b.Pane:
    """One measure with its rank among all heads."""
    rank = view.t("heads.measured.rank", rank=ranked.ranks[name], count=ranked.n_heads)
    caption = f"{view.t('heads.measured.at', key=key)} · {rank}" if name == "weight" else rank
    title = b.Note(view.t("heads.measured.measures", name), view.t("heads.measured.help", name))
    value = b.Prose(f"**{_value(view, name, ranked.values[name])}**")
    return b.Pane((title, value, b.Note(caption)), key=f"cause-{name}", gap=None)


def _value(view: View, name: Measure, value: float) -> str:
    if name == "weight":
        return percent(value)
    if name == "contribution":
        return f"{value:.2f}"
    return view.t("heads.measured.nats", value=signed(value, 3))


def _verdict(view: View, ranked: HeadRanks) -> str:
    rho, limit = ranked.agreement["weight"], likely(ranked.n_heads)
    if math.isnan(rho):  # with one visible key, its weight is 1 in every head
        return view.t("heads.measured.agree_equal")
    return view.t("heads.measured.agree", rho=fixed(rho), limit=fixed(limit), count=ranked.n_heads)


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"position": _position},
    open=is_ablated,
    wait=Wait(
        "heads.matter.working",
        after="heads.heads",
        long=lambda view: not cache.ablation.is_kept(view.run),
    ),
)
