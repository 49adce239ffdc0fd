"""Parallel training: decoding compared with one pass over all steps, and a training batch."""

import numpy as np
import streamlit as st

from explorer.analysis.decoding.labels import MOST_LINES, LabelledBatch, labelled_batch
from explorer.analysis.decoding.one_pass import OnePass
from explorer.analysis.decoding.one_pass import one_pass as compute_pass
from explorer.components import batch_rows, pack_batch_rows
from explorer.engine import jobs
from explorer.exhibits.view import View, examples_of
from explorer.figures.curves import lines
from explorer.figures.heatmap import attention
from explorer.numbers import number
from explorer.pages.decoding import cached
from explorer.pages.decoding.choices import DecodingChoices
from explorer.problems import InputProblem
from explorer.runs.generation import Generation
from explorer.ui import controls, running, session
from explorer.ui.problem import show_problem
from models.masks import causal_mask
from models.training.data import collate
from models.training.loss import sequence_loss

FLOOR = 1e-8
ROUNDING = 1e-3
"""Largest logit difference that counts as rounding."""
"""Position of an exact 0 on the log axis."""


def one_pass(view: View, generation: Generation) -> None:
    """Draw the section."""
    st.markdown(view.t("onepass.lead"))
    found = running.awaited(
        "decoding.onepass",
        generation,
        lambda tell: cached.pass_of(generation, progress=jobs.whole(tell)),
        view.t("onepass.working"),
        view.lang,
    )
    if found is None:
        return
    controls.reading(
        "onepass",
        view.t(
            _key(found),
            count=len(found.tokens),
            largest=number(found.largest),
            open=f"{found.largest_open:.2g}",
        ),
    )
    _gaps(view, found)
    _patterns(view, found)
    controls.small_print(
        view,
        "onepass",
        formula=(
            r"f(y_0, \dots, y_n)_t = f(y_0, \dots, y_t)_t \quad\Leftarrow\quad "
            r"m_{ij} = [\,j \le i\,]",
        ),
        code=(compute_pass, view.loaded.model.read, view.loaded.model.last_stack.run, causal_mask),
        numbers=lambda: {
            view.t("onepass.step"): list(range(1, len(found.tokens) + 1)),
            view.t("decoding.token"): list(found.tokens),
            view.t("onepass.with"): [f"{gap:.2g}" for gap in found.gaps],
            view.t("onepass.without"): [f"{gap:.2g}" for gap in found.gaps_open],
        },
        explained="onepass.formula",
    )
    with st.expander(view.t("labels.title")):
        _batch(view)


def _key(found: OnePass) -> str:
    """The key of the verdict: with a changed mask, a query may see tokens after its step."""
    if found.largest > ROUNDING:
        return "onepass.reading_edited"
    return "onepass.reading" if found.largest_open > ROUNDING else "onepass.reading_short"


def _gaps(view: View, found: OnePass) -> None:
    title = view.t("onepass.gaps")
    st.caption(title)
    figure = lines(
        np.arange(1, len(found.tokens) + 1),
        np.maximum(np.stack([found.gaps, found.gaps_open]), FLOOR),
        [view.t("onepass.with"), view.t("onepass.without")],
        x_title=view.t("onepass.step"),
        y_title=view.t("onepass.gap"),
        log_y=True,
        marked_x=float(min(view.step, len(found.tokens) - 1) + 1),
        height=220,
        dark=view.dark,
    )
    figure["layout"]["yaxis"] |= {"dtick": 2, "exponentformat": "power"}
    for trace in figure["data"]:
        trace["mode"] = "lines+markers"
    controls.chart(figure, "onepass.gaps", alt=title)


