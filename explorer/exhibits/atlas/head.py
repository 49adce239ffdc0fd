"""The open head: what it attends to, what ablating it costs, and the heads most like it."""

from functools import partial

import numpy as np

from explorer.analysis.atlas.make import OneByOne
from explorer.analysis.atlas.store import RATE, Text
from explorer.analysis.roles import LACKING, MEASURES, REACH, Measure
from explorer.engine.models import alone
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.atlas.opened import (
    WHICH,
    AtlasView,
    kind_words,
    open_head,
    place,
    share_words,
    shown_atlas,
)
from explorer.figures.bars import grouped
from explorer.numbers import fixed, minus, percent


def compute(model: str, stamp: int, said: Text) -> OneByOne:
    """What every head does in the open sentence."""
    return alone(model, stamp, (said,))


def said_in(view: View) -> Text:
    """The open sentence, with its translation if it has one."""
    return Text(view.trace.text, view.trace.output)


def show(one_by_one: OneByOne | None, view: View) -> b.Blocks:
    """Its profile, its numbers, its behaviour in the open sentence, and the most similar heads."""
    if one_by_one is None:
        return
    shown = shown_atlas(view)
    yield b.Title(place(view, shown.head), large=True)
    sides = b.Columns([_profile(shown), _numbers(shown)])
    yield b.Fold(view.t("atlas.profile"), (sides,), inline=True)
    yield b.Sentence("atlas-here", _here(shown, one_by_one))
    yield from _nearest(shown)


def _profile(shown: AtlasView) -> tuple[b.Block, ...]:
    view, head = shown.view, shown.head
    weights, words = shown.atlas.by_offset[head.number], view.words("figures.profile")
    occurs = np.flatnonzero(np.isfinite(weights))
    labels = [minus(str(at - REACH)) for at in occurs]
    if occurs[0] == 0:  # the outermost bars include all larger distances
        labels[0] = f"≤ {labels[0]}"
    if occurs[-1] == 2 * REACH:
        labels[-1] = f"≥ {labels[-1]}"
    draw = partial(
        grouped,
        labels,
        [100 * weights[occurs]],
        [words["distance"]],
        title=words["weight"],
        label_title=words["distance_axis"],
        unit=" %",
    )
    return (b.Chart("atlas.profile", draw, view.t("atlas.profile")),)


def _numbers(shown: AtlasView) -> list[b.Block]:
    """Its measures as a table, and its ablation cost."""
    view, atlas, at = shown.view, shown.atlas, shown.head.number
    names = [view.t("atlas.columns", name) for name in ("what", "top", "weight", "chance")]
    able = [name for name in MEASURES if name not in LACKING[shown.head.role]]
    rows = [_measure(shown, name) for name in able if atlas.rows[at, MEASURES.index(name)]]
    bits, deviation = (fixed(float(values[at])) for values in (atlas.entropy, atlas.spread))
    sentences = [view.t("atlas.entropy", bits=bits, deviation=deviation)]
    if np.isfinite(atlas.distance[at]):
        sentences.append(view.t("atlas.distance", tokens=fixed(float(atlas.distance[at]))))
    return [b.Table(names, rows), *map(b.Prose, (*sentences, cost_words(shown)))]


def _measure(shown: AtlasView, name: Measure) -> list[str]:
    """One row of the table."""
    atlas, place = shown.atlas, (shown.head.number, MEASURES.index(name))
    label, plain = kind_words(shown.view, name), name in ("spread", "alignment")
    weights = [percent(float(values[place])) for values in (atlas.weight, atlas.chance)]
    return [
        f"**{label}**" if name == shown.name.kind else label,
        percent(float(atlas.strengths[place])),
        *(["–", "–"] if plain else weights),
    ]


def cost_words(shown: AtlasView) -> str:
    """The cost of ablating the head, with its interval."""
    view, atlas, at = shown.view, shown.atlas, shown.head.number
    if not np.isfinite(atlas.cost[at]):
        return view.t("atlas.cost_unknown")
    low, high = (float(ends[at]) for ends in atlas.ends)
    if not np.isfinite(low):
        return view.t("atlas.cost_one", cost=nats(float(atlas.cost[at])))
    return view.t(
        "atlas.cost",
        cost=nats(float(atlas.cost[at])),
        low=nats(low),
        high=nats(high),
        count=atlas.cost_sentences,
        heads=int(np.isfinite(atlas.low).sum()),
        level=percent(1 - RATE),
    )


def nats(cost: float) -> str:
    """Format a cost in nats, usually a few hundredths."""
    return minus(f"{cost:.3f}")


def _here(shown: AtlasView, one_by_one: OneByOne) -> str:
    """How far the head shows its main behaviour in the open sentence."""
    view, name = shown.view, shown.name
    share = float(one_by_one.strengths[0, shown.head.number, MEASURES.index(name.nearest)])
    if not np.isfinite(share):
        return view.t("atlas.here_none", kind=kind_words(view, name.nearest))
    return view.t(
        "atlas.here",
        here=share_words(view, name.nearest, percent(share)),
        corpus=percent(name.share),
    )


def _nearest(shown: AtlasView) -> b.Blocks:
    """The heads of the same kind of attention with the most similar patterns."""
    view, atlas, at = shown.view, shown.atlas, shown.head.number
    buttons = []
    for number, like in zip(atlas.near[at], atlas.alike[at], strict=True):
        if number >= 0:
            other = atlas.heads[int(number)]
            kind = kind_words(view, atlas.names[other.number].kind)
            label = f"L{other.layer + 1}·H{other.head + 1} · {percent(float(like))} · {kind}"
            buttons.append(b.Button(f"atlas.near.{other.number}", label, open_head(other)))
    if buttons:
        yield b.Row((b.Prose(view.t("atlas.near")), *buttons), align="center")


EXHIBIT = Exhibit(compute, show, inputs={**WHICH, "said": said_in}, wait=Wait(after="atlas.map"))
