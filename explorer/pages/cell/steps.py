"""The five steps of a cell: the chain of its numbers, and one picture for each step."""

from collections.abc import Callable
from functools import partial

import numpy as np
import streamlit as st

from explorer.analysis.cell.steps import Cell, Effect, lengths
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.figures import bars
from explorer.figures import cell as figures
from explorer.numbers import fixed, percent, signed
from explorer.pages.cell.choices import STAGES, CellChoices
from explorer.ui import controls, session


def chain(view: View, cell: Cell, goal: Effect | None) -> None:
    """Every number between q . k and the logit, side by side."""
    written, *_ = lengths([cell.written])
    shown = [
        (view.t("cell.dot"), fixed(cell.dot)),
        (view.t("cell.scaled", divisor=view.divisor), fixed(cell.scaled)),
        *_joined(view, cell),
        (
            view.t("cell.exponential"),
            f"{cell.exponentials[cell.key]:.3f}" if cell.is_allowed else view.t("cell.blocked"),
        ),
        (view.t("cell.row_sum"), fixed(cell.row_sum)),
        (view.t("cell.weight"), percent(cell.weight)),
        (view.t("cell.written"), fixed(written)),
    ]
    if goal is not None:
        token = escape(goal.str_tokens[goal.chosen])
        change = signed(float(goal.change[goal.chosen]), 3)
        shown.append((view.t("cell.logit", token=token), change))
    with st.container(horizontal=True, key="cell-chain"):
        for label, value in shown:
            st.metric(label, value, width="content")


def _joined(view: View, cell: Cell) -> tuple[tuple[str, str], ...]:
    """The contribution of positions to the score and the resulting score, or the capped score."""
    if cell.cap is not None:
        return ((view.t("cell.capped", cap=fixed(cell.cap)), fixed(cell.score)),)
    if cell.bias is None:
        return ()
    bias = signed(cell.bias)
    return ((view.t("cell.bias"), bias), (view.t("cell.score"), fixed(cell.score)))


@controls.reading_first()
def step(view: View, cell: Cell, goal: Effect | None) -> None:
    """The figure of the current step, and its reading."""
    drawn: dict[str, Callable[[View, Cell, Effect | None], None]] = {
        "projection": _projection,
        "similarity": _similarity,
        "scale": _scale,
        "softmax": _softmax,
        "values": _values,
    }
    drawn[STAGES[view.choices(CellChoices).stage]](view, cell, goal)


def _tokens(view: View, cell: Cell) -> dict[str, str]:
    site = cell.site.name
    return {
        "query": controls.quoted_at(view, view.trace.query_tokens(site), cell.query),
        "key": controls.quoted_at(view, view.trace.key_tokens(site), cell.key),
    }


def _projection(view: View, cell: Cell, goal: Effect | None) -> None:
    site = view.site
    key_stream = site.key_stream if site.key_stream != site.query_stream else None
    figure = figures.vectors(
        np.stack([cell.q, cell.k]),
        (view.t("cell.q_of"), view.t("cell.k_of")),
        (site.query_stream, key_stream),
        dark=view.dark,
        words=view.words("figures.cell"),
    )
    controls.chart(figure, "cell.vectors", alt=view.t("cell.stages.projection"))
    changed = view.t("heads.and").join(_changes(view))
    sizes = {"d_model": len(cell.stream), "d_head": len(cell.q)}
    said = {**_tokens(view, cell), **sizes, **({"changed": changed} if changed else {})}
    key = "reading_projection_turned" if changed else "reading_projection"
    controls.reading("cell", view.t(f"cell.{key}", **said))


def _changes(view: View) -> list[str]:
    """The model's changes of queries and keys after projection."""
    config = view.loaded.config
    found = [view.t("cell.changed_normed")] if config.qk_norm else []
    if config.position_type.acts == "turns" and view.site.kind == "self":
        n = config.n_turned
        partly = n < config.d_head
        found.append(
            view.t("cell.changed_partly", n=n) if partly else view.t("cell.changed_turned")
        )
    return found


def _similarity(view: View, cell: Cell, goal: Effect | None) -> None:
    figure = figures.products(cell.products, dark=view.dark, words=view.words("figures.cell"))
    controls.chart(figure, "cell.products", alt=view.t("cell.stages.similarity"))
    most = int(np.abs(cell.products).argmax())
    values = {"dot": fixed(cell.dot), "dim": most, "most": fixed(float(cell.products[most]))}
    controls.reading("cell", view.t("cell.reading_similarity", **_tokens(view, cell), **values))


