"""Clinic: common mistakes, run live, each next to the correct code."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import streamlit as st

from explorer.analysis.clinic import PITFALLS, Demonstration, Figure, Picture, Pitfall, Symptom
from explorer.analysis.clinic.card import Group
from explorer.analysis.clinic.symptom import symptom as find_symptom
from explorer.components import mask_matrix
from explorer.engine import cache, jobs
from explorer.engine.cache import Run
from explorer.exhibits.view import View
from explorer.figures.clinic import suspect
from explorer.figures.curves import lines
from explorer.figures.paired import paired
from explorer.figures.positions.encoding import table as position_table
from explorer.numbers import digits, percent
from explorer.pages.clinic import cached
from explorer.pages.clinic.choices import ClinicChoices
from explorer.pages.clinic.formulas import FORMULAS
from explorer.runs.rerun import rows_of
from explorer.runs.trace import Trace
from explorer.ui import controls, running, session
from explorer.ui.page import draw_page
from explorer.ui.parts import pick_group
from explorer.ui.problem import show_refused
from explorer.ui.stage import hero
from explorer.ui.tables import table

GROUPS: tuple[Group, ...] = get_args(Group)
BY_ID = {pitfall.id: pitfall for pitfall in PITFALLS}


def render(view: View) -> None:
    """Draw the page."""
    draw_page(view, "clinic", _drawn)


def _unedited(view: View) -> Run:
    """The run without edits, so that the injected bug is the only one."""
    return replace(view.run, edits=())


def _drawn(view: View) -> None:
    """Draw the page below its introduction."""
    pitfall = _choose(view)
    traced = cache.trace(_unedited(view))
    shown = pitfall.demonstrate(traced)
    with hero():
        st.subheader(view.t(pitfall.title_key))
        controls.reading("clinic", view.t(pitfall.symptom_key))
        _pictures(view, shown, traced)
    _lines(view, pitfall)
    _figures(view, shown)
    _tried(view, pitfall, shown)
    symptom = _symptom(view, pitfall)
    silent, right = st.columns(2, gap="large")
    silent.markdown(f"**{view.t('clinic.why_silent')}** {view.t(pitfall.silent_key)}")
    right.markdown(f"**{view.t('clinic.instead')}** {view.t(pitfall.right_key)}")
    controls.small_print(
        view,
        "clinic",
        formula=tuple(
            rf"\text{{{name}}}:\quad {line}"
            for name, line in zip(("wrong", "right"), FORMULAS[pitfall.id], strict=True)
        ),
        code=(
            *(pitfall.demonstrate, pitfall.wrong, pitfall.right),
            *([] if pitfall.plant is None else [pitfall.plant, find_symptom]),
        ),
        numbers=lambda: _numbers(view, shown, symptom),
        explained=f"clinic.formulas.{pitfall.group}",
    )


def _choose(view: View) -> Pitfall:
    """Controls for the group and the case; an unknown case in a link is reported and ignored."""
    pitfall = BY_ID.get(view.choices(ClinicChoices).case, PITFALLS[0])
    if view.choices(ClinicChoices).case not in ("", *BY_ID):
        show_refused("case", view.choices(ClinicChoices).case, view.lang)
    pick_group(
        view,
        "clinic",
        view.t("clinic.group"),
        GROUPS,
        pitfall.group,
        lambda group: session.change(case=_of(group)[0].id),
    )
    st.session_state["clinic.case"] = pitfall.id
    st.segmented_control(
        view.t("clinic.case"),
        [each.id for each in _of(pitfall.group)],
        format_func=lambda case: view.t(BY_ID[case].title_key),
        required=True,
        key="clinic.case",
        label_visibility="collapsed",
        on_change=lambda: session.change(case=st.session_state["clinic.case"]),
    )
    return pitfall


def _of(group: str) -> list[Pitfall]:
    return [pitfall for pitfall in PITFALLS if pitfall.group == group]


def _lines(view: View, pitfall: Pitfall) -> None:
    """The wrong and the right lines: the functions that run for this page."""
    wrong, right = st.columns(2, gap="large")
    with wrong:
        st.markdown(f":red[:material/close:] **{view.t('clinic.wrong')}**")
        st.code(pitfall.wrong_source, language="python", wrap_lines=True)
    with right:
        st.markdown(f":material/check: **{view.t('clinic.right')}**")
        st.code(pitfall.right_source, language="python", wrap_lines=True)


# What the lines do: pictures and figures.


def _pictures(view: View, shown: Demonstration, traced: Trace) -> None:
    """Wrong and right side by side as matrices; a single row as pairs of bars."""
    own = "clinic.own_fresh" if shown.fresh else "clinic.own"
    st.caption(view.t(own if shown.own else "clinic.fixed"))
    picture = shown.picture
    if picture is None:
        _bars(view, [_label(view, each) for each in shown.figures], *_values(shown))
    elif picture.hidden is None and picture.right.dtype != np.bool_ and len(picture.right) == 1:
        _bars(view, shown.columns, picture.wrong[0], picture.right[0])
    else:
        for name, column in zip(("wrong", "right"), st.columns(2, gap="large"), strict=True):
            with column:
                _matrix(view, name, picture, _axes(view, shown, traced, picture))


def _bars(view: View, labels: Sequence[str], wrong: np.ndarray, right: np.ndarray) -> None:
    numbers = np.concatenate([wrong, right])
    if len(labels) == 0 or not (np.abs(numbers) < 1e5).all():
        return  # limits of a type, or NaN: shown in the table only
    names = (view.t("clinic.wrong"), view.t("clinic.right"))
    figure = paired(labels, wrong, right, names, title=view.t("clinic.value"), dark=view.dark)
    controls.chart(figure, "clinic.bars", alt=view.t("clinic.alt"))


def _axes(view: View, shown: Demonstration, traced: Trace, picture: Picture) -> dict[str, Any]:
    """The axis labels: the sentence's tokens if the picture has any, else numbers."""
    n_row, n_column = picture.right.shape
    if shown.site:
        site = traced.site(shown.site)
        return {
            "query_tokens": traced.query_tokens(site.name)[-n_row:],
            "key_tokens": traced.key_tokens(site.name),
            "query_title": controls.axis_title(view, "query", site.query_stream),
            "key_title": controls.axis_title(view, "key", site.key_stream),
            "query_stream": site.query_stream,
            "key_stream": site.key_stream,
        }
    square = n_row == len(shown.columns)  # column labels also apply to rows
    return {
        "query_tokens": shown.columns if square else [str(row + 1) for row in range(n_row)],
        "key_tokens": shown.columns or [str(column + 1) for column in range(n_column)],
        "query_title": view.t("figures.heatmap.query"),
        "key_title": view.t("figures.heatmap.key"),
    }


