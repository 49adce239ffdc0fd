"""Comparison of two models head by head, and of training steps: when does a head appear?"""

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from explorer.analysis.atlas.here import measured
from explorer.analysis.atlas.moments import appears, grown
from explorer.analysis.atlas.names import alike_by_chance, name_of
from explorer.analysis.atlas.store import Head, numbers_of
from explorer.analysis.atlas.sums import MEASURES
from explorer.engine import cache, jobs
from explorer.exhibits.escape import escape
from explorer.exhibits.saying import model_title as title
from explorer.figures import curves
from explorer.figures.atlas import scatter
from explorer.library import at_step, snapshots, split_step
from explorer.numbers import fixed, percent
from explorer.pages.atlas import cached
from explorer.pages.atlas.cached import Which
from explorer.pages.atlas.choices import AtlasChoices
from explorer.pages.atlas.heads import axes_of, axis_title
from explorer.pages.atlas.shown import (
    Shown,
    does_it,
    kind_words,
    measured_now,
    name_words,
    place,
    short,
    values,
)
from explorer.problems import InputProblem
from explorer.ui import controls, running, session
from explorer.ui.parts import pick_model
from explorer.ui.problem import show_problem
from explorer.ui.stage import hero
from explorer.ui.tables import table

FORMULA = (r"\Delta_h = s_m^{(2)}(h) - s_m^{(1)}(h)",)
MOST_ROWS = 12
"""Number of heads listed as differing most."""
MOST_LINES = 6


def compared(shown: Shown) -> None:
    """The training steps of this model, if it has snapshots, and the comparison with another
    model."""
    view = shown.view
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.pick_place(view, "atlas.compare")
    base, _ = split_step(view.loaded.name)
    steps = snapshots(base)
    if steps:
        _moments(shown, base, steps)
    _pick(shown)
    other = view.choices(AtlasChoices).against
    if not other or other == view.loaded.name:
        if not steps:
            st.caption(view.t("atlas.compare_none"))
        return
    try:
        pair = _pair(shown, other)
    except InputProblem as problem:
        show_problem(problem, view.lang)
        return
    if pair is not None:
        _beside(*pair)


def _pick(shown: Shown) -> None:
    view = shown.view
    with st.container(width=320):
        pick_model(
            view,
            view.choices(AtlasChoices).against,
            view.t("atlas.against"),
            view.t("atlas.against_help"),
            lambda name: session.change(against=name),
            "atlas.against",
        )


def _pair(shown: Shown, other: str) -> tuple[Shown, Shown] | None:
    """Both atlases over the same sentences: from files if these use the same corpus, else measured
    now over this model's sentences, each pair in the model's direction.

    None while computing. Raises InputProblem.
    """
    view, atlas = shown.view, shown.atlas
    found, _ = cached.found_for(other)
    if found.atlas is not None and not shown.which.texts:
        mine, theirs = atlas.about, found.atlas.about
        if (mine.digest, mine.reverse) == (theirs.digest, theirs.reverse):
            which = cached.found_for(other)[1]
            return shown, Shown(view, which, found.atlas)
    texts = shown.which.texts or cached.texts_of(shown.which)
    reads_pairs = "src" in cache.open_model(other).model.reads
    if reads_pairs != ("src" in view.loaded.model.reads):
        st.info(view.t("atlas.other_family", other=escape(title(view, other))))
        return None
    one_of = Which(shown.which.model, texts=texts, ablate=False)
    one = measured_now(view, one_of, "atlas.measuring.one")
    if one is None:
        return None
    two_of = Which(other, texts=cached.turned(texts, other), ablate=False)
    two = measured_now(view, two_of, "atlas.measuring.two")
    return None if two is None else (one, two)


def _beside(one: Shown, two: Shown) -> None:
    """Heads of both models with the same index, by one measure; those that differ most are
    named."""
    view = one.view
    names = {
        "one": escape(title(view, one.which.model)),
        "other": escape(title(view, two.which.model)),
    }
    across, _ = axes_of(one)
    across = across if across in one.axes and across in two.axes else "entropy"
    matched = [(h, m) for h in one.atlas.heads if (m := two.atlas.of(h.role, h.layer, h.head))]
    if not matched:
        st.info(view.t("atlas.no_shared_heads", **names), icon=":material/info:")
        return
    mine = np.array([values(one.atlas, across)[h.number] for h, _ in matched])
    theirs = np.array([values(two.atlas, across)[m.number] for _, m in matched])
    kinds = [one.atlas.names[h.number].kind for h, _ in matched]
    others = [two.atlas.names[m.number].kind for _, m in matched]
    roles = [head.role for head, _ in matched]
    pairs = list(zip(roles, kinds, others, strict=True))
    same = sum(kind == other for kind, other in zip(kinds, others, strict=True))
    count = one.atlas.counts["sentences"]
    controls.reading(
        "atlas-compare",
        view.t("atlas.compare_reading", same=same, total=len(matched), count=count,
               chance=fixed(alike_by_chance(pairs)), sentences=f"{count:,}", **names),
    )  # fmt: skip
    figure = scatter.heads(
        mine,
        theirs,
        kinds,
        [place(view, head) for head, _ in matched],
        x_title=f"{title(view, one.which.model)} · {axis_title(one, across)}",
        y_title=title(view, two.which.model),
        kind_words=[kind_words(view, kind) for kind in kinds],
        selected=next((at for at, (h, _) in enumerate(matched) if h == one.head), None),
        diagonal=True,
        dark=view.dark,
    )
    with st.container(width=280):
        controls.pick(
            view.t("atlas.across"),
            one.axes,
            across,
            "atlas.compare.across",
            lambda axis: session.change(across=axis),
            format_func=lambda axis: axis_title(one, axis),
        )
    controls.chart(figure, "atlas.compared", alt=view.t("atlas.compare_alt"))
    _table(one, two, matched, np.abs(theirs - mine), names)
    controls.small_print(
        view,
        "atlas_compare",
        formula=FORMULA,
        code=[numbers_of, name_of] if not one.which.texts else [measured, numbers_of, name_of],
        numbers=lambda: {
            view.t("place.head"): [place(view, head) for head, _ in matched],
            title(view, one.which.model): [round(float(v), 4) for v in mine],
            f"{title(view, two.which.model)} ": [round(float(v), 4) for v in theirs],
        },
        explained="atlas.compare_formula",
    )


