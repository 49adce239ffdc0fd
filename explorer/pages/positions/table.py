"""Sinusoidal positions: their properties and limits."""

from collections.abc import Sequence

import numpy as np
import streamlit as st

from explorer.analysis.positions import encoding as numbers
from explorer.analysis.positions.order import reading_stream
from explorer.exhibits.view import View
from explorer.figures.paired import paired
from explorer.figures.positions import encoding as figures
from explorer.numbers import digits, percent
from explorer.pages.positions.choices import MOST_DIMS, PositionsChoices
from explorer.ui import controls, session

BASES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
WIDTHS = (8, 16, 32, 64, 128, 256, 512)
LENGTHS = (16, 32, 64, 128, 256)
BASE, WIDTH, LENGTH = 10_000, 64, 64
RIPPLE = 0.05
"""Rises below this share of a curve's range count as ripples."""


def sines(view: View) -> None:
    """The table that is added, its waves, and its dot products."""
    base, width, length = _controls(view)
    encoding = numbers.table(length, width, base)
    words = view.words("figures.positions")
    with controls.reading_first():
        controls.chart(
            figures.table(encoding, dark=view.dark, words=words),
            "positions.table",
            alt=view.t("positions.table"),
        )
        turns = numbers.wavelengths(width, base)
        controls.reading(
            "table",
            view.t(
                "positions.reading",
                fast=f"{turns[0]:.1f}",
                last=width - 2,
                slow=f"{turns[-1]:,.0f}",
            ),
        )
    left, right = st.columns(2, gap="large")
    with left:
        dims = _dimensions(view, width)
        if dims:
            controls.chart(
                figures.waves(encoding, dims, dark=view.dark, words=words),
                "positions.waves",
                alt=view.t("positions.waves"),
            )
        else:
            st.info(view.t("positions.no_dims"), icon=":material/lightbulb:")
    with right:
        st.markdown(f"**{view.t('positions.wavelengths')}**")
        st.caption(view.t("positions.wavelengths_note"))
        controls.chart(
            figures.wavelengths(
                turns, n_ctx=view.loaded.config.n_ctx, marked=dims, dark=view.dark, words=words
            ),
            "positions.wavelengths",
            alt=view.t("positions.wavelengths"),
        )
    _distances(view, encoding)
    _others(view, encoding)
    _sizes(view)
    controls.small_print(
        view,
        "positions",
        formula=(
            r"PE_{p,\,2i} = \sin(p\,\theta_i),\quad PE_{p,\,2i+1} = \cos(p\,\theta_i),\quad "
            r"\theta_i = \mathrm{base}^{-2i/d},\quad \lambda_i = 2\pi/\theta_i",
            r"PE_p\cdot PE_{p+n} = \sum_i \cos(n\,\theta_i)",
        ),
        code=(numbers.table, numbers.wavelengths, numbers.dot_by_distance),
        numbers=lambda: {
            view.t("positions.dimension"): list(range(width)),
            view.t("positions.wavelength"): [round(float(turn), 2) for turn in turns],
        },
    )


def _sizes(view: View) -> None:
    """The sizes of embeddings and positions by token, which must be comparable."""
    stream = reading_stream(view.loaded)
    found = numbers.sizes(view.trace, stream)
    if found is None:
        return
    words, added = found
    tokens = view.trace.src_str_tokens if stream == "src" else view.trace.tgt_str_tokens
    st.markdown(f"**{view.t('positions.sizes')}**")
    st.caption(view.t("positions.sizes_note"))
    figure = paired(
        tokens,
        words,
        added,
        (view.t("positions.size_word"), view.t("positions.size_position")),
        title=view.t("positions.size"),
        stream=stream,
        dark=view.dark,
    )
    controls.chart(figure, "positions.sizes", alt=view.t("positions.sizes"))
    config = view.loaded.config
    said = view.t(
        "positions.read_sizes",
        word=f"{float(words.mean()):.1f}",
        position=f"{float(added.mean()):.1f}",
    )
    if config.positions == "sinusoidal" and config.scale_embeddings:
        scale, sines = (f"{(config.d_model / part) ** 0.5:.0f}" for part in (1, 2))
        said += " " + view.t("positions.read_scale", scale=scale, sines=sines)
    controls.reading("sizes", said)


def _others(view: View, encoding: np.ndarray) -> None:
    """The limits of the regular pattern: after a head's projections."""
    left, right = st.columns(2, gap="large")
    with left:
        _projected(view, len(encoding))
    with right:
        st.markdown(view.t("positions.limits"))


