"""The induction circuit step by step: the copying head, the induction head, and ablations."""

from functools import partial

import numpy as np
import streamlit as st

from explorer.analysis.circuits.behaviour import looked, places_of
from explorer.analysis.circuits.by_hand import NAME, by_hand
from explorer.analysis.circuits.chance import COPIES, RATE, by_chance
from explorer.analysis.circuits.induction import Circuit, circuit, copied, silenced
from explorer.engine import jobs
from explorer.exhibits.saying import in_a_row
from explorer.exhibits.view import View
from explorer.figures.alignment.scores import scores
from explorer.figures.circuits.rings import ringed
from explorer.figures.curves import lines
from explorer.figures.frame import Figure
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.pages.circuits import cached
from explorer.pages.circuits.choices import BY_HAND, MADE_OF, OWN, CircuitsChoices
from explorer.pages.circuits.roles import place, tokens_heatmap
from explorer.ui import controls, running
from explorer.ui.parts import pick_one
from explorer.ui.stage import hero

JOB = "circuits.induction"


def step_by_step(view: View) -> None:
    """Draw this part of the page."""
    made_of = view.choices(CircuitsChoices).made_of
    pick_one(
        view,
        "made_of",
        view.t("circuits.made_of"),
        MADE_OF,
        "circuits.made_of",
        lambda each: view.t(f"circuits.made.{each}"),
    )
    model = NAME if made_of == BY_HAND else view.loaded.name
    text = view.text if made_of == OWN else None
    if text is not None and cached.said_twice(model, text)[0].n < 2:
        st.info(view.t("circuits.one_token"), icon=":material/lightbulb:")
        return
    found = running.awaited(
        JOB,
        (model, text),
        lambda tell: cached.circuit(model, text, progress=jobs.whole(tell)),
        view.t("circuits.circuit_working"),
        view.lang,
    )
    if found is None:
        return
    with hero():
        controls.reading("circuit", _reading(view, found))
    if made_of == BY_HAND:
        st.caption(view.t("circuits.by_hand_note"))
    with hero():
        _steps(view, cached.opened(model), found)
    if found.counts:
        _removed(view, found)
        _alone(view, found)
    controls.small_print(
        view,
        "circuits",
        formula=(
            r"z_{\text{first}}(j) \approx v(x_{j-1}), \qquad \text{pattern}_{\text{second}}(i, j) "
            r"\propto \exp\big(q(x_i)\cdot k(z_{\text{first}}(j))\big), \qquad x_{j-1} = x_i",
        ),
        code=_code(made_of, found),
        numbers=lambda: _numbers(view, found),
        explained="circuits.circuit_formula",
    )


def _reading(view: View, found: Circuit) -> str:
    """The reading: the induction head, its score, and whether the experiment confirms the
    circuit."""
    said = [
        view.t(
            "circuits.second",
            second=place(view, found.second),
            score=percent(found.intact),
            even=percent(found.even),
            chance=percent(found.chance.most("induction")),
            copies=COPIES,
        )
    ]
    if not found.stands_out:
        return in_a_row([*said, view.t("circuits.second_none", rate=percent(RATE))])
    if not found.counts:
        return in_a_row([*said, view.t("circuits.no_first")])
    at, last = found.chosen, len(found.counts) - 1
    said.append(
        view.t(
            f"circuits.off_{'one' if found.n_off == 1 else 'many'}",
            count=found.n_off,
            first=place(view, found.order[0]),
            left=percent(float(found.together[at])),
            others=percent(float(found.others[:, at].mean())),
        )
    )
    if at < last:
        said.append(
            view.t(
                "circuits.off_most",
                count=found.counts[last],
                left=percent(float(found.together[last])),
                others=percent(float(found.others[:, last].mean())),
            )
        )
    if found.depends:
        sets = {"count": found.n_off, "sets": len(found.rivals), "rate": percent(found.rate)}
        return in_a_row([*said, view.t("circuits.verdict_depends", **sets)])
    return in_a_row([*said, view.t("circuits.verdict_alone")])


def _steps(view: View, loaded: LoadedModel, found: Circuit) -> None:
    """Patterns on one sequence: the first head, the second head, and the second with the first
    ablated."""
    places = places_of(found.given)
    back = partial(ringed, queries=places["previous"][0], keys=places["previous"][1])
    onwards = partial(ringed, queries=places["induction"][0], keys=places["induction"][1])
    second = place(view, found.second)
    finds = view.t(
        "circuits.step_finds" if found.stands_out else "circuits.step_finds_none",
        second=second,
        share=percent(found.intact),
        even=percent(found.even),
    )
    shown = [("finds", finds, found.before, onwards)]
    if found.carried is not None and found.after is not None:
        first = found.order[0]
        copies = view.t(
            f"circuits.step_copies_{found.first_looks_back}",
            first=place(view, first),
            share=percent(float(found.previous[first])),
            even=percent(found.even_back),
        )
        fails = view.t(
            "circuits.step_fails",
            count=found.n_off,
            share=percent(float(found.together[found.chosen])),
        )
        shown.insert(0, ("copies", copies, found.carried, back))
        shown.append(("fails", fails, found.after, onwards))
    columns = st.columns(3, gap="medium")
    for column, (name, title, pattern, rings) in zip(columns, shown, strict=False):
        with column:
            st.markdown(title)
            _heatmap(view, loaded, found, name, pattern, rings)
    if np.isfinite(found.wrote):
        st.markdown(
            view.t(
                "circuits.step_writes",
                second=second,
                share=percent(found.wrote),
                guess=percent(found.guess),
            )
        )