def _patterns(view: View, found: OnePass) -> None:
    """The attention of the same site in one pass, with and without the causal mask."""
    sites = view.sites_of(view.own_role)
    layer = view.state.layer
    site = sites[len(sites) - 1 if layer is None else min(layer, len(sites) - 1)]
    head = view.state.head if layer is not None else None
    named = view.t("onepass.mean", layer=site.layer + 1)
    if head is not None and head < site.n_heads:
        named = view.t("heads.large", layer=site.layer + 1, head=head + 1)
    for name, patterns, mask, column in zip(
        ("with", "without"),
        (found.patterns, found.patterns_open),
        (found.masks[site.name], None),
        st.columns(2, gap="large"),
        strict=True,
    ):
        pattern = patterns[site.name]
        one = head is not None and head < len(pattern)
        with column:
            st.caption(f"{view.t(f'onepass.{name}')} · {named}")
            figure = attention(
                pattern[head] if one else pattern.mean(0),
                None if mask is None else mask[0],
                found.queries,
                found.keys,
                query_title=controls.axis_title(view, "query", "tgt"),
                key_title=controls.axis_title(view, "key", "tgt"),
                query_stream="tgt",
                key_stream="tgt",
                selected=min(view.step, len(found.tokens) - 1),
                dark=view.dark,
                words=view.words("figures.heatmap"),
            )
            controls.chart(figure, f"onepass.{name}", alt=view.t(f"onepass.{name}"))


def _padding(view: View) -> str:
    """The label of padding; "" if the tokenizer has none."""
    pad = view.loaded.marks.pad
    return "" if pad is None else view.loaded.str_tokens([pad])[0]


def _batch(view: View) -> None:
    """The training batch made of the user's sentences."""
    st.markdown(view.t("labels.lead"))
    key = "labels.pair" if view.sites_of("cross") else "labels.text"
    st.session_state["decoding.lines"] = text = _lines(view)
    st.text_area(
        view.t(key, limit=MOST_LINES),
        key="decoding.lines",
        height=110,
        on_change=lambda: session.change(lines=st.session_state["decoding.lines"]),
    )
    try:
        with st.spinner(view.t("labels.working")):
            found = cached.labels_of(view.loaded.name, tuple(text.splitlines()))
    except InputProblem as problem:
        show_problem(problem, view.lang)
        return
    data = pack_batch_rows(
        found.inputs,
        found.labels,
        found.counts,
        found.losses,
        found.sources,
        padding=_padding(view),
        words=view.words("components.batch_rows"),
    )
    batch_rows(data, key="decoding.batch")
    row, at = np.unravel_index(int(found.losses.argmax()), found.losses.shape)
    controls.reading(
        "batch",
        view.t(
            "labels.reading",
            loss=f"{found.loss:.2f}",
            labels=int(found.counts.sum()),
            pads=int((~found.counts).sum()),
            padded=f"{found.loss_with_padding:.2f}",
            token=controls.quoted(view, found.labels[row][at]),
            after=controls.quoted(view, found.inputs[row][at]),
            worst=f"{found.losses[row, at]:.1f}",
        ),
    )
    controls.small_print(
        view,
        "labels",
        formula=(
            r"L = \frac1N \sum_{t:\ y_t \ne \mathrm{pad}} -\log p(y_t \mid y_{<t},\, x)",
            r"-\log p(y_t) \ \to\ -(1 - \varepsilon)\log p(y_t) - \frac{\varepsilon}{V}"
            r"\sum_{v=1}^{V} \log p(v)",
        ),
        code=(labelled_batch, collate, view.loaded.model.read, sequence_loss),
        numbers=lambda: _losses(view, found),
        explained="labels.formula",
    )


def _losses(view: View, found: LabelledBatch) -> dict[str, list[object]]:
    """The labels that are not ignored, with the loss of each."""
    rows, places = np.nonzero(found.counts)
    cells = list(zip(rows.tolist(), places.tolist(), strict=True))
    return {
        view.t("labels.read"): [found.inputs[row][at] for row, at in cells],
        view.t("labels.label"): [found.labels[row][at] for row, at in cells],
        "−log p": [round(float(found.losses[row, at]), 3) for row, at in cells],
    }


def _lines(view: View) -> str:
    """The user's lines, or the sentence itself and two examples."""
    lines = view.choices(DecodingChoices).lines
    if lines is not None:
        return lines
    known = view.others or next(iter(examples_of(view.loaded.name).values()))
    others = [sentence for sentence in known if sentence != view.text]
    return "\n".join([view.text, *others[:2]])