def _matrix(view: View, name: str, picture: Picture, axes: dict[str, Any]) -> None:
    """One of the two matrices: a pattern, a mask, or a table of numbers."""
    matrix = picture.wrong if name == "wrong" else picture.right
    key, title = f"clinic.{name}", view.t(f"clinic.{name}")
    if picture.head is not None:
        title = view.t("clinic.in_head", which=title, head=picture.head + 1)
    st.markdown(f"**{title}**")
    if picture.hidden is not None:
        figure = suspect(
            matrix,
            picture.hidden,
            hidden_word=view.t("clinic.hidden"),
            dark=view.dark,
            words=view.words("figures.heatmap"),
            **axes,
        )
        controls.chart(figure, key, alt=title)
    elif matrix.dtype == np.bool_:
        mask_matrix(
            matrix,
            (~matrix).astype(np.uint8),
            title=title,
            rules=[view.t("clinic.unseen")],
            words=view.words("components.seen"),
            key=key,
            **axes,
        )
    else:
        figure = position_table(matrix, dark=view.dark, words=view.words("figures.positions"))
        controls.chart(figure, key, alt=title)


def _label(view: View, figure: Figure) -> str:
    return view.t(figure.label_key, of=figure.of)


def _values(shown: Demonstration) -> tuple[np.ndarray, np.ndarray]:
    wrong = np.array([figure.wrong for figure in shown.figures])
    return wrong, np.array([figure.right for figure in shown.figures])


def _figures(view: View, shown: Demonstration) -> None:
    """The numbers, wrong and right, as a small table."""
    rows = [
        (_label(view, each), _number(each.wrong), _number(each.right)) for each in shown.figures
    ]
    table(("", view.t("clinic.wrong"), view.t("clinic.right")), rows)


