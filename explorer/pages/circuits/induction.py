"""The induction circuit step by step: which head copies, which finds, and what fails without."""

from functools import partial

import numpy as np
import streamlit as st

from explorer.analysis.circuits.behaviour import looked, places_of
from explorer.analysis.circuits.by_hand import NAME, by_hand
from explorer.analysis.circuits.induction import Circuit, circuit, copied, silenced
from explorer.figures.alignment.scores import scores
from explorer.figures.circuits.rings import ringed
from explorer.library import LoadedModel
from explorer.numbers import percent, signed
from explorer.pages.circuits import cached
from explorer.pages.circuits.choices import BY_HAND, MADE_OF, OWN, CircuitsChoices
from explorer.pages.circuits.roles import place, tokens_heatmap
from explorer.ui import controls
from explorer.ui.findings import in_a_row
from explorer.ui.parts import pick_one
from explorer.ui.stage import hero
from explorer.ui.view import View
from explorer.ui.work import running

JOB = "circuits.induction"


def step_by_step(view: View) -> None:
    """The part."""
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
        lambda tell: cached.circuit(model, text, progress=running.whole(tell)),
        view.t("circuits.circuit_working"),
        view.lang,
    )
    if found is None:
        return
    loaded = cached.opened(model)
    with hero():
        controls.reading("circuit", _reading(view, found))
    if made_of == BY_HAND:
        st.caption(view.t("circuits.by_hand_note"))
    if found.first is None:
        _finding(view, loaded, found)
    else:
        with hero():
            _steps(view, loaded, found, found.first)
        _controls(view, found)
    controls.small_print(
        view,
        "circuits",
        formula=(
            r"z_{\text{first}}\big(i\big) \approx v_{i-1}, \qquad "
            r"\text{pattern}_{\text{second}}(i, j) \propto "
            r"\exp\big(q(x_i)\cdot k(z_{\text{first}}(j))\big), \quad x_{j-1} = x_i",
        ),
        code=_code(made_of, found),
        numbers=lambda: _numbers(view, found),
        explained="circuits.circuit_formula",
    )


def _reading(view: View, found: Circuit) -> str:
    """Which heads, how much, and whether the experiment confirms that they are a pair."""
    said = [
        view.t(
            "circuits.second",
            second=place(view, found.second),
            score=percent(found.intact),
            even=percent(found.even),
        )
    ]
    if found.first is None:
        said.append(view.t("circuits.no_first"))
        return in_a_row(said)
    left, others = float(found.without[found.first]), found.others
    verdict = "depends" if _depends(found) else "alone"
    said.append(
        view.t(
            f"circuits.{verdict}",
            first=place(view, found.first),
            left=percent(left),
            mean=percent(float(others.mean())) if len(others) else "–",
            least=percent(float(others.min())) if len(others) else "–",
            count=len(others),
        )
    )
    return in_a_row(said)


def _depends(found: Circuit) -> bool:
    """Whether the second loses half of what it has over even attention, or more, without it."""
    assert found.first is not None
    above = found.intact - found.even
    return above > 0 and found.intact - float(found.without[found.first]) >= above / 2


def _steps(view: View, loaded: LoadedModel, found: Circuit, first: tuple[int, int]) -> None:
    """Three pictures of one row: what the first copies, what the second finds, and without it."""
    assert found.carried is not None
    assert found.after is not None
    places = places_of(found.given)
    induction = partial(ringed, queries=places["induction"][0], keys=places["induction"][1])
    previous = partial(ringed, queries=places["previous"][0], keys=places["previous"][1])
    titles = {
        "copies": view.t(
            "circuits.step_copies",
            first=place(view, first),
            share=percent(float(found.previous[first])),
        ),
        "finds": view.t(
            "circuits.step_finds", second=place(view, found.second), share=percent(found.intact)
        ),
        "fails": view.t(
            "circuits.step_fails",
            first=place(view, first),
            share=percent(float(found.without[first])),
        ),
    }
    shown = (
        ("copies", found.carried, previous),
        ("finds", found.before, induction),
        ("fails", found.after, induction),
    )
    columns = st.columns(3, gap="medium")
    for column, (name, pattern, rings) in zip(columns, shown, strict=True):
        with column:
            st.markdown(titles[name])
            _heatmap(view, loaded, found, name, pattern, rings)
    if np.isfinite(found.wrote):
        st.markdown(
            view.t(
                "circuits.step_writes",
                second=place(view, found.second),
                share=percent(found.wrote),
                guess=percent(found.guess),
            )
        )


def _finding(view: View, loaded: LoadedModel, found: Circuit) -> None:
    queries, keys = places_of(found.given)["induction"]
    with hero():
        rings = partial(ringed, queries=queries, keys=keys)
        _heatmap(view, loaded, found, "finds", found.before, rings)


def _heatmap(
    view: View,
    loaded: LoadedModel,
    found: Circuit,
    name: str,
    pattern: np.ndarray,
    rings: partial[dict[str, object]],
) -> None:
    labels = loaded.str_tokens(found.given.tokens[0].tolist())
    figure = tokens_heatmap(view, pattern, pattern > 0, labels)
    figure["layout"]["meta"] = {}  # three in a row: hover names a cell, and labels may be thinned
    controls.chart(
        rings(figure, dark=view.dark), f"circuits.{name}", alt=view.t(f"circuits.alt_{name}")
    )


def _controls(view: View, found: Circuit) -> None:
    """What the second loses without each earlier head: one may matter, the others are controls."""
    st.markdown(f"**{view.t('circuits.controls_title')}**")
    layers = int(np.flatnonzero(np.isfinite(found.without).any(1)).max()) + 1
    lost = np.maximum(found.intact - found.without[:layers], 0)
    figure = scores(
        [np.nan_to_num(lost)],
        [view.t("circuits.controls_name", second=place(view, found.second))],
        top=max(0.01, round(found.intact, 2)),
        selected=None if found.first is None else (0, *found.first),
        dark=view.dark,
        words=view.words("figures.alignment") | {"score": view.t("circuits.lost")},
    )
    figure["layout"]["clickmode"] = "none"
    controls.chart(figure, "circuits.controls", alt=view.t("circuits.controls_title"))
    if np.isfinite(found.lost).any() and found.first is not None:
        st.caption(
            view.t(
                "circuits.loss",
                first=place(view, found.first),
                lost=signed(float(found.lost[found.first])),
                others=signed(float(np.nanmean(found.lost))),
            )
        )


def _code(made_of: str, found: Circuit) -> list[object]:
    code: list[object] = [circuit, looked, places_of]
    code += [silenced] if found.first is not None else []
    code += [copied] if np.isfinite(found.wrote) else []
    return [*code, by_hand] if made_of == BY_HAND else code


def _numbers(view: View, found: Circuit) -> dict[str, list[object]]:
    places = [(int(layer), int(head)) for layer, head in np.argwhere(np.isfinite(found.without))]
    if not places:
        return {view.t("circuits.score"): [f"{found.intact:.3f}"]}
    return {
        view.t("place.layer"): [layer + 1 for layer, _ in places],
        view.t("place.head"): [head + 1 for _, head in places],
        view.t("circuits.behaviours.previous"): [f"{found.previous[at]:.3f}" for at in places],
        view.t("circuits.left"): [f"{found.without[at]:.3f}" for at in places],
        view.t("circuits.change"): [f"{found.lost[at]:+.3f}" for at in places],
    }
