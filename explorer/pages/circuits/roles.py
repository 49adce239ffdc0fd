"""Behaviours: every head on repeated random sequences, and the open head on the text."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st

from explorer.analysis.circuits.behaviour import (
    BEHAVIOURS,
    Behaviour,
    Looked,
    behaviour,
    looked,
    places_of,
    successors,
)
from explorer.analysis.circuits.chance import COPIES, RATE, Chance, by_chance, shuffle
from explorer.analysis.circuits.rows import random_twice, series_of, twice
from explorer.engine import jobs
from explorer.exhibits.saying import in_a_row
from explorer.exhibits.view import View
from explorer.figures.alignment.scores import scores
from explorer.figures.circuits.rings import ringed
from explorer.figures.frame import Figure
from explorer.figures.heatmap import attention
from explorer.numbers import fixed, percent
from explorer.pages.circuits import cached
from explorer.pages.circuits.choices import CircuitsChoices
from explorer.runs.generation import StepsDone
from explorer.ui import controls, running, session
from explorer.ui.parts import pick_one
from explorer.ui.stage import hero
from explorer.ui.tables import table

JOB, ASKED = "circuits.job.behaviour", "circuits.chance.asked"
AT_ONCE = 3e11
"""Most tokens times parameters for which `chance` runs without a click: three times the cost for a
translator of 7.6 million parameters."""


def found_of(view: View, tested: bool = True) -> tuple[Looked, Chance | None] | None:
    """The behaviour of every head on synthetic sequences and the open text, and the chance level if
    `tested` and quick or requested; None while computing or after a stop. Raises InputProblem."""
    model, text = view.loaded.name, view.text
    known = cached.chance.is_kept(model) or st.session_state.get(ASKED) == model
    asked = tested and (known or cached.work_of_chance(view.loaded) <= AT_ONCE)

    def work(tell: StepsDone) -> tuple[Looked, Chance | None]:
        step = jobs.whole(tell)
        found = cached.behaviour(model, progress=None if asked else step)
        cached.on_text(model, text)
        return found, cached.chance(model, progress=step) if asked else None

    return running.awaited(JOB, (model, text, asked), work, view.t("circuits.working"), view.lang)


def open_head(view: View, found: Looked, name: Behaviour) -> tuple[int, int]:
    """Layer and head of the open head: the link's if it is of this kind, else the best for the
    behaviour."""
    state = view.state
    own = state.site in ("", view.own_role) or len(view.kinds) == 1
    if own and state.layer is not None and state.head is not None and view.kind == view.own_role:
        return view.layer, view.head
    return found.best(name)


def place(view: View, at: tuple[int, int]) -> str:
    """The name of a head, in words."""
    return view.t("circuits.place", layer=at[0] + 1, head=at[1] + 1)


def by_behaviour(view: View) -> None:
    """Draw this part of the page."""
    made = found_of(view)
    if made is None:
        return
    found, chance = made
    names = [name for name in BEHAVIOURS if name in found.scores]
    chosen = view.choices(CircuitsChoices).behaviour
    name = chosen if chosen in names else found.clearest(chance)
    at = open_head(view, found, name)
    with hero():
        controls.reading("circuits", _reading(view, found, chance, name, at))
    if chance is None:
        st.button(view.t("circuits.test"), key="circuits.test", on_click=_ask, args=(view,))
    pick_one(
        view,
        "behaviour",
        view.t("circuits.behaviour"),
        names,
        "circuits.behaviour",
        lambda each: view.t(f"circuits.behaviours.{each}"),
        usual=name,
    )
    st.caption(view.t(f"circuits.what_{name}"))
    with hero():
        left, right = st.columns(2, gap="large")
        with left:
            _map(view, found, name, at)
        with right:
            _pattern(view, name, at)
    if name == "induction" and not np.isnan(found.copied):
        st.caption(
            view.t(
                "circuits.copied",
                first=fixed(found.first_half),
                second=fixed(found.second_half),
                copied=percent(found.copied),
            )
        )
    _best_of_all(view, found, chance, names)
    notes = [view.t("circuits.measured_on", rows=found.n_rows, n=found.n)]
    if chance is not None:
        notes.append(view.t("circuits.chance_note", copies=COPIES, rate=percent(RATE)))
    st.caption(" ".join(notes))
    if "successor" not in found.scores:
        st.caption(view.t(f"circuits.{_no_successors(view)}"))
    controls.small_print(
        view,
        "circuits",
        formula=(
            r"\text{score}(h) = \frac1{|Q|}\sum_{i \in Q} \text{pattern}_{h,\,i,\,j(i)}",
            r"j(i) = i - 1, \qquad i - n, \qquad i - n + 1, \qquad 0",
        ),
        code=_code(found, chance),
        numbers=lambda: _numbers(view, found, names),
    )


def _no_successors(view: View) -> str:
    """Why `successors` measured nothing."""
    config = view.loaded.config
    return "no_output" if not config.lm_head else "head_net" if config.head_net else "no_series"


def _ask(view: View) -> None:
    st.session_state[ASKED] = view.loaded.name


def _reading(
    view: View, found: Looked, chance: Chance | None, name: Behaviour, at: tuple[int, int]
) -> str:
    """The reading: the best head compared with chance, and the open head on the open text."""
    best, kind = found.best(name), "next" if name == "successor" else "best"
    said = [
        view.t(
            f"circuits.{kind}_{found.strength(name, chance)}",
            name=view.t(f"circuits.names.{name}"),
            place=place(view, best),
            score=percent(float(found.scores[name][best])),
            even=percent(found.even[name]),
            chance="" if chance is None else percent(chance.most(name)),
        )
    ]
    if name != "successor":
        own = cached.on_text(view.loaded.name, view.text)
        if own.n > 1:
            said.append(
                view.t(
                    "circuits.on_text",
                    place=place(view, at),
                    score=percent(float(own.scores[name][at])),
                    even=percent(own.even[name]),
                )
            )
    return in_a_row(said)


def _map(view: View, found: Looked, name: Behaviour, at: tuple[int, int]) -> None:
    st.caption(view.t("circuits.map_title", name=view.t(f"circuits.behaviours.{name}")))
    values = found.scores[name]
    top = max(float(values.max()), found.even[name], 0.05)
    baseline = "guessing" if name == "successor" else "even"
    figure = scores(
        [values],
        [view.t(f"circuits.{baseline}", even=percent(found.even[name]))],
        top=round(top, 2),
        selected=(0, *at),
        dark=view.dark,
        words=view.words("figures.alignment") | {"score": view.t("circuits.score")},
    )
    turn = st.session_state.setdefault("circuits.turn", 0)
    key = f"circuits.map.{turn}"
    controls.chart(
        figure,
        key,
        alt=view.t("circuits.map_title", name=view.t(f"circuits.behaviours.{name}")),
        on_select=partial(_open, key, view, values.shape),
        selection_mode="points",
    )


def _open(key: str, view: View, shape: tuple[int, int]) -> None:
    """Open the clicked head."""
    point = controls.clicked_point(key, shape[0] * shape[1])
    if point is None:
        return
    st.session_state["circuits.turn"] += 1
    layer, head = divmod(point, shape[1])
    session.change_site(site=view.own_role, layer=layer, head=head)


def _pattern(view: View, name: Behaviour, at: tuple[int, int]) -> None:
    """The open head on the repeated open text, with the cells that define the behaviour."""
    loaded = view.loaded
    given, cut = cached.said_twice(loaded.name, view.text)
    st.caption(view.t("circuits.pattern_title", place=place(view, at)))
    pattern, mask = cached.pattern(loaded.name, view.text, *at)
    labels = loaded.str_tokens(given.tokens[0].tolist())
    figure = tokens_heatmap(view, pattern, mask, labels)
    if name != "successor":
        figure = ringed(figure, *places_of(given)[name], dark=view.dark)
    controls.chart(figure, "circuits.pattern", alt=view.t("circuits.pattern_alt"))
    if cut:
        st.caption(view.t("circuits.cut", count=given.n))


def tokens_heatmap(
    view: View, pattern: np.ndarray, mask: np.ndarray, labels: Sequence[str]
) -> Figure:
    """Attention within one sequence. The colour scale ends below the largest weight: the first
    queries have all their attention on one or two keys.
    """
    stream = view.stream("tgt")
    return attention(
        pattern,
        mask,
        labels,
        labels,
        query_title=view.t("streams.query", stream=stream),
        key_title=view.t("streams.key", stream=stream),
        top=max(0.1, float(np.quantile(pattern[2:, 1:], 0.995))) if len(pattern) > 2 else 1.0,
        dark=view.dark,
        words=view.words("figures.heatmap"),
    )


def _best_of_all(view: View, found: Looked, chance: Chance | None, names: list[Behaviour]) -> None:
    """The best head of each behaviour, in the model and in copies with shuffled weights."""
    rows = []
    for name in names:
        best = found.best(name)
        rows.append(
            [
                view.t(f"circuits.behaviours.{name}"),
                place(view, best),
                percent(float(found.scores[name][best])),
                percent(found.even[name]),
                "–" if chance is None else percent(chance.most(name)),
            ]
        )
    columns = ("what", "best", "score", "even", "chance")
    table([view.t(f"circuits.columns.{column}") for column in columns], rows, "llrrr")


def _code(found: Looked, chance: Chance | None) -> list[object]:
    further = [successors, series_of] if "successor" in found.scores else []
    further += [by_chance, shuffle] if chance is not None else []
    return [behaviour, random_twice, twice, looked, places_of, *further]


def _numbers(view: View, found: Looked, names: list[Behaviour]) -> dict[str, list[object]]:
    n_layers, n_heads = found.scores["previous"].shape
    places = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    columns: dict[str, list[object]] = {
        view.t("place.layer"): [layer + 1 for layer, _ in places],
        view.t("place.head"): [head + 1 for _, head in places],
    }
    for name in names:
        title = view.t(f"circuits.behaviours.{name}")
        columns[title] = [f"{found.scores[name][at]:.3f}" for at in places]
    return columns