def _tried(view: View, pitfall: Pitfall, shown: Demonstration) -> None:
    """Which cases raise an error, and in which the bug is silent."""
    if not shown.tried:
        return
    table(
        (view.t(f"clinic.tried.{pitfall.id}"), view.t("clinic.wrong"), view.t("clinic.right")),
        [(each.of, _outcome(view, each.wrong), _outcome(view, each.right)) for each in shown.tried],
        "lll",
    )
    loud = sum(bool(each.wrong) for each in shown.tried)
    counts = {"loud": loud, "quiet": len(shown.tried) - loud}
    st.markdown(view.t("clinic.tried_count", n=len(shown.tried), **counts))


def _outcome(view: View, error: str) -> str:
    return f"`{error}`" if error else view.t("clinic.runs")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) < 1e-6:  # rounding
        return "0"
    if float(value).is_integer() and 0 < value < 1e6:  # a count
        return f"{value:,.0f}"
    return digits(value)


# Effect of the bug on the model.


def _symptom(view: View, pitfall: Pitfall) -> Symptom | None:
    """The bug injected into every affected layer, for the current sentence."""
    st.markdown(f"**{view.t('clinic.planted')}**")
    if pitfall.plant is None:
        st.markdown(view.t("clinic.not_planted"))
        return None
    if not pitfall.fits(view.loaded.model, rows_of(view.trace)):
        st.markdown(view.t(f"clinic.absent.{pitfall.needs}"))
        return None
    asked = _unedited(view), pitfall.id
    found = running.awaited(
        "clinic.symptom",
        asked,
        lambda tell: cached.symptom(*asked, progress=jobs.whole(tell)),
        view.t("clinic.working"),
        view.lang,
    )
    if found is None:
        return None
    if pitfall.left:
        st.markdown(view.t("clinic.read_left" if found.left else "clinic.no_room", n=found.left))
    if view.trace.predicts is None:
        st.markdown(_moved(view, found))
        return found
    if not found.changed:
        st.markdown(view.t("clinic.unchanged"))
        return found
    before, after = _number(found.loss_before), _number(found.loss_after)
    written, read = st.columns(2, gap="large")
    with written:
        if view.trace.predicts == "next":
            silent = np.isnan(found.logprobs_after).any()
            key = "clinic.writes_nothing" if silent else "clinic.writes_end"
            st.caption(view.t("clinic.writes"))
            st.markdown(controls.marked_words(found.words) or view.t(key))
        st.markdown(view.t("clinic.loss", before=before, after=after))
    with read:
        figure = paired(
            found.tokens,
            -found.logprobs_before,
            -found.logprobs_after,
            (view.t("clinic.healthy"), view.t("clinic.ill")),
            title=view.t("clinic.token_loss"),
            stream="tgt",
            height=220,
            dark=view.dark,
        )
        controls.chart(figure, "clinic.loss", alt=view.t("clinic.token_loss"))
    _by_left(view, found)
    return found


def _moved(view: View, found: Symptom) -> str:
    """The effect of the bug on the output vectors of a model without logits."""
    if math.isnan(found.moved):
        return view.t("clinic.vectors_nan")
    if not found.changed:
        return view.t("clinic.vectors_same")
    return view.t("clinic.vectors_moved", moved=percent(found.moved))


def _by_left(view: View, found: Symptom) -> None:
    """The loss by the number of PADs on the left, for bugs about left padding."""
    losses = np.array([[each.before, each.after] for each in found.by_left])
    if not len(losses) or not np.isfinite(losses).all():
        return
    figure = lines(
        np.array([each.n for each in found.by_left]),
        losses.T,
        [view.t("clinic.healthy"), view.t("clinic.ill")],
        x_title=view.t("clinic.pads_left"),
        y_title=view.t("clinic.token_loss"),
        height=240,
        dark=view.dark,
    )
    for trace in figure["data"]:
        trace["mode"] = "lines+markers"
    controls.chart(figure, "clinic.left", alt=view.t("clinic.pads_left"))


def _numbers(view: View, shown: Demonstration, found: Symptom | None) -> dict[str, list[object]]:
    if found is None or not found.tokens:
        return {
            view.t("clinic.value"): [_label(view, each) for each in shown.figures],
            view.t("clinic.wrong"): [_number(each.wrong) for each in shown.figures],
            view.t("clinic.right"): [_number(each.right) for each in shown.figures],
        }
    return {
        view.t("components.token_strip.label"): list(found.tokens),
        view.t("clinic.healthy"): [_number(float(each)) for each in found.logprobs_before],
        view.t("clinic.ill"): [_number(float(each)) for each in found.logprobs_after],
    }
