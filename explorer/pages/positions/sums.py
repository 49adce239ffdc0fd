"""Token + position: both vectors of a word and their sum, and why they are not concatenated."""

import numpy as np
import streamlit as st

from explorer.analysis.positions.sums import Sums, by_two_halves, room, sums, widths
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.figures.positions import sums as figures
from explorer.numbers import fixed, number, percent
from explorer.pages.positions.sizes import sizes_at_the_start
from explorer.ui import controls
from explorer.ui.parts import pick_stream
from explorer.ui.tables import table
from models.rows import Stream


def token_and_position(view: View) -> None:
    """Draw this part of the page."""
    stream = pick_stream(view, "positions.stream.sum")
    found = sums(view.trace, stream)
    if found is None:
        st.info(view.t("sums.nothing_added"), icon=":material/lightbulb:")
        return
    st.markdown(view.t("sums.lead"))
    tokens = view.trace.src_str_tokens if stream == "src" else view.trace.tgt_str_tokens
    at = controls.pick_token(view, "place", view.t("sums.token"), tokens, "positions.place")
    _drawn(view, found, at, tokens[at])
    _every(view, found)
    _concatenated(view, found, stream)
    controls.small_print(
        view,
        "positions",
        explained="sums.formula",
        formula=(
            r"x_p = s\,E[w_p] + P[p], \qquad s = \sqrt{d} \;\text{or}\; 1",
            r"W(e + p) = \begin{pmatrix} W & W \end{pmatrix}"
            r"\begin{pmatrix} e \\ p \end{pmatrix}, \qquad "
            r"\cos(e, p) = \frac{e \cdot p}{\lVert e\rVert\,\lVert p\rVert}",
        ),
        code=(view.loaded.model.last_stack.embed_tokens, sums, room, widths),
        numbers=lambda: {
            view.t("sums.dimension"): list(range(found.total.shape[1])),
            view.t("sums.word"): [f"{value:.4f}" for value in found.token[at]],
            view.t("sums.position"): [f"{value:.4f}" for value in found.position[at]],
            view.t("sums.sum"): [f"{value:.4f}" for value in found.total[at]],
        },
    )
    sizes_at_the_start(view, found, stream)


@controls.reading_first()
def _drawn(view: View, found: Sums, at: int, token: str) -> None:
    """The vectors of one token, by component and as arrows."""
    lengths, degrees = found.lengths(at), found.angle(at)
    names = [view.t("sums.word"), view.t("sums.position"), view.t("sums.sum")]
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.caption(view.t("sums.strips"))
        values = np.stack([found.token[at], found.position[at], found.total[at]])
        figure = figures.strips(
            values, names, dark=view.dark, words=view.words("figures.positions")
        )
        controls.chart(figure, "sums.strips", alt=view.t("sums.strips"))
    with right:
        st.caption(view.t("sums.plane"))
        figure = figures.plane(lengths[:2], degrees, names, dark=view.dark)
        controls.chart(figure, "sums.plane", alt=view.t("sums.plane"))
    controls.reading(
        "sums",
        view.t(
            "sums.reading",
            token=controls.quoted(view, token),
            at=at,
            word=fixed(lengths[0]),
            position=fixed(lengths[1]),
            total=fixed(lengths[2]),
            angle=fixed(degrees, 0),
            turned=fixed(found.turned(at), 0),
        ),
    )


def _every(view: View, found: Sums) -> None:
    """The angles at every position."""
    places = range(len(found.token))
    angles = [[found.angle(place) for place in places], [found.turned(place) for place in places]]
    title = view.t("sums.angles")
    st.caption(title)
    figure = lines(
        np.arange(len(found.token)),
        np.array(angles),
        [view.t("sums.angle_between"), view.t("sums.angle_turned")],
        x_title=view.t("sums.place"),
        y_title=view.t("sums.degrees"),
        height=240,
        dark=view.dark,
    )
    for trace in figure["data"]:
        trace["mode"] = "lines+markers"
    controls.chart(figure, "sums.angles", alt=title)


def _concatenated(view: View, found: Sums, stream: Stream) -> None:
    """The cost of concatenation, and how separable both parts are in the sum."""
    st.markdown(f"**{view.t('sums.why')}**")
    st.markdown(view.t("sums.why_lead"))
    config = view.loaded.config
    counted = widths(config)
    d = config.d_model
    table(
        (view.t("sums.way"), view.t("sums.width"), view.t("sums.parameters"), view.t("sums.more")),
        [
            (
                view.t(key),
                f"{width:,}",
                f"{total:,}",
                f"+{percent(total / counted.summed - 1)}" if total > counted.summed else "",
            )
            for key, width, total in (
                ("sums.summed", d, counted.summed),
                ("sums.mapped", d, counted.mapped),
                ("sums.wide", 2 * d, counted.wide),
            )
        ],
    )
    space = room(view.loaded, stream)
    same = float(by_two_halves(view.loaded, found, stream).max())
    sizes = {"n": space.n, "of": space.of}
    words = view.t("sums.both_sides", difference=number(same), **sizes)
    if space.avoided is not None:
        shares = {"share": percent(space.share), "chance": percent(space.by_chance)}
        words += " " + view.t("sums.apart" if space.avoided else "sums.not_apart", **shares)
    controls.reading("concatenated", words)