def _heatmap(
    view: View,
    loaded: LoadedModel,
    found: Circuit,
    name: str,
    pattern: np.ndarray,
    rings: "partial[Figure]",
) -> None:
    labels = _labels(loaded, found)
    figure = tokens_heatmap(view, pattern, pattern > 0, labels)
    figure["layout"]["meta"] = {}  # three in a row: no room for labels along the top, where they
    figure["layout"]["xaxis"]["showticklabels"] = False  # are those down the side
    alt = view.t(f"circuits.alt_{name}")
    controls.chart(rings(figure, dark=view.dark), f"circuits.{name}", alt=alt)


def _labels(loaded: LoadedModel, found: Circuit) -> list[str]:
    """The tokens of a single sequence; for several, position labels, with a prime in the second
    half."""
    given = found.given
    tokens = loaded.str_tokens(given.tokens[0].tolist())
    if len(given.tokens) == 1:
        return tokens
    for at in range(given.n):
        tokens[given.start + at] = str(at + 1)
        tokens[given.start + given.n + at] = f"{at + 1}′"
    return tokens


def _removed(view: View, found: Circuit) -> None:
    """The induction head's score by the number of ablated heads: previous-token heads, or
    others."""
    counts = np.array([0, *found.counts])
    curves = np.array(
        [
            [found.intact, *found.together],
            [found.intact, *found.others.mean(0)],
            np.full(len(counts), found.even),
        ]
    )
    figure = lines(
        counts,
        100 * curves,
        [view.t(f"circuits.curve_{name}") for name in ("first", "others", "even")],
        x_title=view.t("circuits.heads_off"),
        y_title=view.t("circuits.percent_left"),
        height=280,
        dark=view.dark,
    )
    for trace in figure["data"]:
        trace["mode"] = "lines+markers"
    st.markdown(f"**{view.t('circuits.removed_title')}**")
    controls.chart(figure, "circuits.removed", alt=view.t("circuits.removed_title"))


def _alone(view: View, found: Circuit) -> None:
    """The loss of the induction head's score for each single ablated head."""
    st.markdown(f"**{view.t('circuits.alone_title')}**")
    layers = int(np.flatnonzero(np.isfinite(found.alone).any(1)).max()) + 1
    lost = np.nan_to_num(np.maximum(found.intact - found.alone[:layers], 0))
    figure = scores(
        [lost],
        [view.t("circuits.alone_name", second=place(view, found.second))],
        top=max(0.01, round(found.intact, 2)),
        selected=(0, *found.order[0]),
        dark=view.dark,
        words=view.words("figures.alignment") | {"score": view.t("circuits.lost")},
    )
    figure["layout"]["clickmode"] = "none"
    controls.chart(figure, "circuits.alone", alt=view.t("circuits.alone_title"))
    worst = np.unravel_index(lost.argmax(), lost.shape)
    at = int(worst[0]), int(worst[1])
    if found.stands_out and at != found.order[0] and lost[at] > lost[found.order[0]]:
        st.caption(
            view.t(
                "circuits.other_worst",
                worst=place(view, at),
                left=percent(float(found.alone[at])),
                share=percent(float(found.previous[at])),
            )
        )


def _code(made_of: str, found: Circuit) -> list[object]:
    code: list[object] = [circuit, looked, places_of, by_chance, silenced]
    code += [copied] if np.isfinite(found.wrote) else []
    return [*code, by_hand] if made_of == BY_HAND else code


def _numbers(view: View, found: Circuit) -> dict[str, list[object]]:
    places = [(int(layer), int(head)) for layer, head in np.argwhere(np.isfinite(found.alone))]
    if not places:
        return {view.t("circuits.score"): [f"{found.intact:.3f}"]}
    return {
        view.t("place.layer"): [layer + 1 for layer, _ in places],
        view.t("place.head"): [head + 1 for _, head in places],
        view.t("circuits.behaviours.previous"): [f"{found.previous[at]:.3f}" for at in places],
        view.t("circuits.left"): [f"{found.alone[at]:.3f}" for at in places],
        view.t("circuits.change"): [f"{found.lost[at]:+.3f}" for at in places],
    }