def _table(
    one: Shown,
    two: Shown,
    matched: list[tuple[Head, Head]],
    gap: NDArray[np.float64],
    names: dict[str, str],
) -> None:
    view = one.view
    order = sorted(range(len(matched)), key=lambda at: (-np.nan_to_num(gap[at]), at))[:MOST_ROWS]
    rows = []
    for at in order:
        mine, theirs = matched[at]
        words = [
            name_words(view, each.atlas.names[head.number])
            for each, head in ((one, mine), (two, theirs))
        ]
        bold = one.atlas.names[mine.number].kind != two.atlas.names[theirs.number].kind
        rows.append([place(view, mine), words[0], f"**{words[1]}**" if bold else words[1]])
    st.markdown(f"**{view.t('atlas.compare_most')}**")
    table([view.t("place.head"), names["one"], names["other"]], rows, "lll")


def _moments(shown: Shown, base: str, steps: tuple[int, ...]) -> None:
    """The open head's main measure over the training steps."""
    view, head = shown.view, shown.head
    texts = cached.texts_for(base)
    names = [at_step(base, step) for step in steps] + [base]
    asked = tuple(Which(name, texts=texts) for name in names)
    made = running.awaited(
        "atlas.moments",
        asked,
        lambda tell: cached.moments(asked, progress=jobs.whole(tell)),
        view.t("atlas.moments_working"),
        view.lang,
    )
    if made is None:
        return
    last = made[-1]
    strengths = np.array([atlas.strengths[head.number] for atlas in made])  # [moment, measure]
    offered = [name for name in MEASURES if np.isfinite(strengths[:, MEASURES.index(name)]).any()]
    chosen = view.choices(AtlasChoices).traced
    measure = next((name for name in offered if name == chosen), None) or grown(strengths)
    at = MEASURES.index(measure)
    over = np.array([atlas.strengths[:, at] for atlas in made])  # [moment, head]
    st.subheader(view.t("atlas.moments"), anchor=False)
    found = appears([bool(does_it(measure, share)) for share in over[:, head.number]])
    ended = view.t("atlas.moment_end")
    moments = [str(step) for step in steps] + [ended]
    said = view.t(
        f"atlas.moments_{'never' if found is None else 'from' if found else 'always'}",
        place=place(view, head),
        kind=kind_words(view, measure),
        step=moments[found or 0],
        first=percent(float(over[0, head.number])),
        last=percent(float(over[-1, head.number])),
    )  # fmt: skip
    with hero():
        controls.reading("atlas-moments", said)
    with st.container(width=280):
        controls.pick(
            view.t("atlas.traced"),
            offered,
            measure,
            "atlas.traced",
            lambda name: session.change(traced=name),
            format_func=lambda name: kind_words(view, name),
        )
    mates = [h for h in last.heads if h.role == head.role and h != head]
    mates.sort(key=lambda h: -np.nan_to_num(over[-1, h.number]))
    drawn = [head, *mates[: MOST_LINES - 1]]
    gap = (steps[-1] - steps[-2]) if len(steps) > 1 else 1
    figure = curves.lines(
        np.array([*steps, steps[-1] + gap]),
        100 * np.array([over[:, h.number] for h in drawn]),
        [short(h) for h in drawn],
        x_title=view.t("atlas.moments_axis", end=ended),
        y_title=view.t("atlas.axis_share", kind=kind_words(view, measure)),
        dark=view.dark,
    )
    with hero():
        controls.chart(figure, "atlas.moments", alt=view.t("atlas.moments"))
    st.caption(view.t("atlas.moments_note", count=len(texts), kind=kind_words(view, measure)))
    controls.small_print(
        view,
        "atlas_moments",
        formula=FORMULA,
        code=[measured, appears]
        if view.choices(AtlasChoices).traced
        else [measured, grown, appears],
        numbers=lambda: {
            view.t("atlas.moment"): moments,
            **{short(h): [round(float(v), 4) for v in over[:, h.number]] for h in drawn},
        },
        explained="atlas.compare_formula",
    )
