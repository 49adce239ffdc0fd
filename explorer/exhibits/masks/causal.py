"""The purpose of the causal mask: how far a run without it looks ahead, and why the newest row is
unaffected."""

from dataclasses import dataclass

import numpy as np

from explorer.exhibits import Exhibit, View, block as b, saying
from explorer.exhibits.exhibit import CAUSAL
from explorer.exhibits.reasons import BLOCKERS, blocker_codes
from explorer.figures.matrix import Matrix, weights
from explorer.numbers import percent
from explorer.runs.edits import Edit
from explorer.runs.interventions import rules_in_force
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, Role


@dataclass(frozen=True)
class Ahead:
    """Weight that one kind of self-attention gives to later tokens.

    `share` is the mean weight, 0 to 1, that a real token gives to the real tokens after it, over
    all layers and heads and all tokens but the last, which has none after it; `layer` and `head`
    (from 0) do so most, with `most`.
    """

    share: float
    layer: int
    head: int
    most: float


def ahead(trace: Trace, role: Role) -> Ahead | None:
    """Measure a run in its self-attention of this role.

    None if there are fewer than two real tokens.
    """
    sites = trace.sites_of(role)
    real = int((trace.tgt_valid if sites[0].query_stream == "tgt" else trace.src_valid).sum())
    if real < 2:
        return None
    later = np.triu(np.ones((real, real), bool), 1)
    per_head = np.stack(
        [
            (trace.pattern(site.name)[:, :real, :real] * later).sum(-1)[:, :-1].mean(-1)
            for site in sites
        ]
    )  # [layer, head]
    layer, head = (int(at) for at in np.unravel_index(per_head.argmax(), per_head.shape))
    return Ahead(float(per_head.mean()), layer, head, float(per_head[layer, head]))


def compute(
    before: Trace, trace: Trace, edits: tuple[Edit, ...]
) -> tuple[Ahead, np.ndarray, np.ndarray] | None:
    """How far a run without the causal mask looks ahead, and the `blocker_codes` [query, key] of
    the head that does so most, with the mask and without; None if the mask is on."""
    if rules_in_force(edits)["causal"]:
        return None
    role = trace.stack("tgt").role
    lookahead = ahead(trace, role)
    if lookahead is None:
        return None
    site = trace.sites_of(role)[lookahead.layer].name
    codes = (blocker_codes(run, site)[lookahead.head] for run in (before, trace))
    return (lookahead, *codes)


def show(found: tuple[Ahead, np.ndarray, np.ndarray] | None, view: View) -> b.Blocks:
    """Without the mask: why it is there, why the output may not change without it, and the head
    that looks ahead most."""
    if rules_in_force(view.trace.edits)["causal"]:
        return
    if found is None:
        yield b.Prose(view.t("masks.purpose"))
        return
    yield b.Prose(f"{view.t('masks.purpose')}\n\n{view.t('masks.newest')}")
    yield _looking_ahead(view, *found)


def ahead_words(peek: Ahead, view: View) -> str:
    """How far a run looks ahead, in words."""
    place = {"layer": peek.layer + 1, "head": peek.head + 1}
    return view.t("masks.ahead", share=percent(peek.share), most=percent(peek.most), **place)


def _looking_ahead(view: View, peek: Ahead, before: np.ndarray, now: np.ndarray) -> b.Matrices:
    """The head that looks ahead most, before and after."""
    place = {"layer": peek.layer + 1, "head": peek.head + 1}
    site = view.sites_of(view.own_role)[peek.layer]
    with_it = view.t("masks.ahead_with", kind=view.t("kinds", site.role), **place)
    return b.Matrices(
        "masks.ahead",
        (
            (with_it, weights_of(view, view.before(), site, peek.head, before)),
            (view.t("masks.ahead_without"), weights_of(view, view.trace, site, peek.head, now)),
        ),
    )


def weights_of(
    view: View, trace: Trace, site: AttentionSite, head: int, codes: np.ndarray
) -> Matrix:
    """The weights of one head of a run, with the reason for every blocked cell: `codes`
    [query, key] are its `blocker_codes`."""
    return weights(
        trace.pattern(site.name)[head],
        trace.mask(site.name)[head],
        saying.site_axes(view, site, trace),
        why=saying.blocker_words(view, np.array(BLOCKERS)[codes]),
        words=view.words("figures.heatmap"),
    )


EXHIBIT = Exhibit(compute, show, needs=CAUSAL)
