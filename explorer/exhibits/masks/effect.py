"""The effect of changed masks and PADs on one head: its weights before and after, its scores."""

from dataclasses import dataclass

import numpy as np

from explorer.analysis.heads.compare import RunChange
from explorer.exhibits import Exhibit, View, block as b, picking, saying
from explorer.exhibits.masks import forced, largest, twins
from explorer.exhibits.masks.causal import weights_of
from explorer.exhibits.masks.choices import FURTHER, MasksChoices
from explorer.exhibits.reasons import BLOCKERS, blocker_codes
from explorer.figures.matrix import Matrix, change, scores
from explorer.runs.trace import Trace
from models.hooks import AttentionSite


@dataclass(frozen=True, eq=False)
class Blockers:
    """What blocks the cells of a head in both runs, as `blocker_codes`, uint8 [query, key]; and how
    the runs differ."""

    before: np.ndarray
    after: np.ndarray
    moved: RunChange


def compute(
    before: Trace, trace: Trace, site: AttentionSite, head: int, moved: RunChange
) -> Blockers:
    """The blockers of the selected head in both runs."""
    codes = [blocker_codes(run, site.name)[head] for run in (before, trace)]
    return Blockers(codes[0], codes[1], moved)


def show(blockers: Blockers, view: View) -> b.Blocks:
    """The selected head in the selected view, below the menus for both."""
    shown = view.one_of("picture", MasksChoices.pictures)
    pick = picking.pick_one(view, "masks.picture", MasksChoices.pictures, shown)
    yield b.Row((*picking.pick_place(view, "masks"), pick))
    yield from {"sides": _sides, "scores": _scores, "difference": _difference}[shown](
        blockers, view
    )
    offers = {"twins": twins.is_offered, "forced": forced.is_offered}
    offered = [name for name in FURTHER if offers[name](view)]
    now = view.choices(MasksChoices).effect
    asides = picking.pick_aside(view, "masks.effect", "masks.effects", offered, now)
    # In a pane of its own, so that nothing else is sent again when it becomes empty.
    yield b.Pane(tuple(asides) if offered else ())


def _sides(blockers: Blockers, view: View) -> b.Blocks:
    """Both runs side by side."""
    before = view.before()
    sides = (("masks.before", before, blockers.before), ("masks.after", view.trace, blockers.after))
    yield b.Matrices(
        "masks.sides",
        [
            (view.t(title), weights_of(view, trace, view.site, view.head, codes))
            for title, trace, codes in sides
        ],
    )


def _scores(blockers: Blockers, view: View) -> b.Blocks:
    """The scores of the changed run, before and after the mask."""
    site, head = view.site, view.head
    values = view.trace.activations[site.hook("scores")][head]
    top = float(np.abs(values[np.isfinite(values)]).max(initial=1e-6))
    why = saying.blocker_words(view, np.array(BLOCKERS)[blockers.after])

    def drawn(mask: np.ndarray | None) -> Matrix:
        return scores(
            values,
            mask,
            saying.site_axes(view),
            title=view.t("masks.score"),
            top=top,
            why=why,
            words=view.words("figures.heatmap"),
        )

    masked = view.t("masks.masked"), drawn(view.trace.mask(site.name)[head])
    yield b.Matrices("masks.scores", ((view.t("masks.unmasked"), drawn(None)), masked))


def _difference(blockers: Blockers, view: View) -> b.Blocks:
    """After - before, for the leading tokens that both runs share."""
    site, before = view.site.name, view.before()
    moved = blockers.moved.sites[site]
    if not moved.n_query or not moved.n_key:
        yield b.Note(view.t("masks.nothing_shared"))
        return
    shared = (view.head, slice(moved.n_query), slice(moved.n_key))
    tokens = (before.query_tokens(site)[: moved.n_query], before.key_tokens(site)[: moved.n_key])
    changed = change(
        before.pattern(site)[shared],
        view.trace.pattern(site)[shared],
        saying.site_axes(view, tokens=tokens),
        masks=(before.mask(site)[shared], view.trace.mask(site)[shared]),
        words=view.words("figures.heatmap"),
    )
    yield b.Matrices("masks.difference", ((view.t("masks.pictures.difference"), changed),))
    if not moved.whole:
        yield b.Note(view.t("masks.shared_only"))


EXHIBIT = Exhibit(compute, show, inputs={"moved": largest.moved})
