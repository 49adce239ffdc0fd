"""Learned position vectors compared with sinusoids: the effect and the limits of training."""

import numpy as np
import streamlit as st

from explorer.analysis.positions.encoding import gram
from explorer.analysis.positions.learned import (
    Learned,
    alike_by_distance,
    by_chance,
)
from explorer.analysis.positions.learned import learned as find_learned
from explorer.engine import cache
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.figures.positions import encoding as figures
from explorer.library import LoadedModel
from explorer.numbers import fixed, number, share
from explorer.pages.positions import cached
from explorer.text import model_name
from explorer.ui import controls
from explorer.ui.parts import pick_stream

TWIN = "twin-learned"
CLOSE = 0.5
"""Smallest cosine at which neighbours count as close."""


def learned_vectors(view: View) -> None:
    """Both tables, their dot products, the similarity of positions, and the change in training."""
    loaded = _model(view)
    if loaded is None:
        st.info(view.t("positions.learned_nobody"), icon=":material/lightbulb:")
        return
    st.markdown(
        view.t(
            "positions.learned_lead",
            name=model_name(loaded.name, lang=view.lang),
            limit=loaded.config.n_ctx,
        )
        if loaded is not view.loaded
        else view.t("positions.learned_own", limit=loaded.config.n_ctx)
    )
    stream = pick_stream(view, "positions.stream.learned", loaded.model.reads)
    found = cached.learned(loaded.name, stream)
    _pictures(view, found)
    left, right = st.columns(2, gap="large")
    with left:
        _alike(view, found)
    with right:
        _moved(view, found)
    controls.reading("learned", _neighbours(view, found))
    st.markdown(_reach(view, found))
    controls.small_print(
        view,
        "positions",
        formula=(
            r"\cos(p_i, p_j) = \frac{p_i \cdot p_j}{\lVert p_i\rVert\,\lVert p_j\rVert},\qquad "
            r"\text{moved}_i = \frac{\lVert p_i - p_i^{0}\rVert}{\lVert p_i^{0}\rVert}",
        ),
        code=(find_learned, loaded.model.last_stack.positions, gram, alike_by_distance),
        numbers=lambda: _numbers(view, found),
        explained="positions.learned_formula",
    )


def _model(view: View) -> LoadedModel | None:
    """The user's model if it has learned positions, else the twin on the shelf, if any."""
    if view.loaded.config.positions == "learned":
        return view.loaded
    return cache.open_model(TWIN) if TWIN in cache.models() else None


def _pictures(view: View, found: Learned) -> None:
    words = view.words("figures.positions")
    for name, draw in (("table", figures.table), ("gram", figures.gram)):
        for source, values, column in zip(
            ("sines", "vectors"),
            (found.sines, found.vectors),
            st.columns(2, gap="large"),
            strict=True,
        ):
            with column:
                title = view.t(f"positions.learned_{name}_{source}")
                st.markdown(f"**{title}**")
                figure = draw(
                    values if name == "table" else gram(values), dark=view.dark, words=words
                )
                controls.chart(figure, f"positions.learned.{name}.{source}", alt=title)


def _alike(view: View, found: Learned) -> None:
    """The mean cosine by distance, over the positions seen in training."""
    n = max(2, found.n_trained)
    tables = {"sines": found.sines, "vectors": found.vectors, "before": found.before}
    tables["added"] = found.added
    shown = {name: values[:n] for name, values in tables.items() if values is not None}
    title = view.t("positions.learned_alike")
    st.markdown(f"**{title}**")
    known = found.reached is not None
    note = "positions.learned_alike_note" if known else "positions.learned_alike_all"
    st.caption(view.t(note, last=n - 1))
    figure = lines(
        np.arange(n),
        np.stack([alike_by_distance(values) for values in shown.values()]),
        [view.t(f"positions.learned_curve_{name}") for name in shown],
        x_title=view.t("figures.positions.distance"),
        y_title=view.t("positions.learned_cosine"),
        dark=view.dark,
    )
    controls.chart(figure, "positions.learned.alike", alt=title)


def _moved(view: View, found: Learned) -> None:
    """The change of each vector in training."""
    title = view.t("positions.learned_moved")
    st.markdown(f"**{title}**")
    if found.moved is None or found.reached is None:
        st.caption(view.t("positions.learned_unknown"))
        return
    st.caption(view.t("positions.learned_moved_note"))
    figure = lines(
        np.arange(len(found.moved)),
        100 * found.moved[None],
        [title],
        x_title=view.t("figures.positions.position"),
        y_title=view.t("positions.learned_moved_axis"),
        marked_x=found.reached - 0.5,
        dark=view.dark,
    )
    figure["data"][0]["line"]["shape"] = "hvh"
    figure["layout"]["yaxis"]["rangemode"] = "tozero"
    controls.chart(figure, "positions.learned.moved", alt=title)


def _neighbours(view: View, found: Learned) -> str:
    """Whether training made neighbours similar, by their mean cosine."""
    n = max(2, found.n_trained)
    sines, own = (float(alike_by_distance(each[:n])[1]) for each in (found.sines, found.vectors))
    chance = by_chance(n, found.vectors.shape[1])
    state = "close" if own > CLOSE else "trace" if own > chance else "none"
    values = {"sines": fixed(sines), "own": fixed(own), "chance": fixed(chance)}
    return view.t(f"positions.learned_{state}", **values)


def _reach(view: View, found: Learned) -> str:
    """The number of positions seen in training, and the state of the others."""
    if found.moved is None or found.reached is None:
        return ""
    n, total = found.reached, len(found.moved)
    assert found.added is not None
    added = fixed(float(alike_by_distance(found.added[: max(2, n)])[1]))
    chance = fixed(by_chance(n, found.added.shape[1]))
    went = share(float(found.moved[:n].mean())) if n else share(0)
    if n == total:
        return view.t(
            "positions.learned_reach_all", last=n - 1, moved=went, added=added, chance=chance
        )
    still = number(100 * float(found.moved[n:].max()))
    values = {"count": n, "first": n, "last": total - 1, "moved": went, "still": still}
    values |= {"added": added, "chance": chance}
    return view.t("positions.learned_reach", **values)


def _numbers(view: View, found: Learned) -> dict[str, list[object]]:
    lengths = np.linalg.norm(found.vectors, axis=1)
    columns: dict[str, list[object]] = {
        view.t("figures.positions.position"): list(range(len(lengths))),
        view.t("positions.size"): np.round(lengths, 3).tolist(),
    }
    if found.moved is not None:
        columns[view.t("positions.learned_moved_axis")] = np.round(100 * found.moved, 3).tolist()
    return columns