def _scale(view: View, cell: Cell, goal: Effect | None) -> None:
    keys = view.trace.key_tokens(cell.site.name)
    figure = figures.signed(
        keys,
        cell.scores,
        title=view.t("cell.score"),
        stream=cell.site.key_stream,
        axis_title=controls.axis_title(view, "key", cell.site.key_stream),
        allowed=cell.allowed,
        marked=cell.key,
        dark=view.dark,
        words=view.words("figures.cell"),
    )
    _keys_chart(view, figure, "scale")
    if not cell.is_allowed:
        controls.reading("cell", view.t("cell.reading_blocked", **_tokens(view, cell)))
        return
    seen = cell.scores[cell.allowed]
    key, more = "cell.reading_scale", {}
    if cell.cap is not None:
        key = "cell.reading_scale_capped"
        more = {"scaled": fixed(cell.scaled), "cap": fixed(cell.cap)}
    elif cell.bias is not None:
        key, more = "cell.reading_scale_biased", {"bias": signed(cell.bias)}
    controls.reading(
        "cell",
        view.t(
            key,
            **more,
            dot=fixed(cell.dot),
            divisor=view.divisor,
            score=fixed(cell.score),
            rank=int((seen > cell.scores[cell.key]).sum()) + 1,
            count=len(seen),
            blocked=len(keys) - len(seen),
            **_tokens(view, cell),
        ),
    )


def _softmax(view: View, cell: Cell, goal: Effect | None) -> None:
    figure = bars.row(
        view.trace.key_tokens(cell.site.name),
        cell.weights,
        stream=cell.site.key_stream,
        allowed=cell.allowed,
        title=controls.axis_title(view, "key", cell.site.key_stream),
        dark=view.dark,
        words=view.words("figures.bars"),
    )
    _keys_chart(view, figure, "softmax")
    if not cell.is_allowed:
        controls.reading("cell", view.t("cell.reading_blocked", **_tokens(view, cell)))
        return
    controls.reading(
        "cell",
        view.t(
            "cell.reading_softmax",
            score=fixed(cell.score),
            largest=fixed(cell.largest),
            exponential=f"{cell.exponentials[cell.key]:.3f}",
            row_sum=fixed(cell.row_sum),
            weight=percent(cell.weight),
            **_tokens(view, cell),
        ),
    )


def _keys_chart(view: View, figure: controls.Figure, name: str) -> None:
    """A chart with a bar for each key: a click on its column opens that key's cell."""
    # Select the column: a score near 0 has no bar to click.
    figure = {**figure, "layout": {**figure["layout"], "hovermode": "x"}}
    # A new key per change resets the chart's click, so that the same bar can be clicked again.
    turn = st.session_state.setdefault("cell.turn", 0)
    key = f"cell.{name}.{turn}"
    controls.chart(
        figure,
        key,
        alt=view.t(f"cell.stages.{name}"),
        on_select=partial(_open_key, view, key),
        selection_mode="points",
    )
    st.caption(view.t("cell.click"))


def _open_key(view: View, key: str) -> None:
    point = controls.clicked_point(key, len(view.trace.key_tokens(view.site.name)))
    if point is None:
        return
    st.session_state["cell.turn"] += 1
    place = {"layer": view.layer, "head": view.head, "row": view.row}
    session.change(key=point, **place)


def _is_normed(view: View) -> bool:
    """Whether a norm follows the attention output before it is added to the residual stream."""
    config = view.loaded.config
    return config.norm_placement == "sublayer" or config.out_norms


def _values(view: View, cell: Cell, goal: Effect | None) -> None:
    long = lengths([cell.stream, cell.site_written, cell.head_written, cell.written])
    names = [view.t(f"cell.{name}") for name in ("stream", "all_heads", "this_head", "this_cell")]
    left, right = st.columns([2, 3], gap="large")
    with left:
        st.caption(view.t("cell.lengths"))
        figure = figures.signed(
            names,
            np.array(long),
            title=view.t("cell.length"),
            dark=view.dark,
            words=view.words("figures.cell"),
        )
        controls.chart(figure, "cell.lengths", alt=view.t("cell.lengths"))
    moved = {
        "weight": percent(cell.weight),
        "written": fixed(long[3]),
        "stream": fixed(long[0]),
        "added": view.t("cell.added_normed" if _is_normed(view) else "cell.added"),
        **_tokens(view, cell),
    }
    if goal is None:
        controls.reading("cell", view.t("cell.reading_values_silent", **moved))
        return
    with right:
        st.caption(view.t("cell.logits"))
        figure = figures.signed(
            goal.str_tokens,
            goal.change,
            title=view.t("cell.gain"),
            stream="tgt",
            marked=goal.chosen,
            dark=view.dark,
            words=view.words("figures.cell"),
        )
        controls.chart(figure, "cell.logits", alt=view.t("cell.logits"))
    change = float(goal.change[goal.chosen])
    controls.reading(
        "cell",
        view.t(
            "cell.reading_values",
            token=controls.quoted(view, goal.str_tokens[goal.chosen]),
            before=fixed(float(goal.before[goal.chosen])),
            after=fixed(float(goal.after[goal.chosen])),
            change=signed(change, 3),
            slope=signed(goal.slope, 3),
            **moved,
        ),
    )
    with st.container(width=260):
        controls.pick(
            view.t("cell.goal"),
            range(len(goal.tokens)),
            goal.chosen,
            "cell.goal",
            lambda index: session.change(goal=goal.tokens[index]),
            format_func=lambda index: goal.str_tokens[index],
        )