def _projected(view: View, length: int) -> None:
    """The same dot products after this head's projections."""
    kind = view.kinds[0]
    sites = view.sites_of(kind)
    head = min(view.head, sites[0].n_heads - 1)
    found = numbers.projected_gram(view.loaded, sites[0].name, head, length)
    st.markdown(f"**{view.t('positions.projected')}**")
    if found is None:
        st.caption(view.t("positions.projected_none"))
        return
    st.caption(
        view.t(
            "positions.projected_note",
            kind=view.t(f"kinds.{kind}"),
            head=head + 1,
            spread=percent(numbers.spread_by_distance(found)),
            asymmetry=percent(numbers.asymmetry(found)),
        )
    )
    controls.chart(
        figures.gram(found, dark=view.dark, words=view.words("figures.positions")),
        "positions.projected",
        alt=view.t("positions.projected"),
    )


def _controls(view: View) -> tuple[int, int, int]:
    # Read the session, not the view: another table needs no new run of the sentence.
    made, config = session.state().of(PositionsChoices), view.loaded.config
    base = BASE if made.base is None else made.base
    # A sine and its cosine share a frequency, so an odd width from a link loses its last one.
    width = WIDTH if made.width is None else max(2, made.width // 2 * 2)
    length = LENGTH if made.length is None else made.length
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        _slider(view.t("positions.base"), BASES, base, "base")
        _slider(view.t("positions.width"), WIDTHS, width, "width")
        _slider(view.t("positions.length"), LENGTHS, length, "length")
        if config.positions == "sinusoidal":
            own = {"base": int(config.rope_base), "width": config.d_model}
            st.button(
                view.t("positions.own"),
                key="positions.own",
                on_click=session.change,
                kwargs=own,
                disabled=own == {"base": base, "width": width},
            )
    return base, width, length


def _slider(label: str, choices: Sequence[int], value: int, field: str) -> None:
    key = f"positions.{field}"
    st.session_state[key] = value
    st.select_slider(
        label,
        sorted({*choices, value}),
        key=key,
        format_func=lambda number: f"{number:,}",
        width=220,
        on_change=lambda: session.change(**{field: st.session_state[key]}),
    )


def _dimensions(view: View, width: int) -> list[int]:
    """The dimensions whose waves are drawn; defaults to four for every width."""
    proposed = tuple(sorted({int(share * width) // 2 * 2 for share in (0, 0.125, 0.25, 0.5)}))
    dims = view.choices(PositionsChoices).dims
    chosen = proposed if dims is None else dims
    key = f"positions.dims.{width}"
    st.session_state[key] = [dim for dim in chosen if dim < width]
    return st.multiselect(
        view.t("positions.waves"),
        range(width),
        max_selections=MOST_DIMS,
        key=key,
        format_func=lambda dim: view.t("positions.dim", dim=dim),
        on_change=lambda: session.change(dims=tuple(st.session_state[key])),
    )


def _distances(view: View, encoding: np.ndarray) -> None:
    found = numbers.dot_by_distance(encoding)
    distance = np.arange(len(found.mean))
    words = view.words("figures.positions")
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown(f"**{view.t('positions.dot')}**")
        st.caption(view.t("positions.dot_note"))
        controls.chart(
            figures.dot_by_distance(
                distance, found.mean[None], [view.t("positions.dot")], dark=view.dark, words=words
            ),
            "positions.dot",
            alt=view.t("positions.dot"),
        )
    with right:
        st.markdown(f"**{view.t('positions.gram')}**")
        st.caption(view.t("positions.gram_note"))
        controls.chart(
            figures.gram(numbers.gram(encoding), dark=view.dark, words=words),
            "positions.gram",
            alt=view.t("positions.gram"),
        )
    low, top, rise = numbers.largest_rise(found.mean)
    values = {"zero": f"{found.mean[0]:.1f}", "one": f"{found.mean[1]:.1f}"}
    if rise == 0:
        controls.reading("falls", view.t("positions.falls", **values))
    elif rise < RIPPLE * np.ptp(found.mean):
        controls.reading("falls", view.t("positions.ripples", ripple=digits(rise), **values))
    else:
        ends = {"low": f"{found.mean[low]:.1f}", "high": f"{found.mean[top]:.1f}"}
        controls.reading(
            "rises", view.t("positions.rises", distance=low, top=top, **ends, **values)
        )
