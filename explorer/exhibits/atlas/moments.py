"""The training snapshot at which a head appears."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from jaxtyping import Float

from explorer.analysis.atlas.store import Atlas, Head
from explorer.analysis.roles import MEASURES, Measure
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.atlas.choices import AtlasChoices
from explorer.exhibits.atlas.measured import Which, measured, texts_for
from explorer.exhibits.atlas.shown import (
    DIFFERENCE,
    kind_words,
    least_share,
    place,
    short,
    shown_atlas,
)
from explorer.exhibits.picking import pick_one
from explorer.figures import curves
from explorer.library import at_step, snapshots, split_step
from explorer.numbers import percent
from explorer.runs.passes import Steps, walked

MOST_LINES = 6
Atlases = tuple[Atlas, ...]


def compute(asked: tuple[Which, ...]) -> Steps[Atlases]:
    """The atlases of several training steps over the same sentences, without ablation."""
    atlases = []
    for done, which in enumerate(asked, 1):
        steps = measured(cache.open_model(which.model), which.texts, ablate=False)
        atlases.append(walked(steps))
        yield done, len(asked)
    return tuple(atlases)


def appears(does: Sequence[bool]) -> int | None:
    """The first snapshot from which on a head always shows a behaviour; None for never."""
    last = next((at for at in reversed(range(len(does))) if not does[at]), -1)
    return last + 1 if last + 1 < len(does) else None


def grown(strengths: Float[np.ndarray, "moment measure"]) -> Measure:
    """The measure that grew most from the first snapshot to the last; never `spread`, since most
    heads are spread out before they have learned anything."""
    gain = np.nan_to_num(strengths[-1] - strengths[0], nan=-np.inf)
    gain[MEASURES.index("spread")] = -np.inf
    return MEASURES[int(gain.argmax())]


def steps_of(view: View) -> tuple[int, ...]:
    """The training steps of the open model's snapshots."""
    return snapshots(split_step(view.loaded.name)[0])


def asked_of(view: View) -> tuple[Which, ...]:
    """An atlas of each snapshot and of the trained model, over the same sentences."""
    base = split_step(view.loaded.name)[0]
    texts, names = texts_for(base), [at_step(base, step) for step in steps_of(view)]
    return tuple(Which(name, texts=texts) for name in (*names, base))


def show(atlases: Atlases | None, view: View) -> b.Blocks:
    """The open head's main measure over the training steps."""
    if atlases is None:
        return
    head, steps, ended = shown_atlas(view).head, steps_of(view), view.t("atlas.moment_end")
    measure, offered = _measure(atlases, head, view)
    over = np.array([atlas.strengths[:, MEASURES.index(measure)] for atlas in atlases])
    moments = [*map(str, steps), ended]
    kind, drawn = kind_words(view, measure), _drawn(atlases[-1], head, over[-1])
    yield b.Title(view.t("atlas.moments"), large=True)
    yield b.Hero((b.Sentence("atlas-moments", _reading(view, head, measure, over, moments)),))
    label = partial(kind_words, view)
    yield pick_one(view, "atlas.traced", offered, measure, said=label, form="menu", width=280)
    draw = partial(
        curves.lines,
        np.array([*steps, steps[-1] + (steps[-1] - steps[-2] if len(steps) > 1 else 1)]),
        100 * np.array([over[:, mate.number] for mate in drawn]),
        [short(mate) for mate in drawn],
        x_title=view.t("atlas.moments_axis", end=ended),
        y_title=view.t("atlas.axis_share", kind=kind),
    )
    yield b.Hero((b.Chart("atlas.moments", draw, view.t("atlas.moments")),))
    count = atlases[-1].counts["sentences"]
    yield b.Note(view.t("atlas.moments_note", count=count))
    yield b.Formula(DIFFERENCE, view.t("atlas.compare_formula"))
    chosen = view.choices(AtlasChoices).traced
    yield b.Code((measured, appears) if chosen else (measured, grown, appears))
    columns = {short(mate): over[:, mate.number].round(4).tolist() for mate in drawn}
    yield b.Numbers(lambda: {view.t("atlas.moment"): moments, **columns})


def _measure(atlases: Atlases, head: Head, view: View) -> tuple[Measure, list[Measure]]:
    """The measure that is followed, and all that can be."""
    strengths = np.array([atlas.strengths[head.number] for atlas in atlases])  # [moment, measure]
    offered = [name for name in MEASURES if np.isfinite(strengths[:, MEASURES.index(name)]).any()]
    chosen = view.choices(AtlasChoices).traced
    return next((name for name in offered if name == chosen), None) or grown(strengths), offered


def _drawn(last: Atlas, head: Head, shares: Float[np.ndarray, " head"]) -> list[Head]:
    """The head, and the heads of its kind with the largest share at the end."""
    mates = [mate for mate in last.heads if mate.role == head.role and mate != head]
    mates.sort(key=lambda mate: -np.nan_to_num(shares[mate.number]))
    return [head, *mates[: MOST_LINES - 1]]


def _reading(
    view: View,
    head: Head,
    measure: Measure,
    over: Float[np.ndarray, "moment head"],
    moments: Sequence[str],
) -> str:
    shares, limit = over[:, head.number], least_share(measure)
    since = appears((shares >= limit).tolist())
    values = {
        "place": place(view, head),
        "kind": kind_words(view, measure),
        "first": percent(float(shares[0])),
        "last": percent(float(shares[-1])),
        "limit": percent(limit),
    }
    if since is None:
        return view.t("atlas.moments_never", **values)
    return view.t("atlas.moments_from", step=moments[since], **values)


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"asked": asked_of},
    open=lambda view: bool(steps_of(view)),
    wait=Wait("atlas.moments_working", after="atlas.measured"),
)
