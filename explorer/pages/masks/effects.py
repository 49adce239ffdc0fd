"""What the changed masks did: weights, translation, loss, and the token that comes next."""

from dataclasses import replace

import numpy as np
import streamlit as st

from explorer.analysis.heads.compare import Comparison
from explorer.analysis.masks.forced import Forced
from explorer.analysis.masks.reasons import blocked_by
from explorer.exhibits.view import View
from explorer.figures.heatmap import change, weights
from explorer.figures.matrix import Matrix
from explorer.figures.paired import paired
from explorer.figures.scores import scored
from explorer.numbers import number, percent
from explorer.pages.masks import cached
from explorer.pages.masks.choices import MasksChoices
from explorer.pages.masks.sharing import shared_batch
from explorer.runs.trace import Trace
from explorer.ui import controls
from explorer.ui.parts import one_chosen, pick_one
from explorer.ui.tables import table

ROUNDING = 5e-5
"""A change of a weight up to which it is the rounding of float32: what padding changes in the
sharpest of the shipped models (twin-deep-branch, 2e-5)."""


def pick_effect(view: View) -> None:
    """Of which head and in which form it is shown what the changes did."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.pick_place(view, "masks")
        pick_one(
            view,
            "picture",
            view.t("masks.picture"),
            MasksChoices.pictures,
            "masks.picture",
            lambda name: view.t(f"masks.{name}"),
        )


def effect(view: View, comparison: Comparison) -> None:
    """What the changes did to one head."""
    shown = one_chosen(view, "picture", MasksChoices.pictures)
    if shown == "difference":
        _difference(view, comparison)
    elif shown == "scores":
        _scores(view)
    else:
        _sides(view, comparison)


def more_effects(view: View, comparison: Comparison) -> None:
    """What the changes did to the loss, and what sentences in one batch do to each other."""
    if view.trace.edits:
        _forced(view, comparison)
    shared_batch(view)


def largest(view: View, comparison: Comparison) -> None:
    """The largest change of any weight, as a number."""
    points = 100 * comparison.max_abs
    if comparison.max_abs < ROUNDING:
        why = "edits" if view.trace.edits else "pads" if view.pads else "same"
        exact = number(comparison.max_abs)
        controls.reading("masks", view.t(f"masks.nothing_changed_{why}", exact=exact))
    else:
        site = max(comparison.sites.values(), key=lambda each: each.max_abs).site
        found = view.trace.site(site)
        controls.reading(
            "masks",
            view.t(
                "masks.largest",
                points=f"{points:.2g}" if points < 1 else f"{points:.0f}",
                kind=view.t(f"kinds.{found.role}"),
                layer=found.layer + 1,
            ),
        )


def _written(trace: Trace) -> tuple[tuple[str, str], ...]:
    """What a run wrote, as words of a comparison that all stayed."""
    real = trace.tgt_str_tokens[1 : int(trace.tgt_valid.sum())]
    return tuple((token, "same") for token in real)


def _sides(view: View, comparison: Comparison) -> None:
    sides = (("before", view.before()), ("after", view.trace))
    if view.sites_of("cross"):
        for (name, trace), column in zip(sides, st.columns(2, gap="large"), strict=True):
            words = _written(trace) if name == "before" else comparison.words
            with column:
                side = view.t(f"masks.{name}")
                controls.reading(name, f":gray[{side}] {controls.marked_words(words)}")
    controls.heatmaps(
        view,
        [(view.t(f"masks.{name}"), _pattern(view, trace)) for name, trace in sides],
        "masks.sides",
    )


def _pattern(view: View, trace: Trace) -> Matrix:
    site = view.site.name
    return weights(
        trace.pattern(site)[view.head],
        trace.mask(site)[view.head],
        trace.query_tokens(site),
        trace.key_tokens(site),
        blocked_labels=controls.blocker_words(view, blocked_by(trace, site)[view.head]),
        words=view.words("figures.heatmap"),
        **controls.place_titles(view),
    )


def _scores(view: View) -> None:
    """What the softmax is given: the scores of the changed run, before and after the mask."""
    site, head = view.site, view.head
    values = view.trace.activations[site.hook("scores")][head]
    finite = values[np.isfinite(values)]
    top = float(np.abs(finite).max(initial=1e-6))
    shown = [
        (
            view.t(f"masks.{name}"),
            scored(
                values,
                mask,
                view.trace.query_tokens(site.name),
                view.trace.key_tokens(site.name),
                title=view.t("masks.score"),
                top=top,
                blocked_labels=controls.blocker_words(
                    view, blocked_by(view.trace, site.name)[head]
                ),
                words=view.words("figures.heatmap"),
                **controls.place_titles(view),
            ),
        )
        for name, mask in (("unmasked", None), ("masked", view.trace.mask(site.name)[head]))
    ]
    controls.heatmaps(view, shown, "masks.scores")


def _difference(view: View, comparison: Comparison) -> None:
    site, before = view.site.name, view.before()
    n_query, n_key = comparison.sites[site].difference.shape[1:]
    if not n_query or not n_key:
        st.caption(view.t("masks.nothing_shared"))
        return
    changed = change(
        before.pattern(site)[view.head, :n_query, :n_key],
        view.trace.pattern(site)[view.head, :n_query, :n_key],
        before.query_tokens(site)[:n_query],
        before.key_tokens(site)[:n_key],
        mask_before=before.mask(site)[view.head, :n_query, :n_key],
        mask_after=view.trace.mask(site)[view.head, :n_query, :n_key],
        words=view.words("figures.heatmap"),
        **controls.place_titles(view),
    )
    controls.heatmaps(view, [(view.t("masks.difference"), changed)], "masks.difference")
    if not comparison.sites[site].whole:
        st.caption(view.t("masks.shared_only"))


def _forced(view: View, comparison: Comparison) -> None:
    """The words that the unchanged model wrote, read again under the changed masks."""
    found = cached.forced(replace(view.run, edits=()), view.trace.edits)
    if not found.tokens:
        return
    st.markdown(f"**{view.t('masks.forced')}**")
    left, right = st.columns(2, gap="large")
    with left:
        controls.reading("forced", _reading(view, comparison, found))
        figure = paired(
            found.tokens,
            found.losses_before,
            found.losses_after,
            (view.t("masks.right_masks"), view.t("masks.your_masks")),
            title=view.t("clinic.token_loss"),
            stream="tgt",
            dark=view.dark,
        )
        controls.chart(figure, "masks.loss", alt=view.t("clinic.token_loss"))
    with right:
        _next(view, found)


def _reading(view: View, comparison: Comparison, found: Forced) -> str:
    words = view.t("masks.loss", before=f"{found.loss_before:.2f}", after=f"{found.loss_after:.2f}")
    cheaper = found.loss_after < found.loss_before - 0.005
    if cheaper and not comparison.same_output and _looks_ahead(view.trace):
        return f"{words} {view.t('masks.cheat')}"
    return words


def _looks_ahead(trace: Trace) -> bool:
    """Whether a decoder's row may attend to a real token after it."""
    n_real = int(trace.tgt_valid.sum())
    return any(
        np.triu(trace.mask(site.name)[..., :n_real, :n_real], 1).any()
        for site in trace.sites_of("decoder")
    )


def _place(view: View, found: Forced, step: int) -> str:
    """Where a prediction is made: behind a beginning, or at one token of a text read both ways."""
    if view.trace.predicts == "same":
        return f"{step + 1}  {view.trace.tgt_str_tokens[step]}"
    return "<s> " + " ".join(found.tokens[:step])


def _next(view: View, found: Forced) -> None:
    """The likeliest next tokens behind a beginning of the reader's choice."""
    steps = range(len(found.tokens))
    st.selectbox(
        view.t("masks.next"),
        steps,
        index=min(1, len(found.tokens) - 1),
        format_func=lambda step: _place(view, found, step),
        key=f"masks.next.{len(found.tokens)}",
    )
    step = st.session_state[f"masks.next.{len(found.tokens)}"]
    rows = [
        (
            controls.quoted(view, each.token),
            percent(each.before),
            percent(each.after),
        )
        for each in found.after[step]
    ]
    table(("", view.t("masks.right_masks"), view.t("masks.your_masks")), rows)
