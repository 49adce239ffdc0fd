"""A natural text far beyond the training length: read in full, or only its end."""

import streamlit as st

from explorer.analysis.positions.beyond import (
    MAX_CHARS,
    Beyond,
    can_go_beyond,
    perplexity,
)
from explorer.engine import cache
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.library import LoadedModel
from explorer.pages.positions import cached
from explorer.pages.positions.choices import PositionsChoices
from explorer.problems import InputProblem
from explorer.text import long_story, model_name
from explorer.ui import controls, session
from explorer.ui.problem import show_problem

WRITER = "stories"


def natural(view: View) -> Beyond | None:
    """The text, both curves, and the conclusion; None if nothing could be read."""
    reader = _reader(view)
    if view.loaded.config.longest is not None:
        st.markdown(f"**{view.t('positions.natural')}**")
        st.caption(view.t("positions.natural_learned", limit=view.loaded.config.longest))
    elif reader is not None:
        st.markdown(f"**{view.t('positions.natural')}**")
    if reader is None:
        return None
    story = view.choices(PositionsChoices).story or long_story()
    st.session_state["positions.story"] = story
    st.text_area(
        view.t(
            "positions.natural_text",
            name=model_name(reader.name, lang=view.lang),
            limit=f"{MAX_CHARS:,}",
        ),
        key="positions.story",
        height=140,
        on_change=_changed,
    )
    try:
        with st.spinner(view.t("positions.natural_working")):
            found = cached.beyond(reader.name, story)
    except InputProblem as problem:
        show_problem(problem, view.lang)
        return None
    if found.unknown:
        st.caption(controls.unknown_words(view, reader, found.unknown))
    _curves(view, reader, found)
    _reading(view, found)
    return found


def _reader(view: View) -> LoadedModel | None:
    """The user's model if it can exceed its training length, else the language model on the
    shelf."""
    if can_go_beyond(view.loaded):
        return view.loaded
    return cache.open_model(WRITER) if WRITER in cache.models() else None


def _changed() -> None:
    """Store the user's text; an empty box or the unchanged default means the default."""
    text = st.session_state["positions.story"].strip()
    session.change(story=None if text in ("", long_story()) else text)


def _curves(view: View, reader: LoadedModel, found: Beyond) -> None:
    middles, losses = found.curves
    st.caption(
        view.t(
            "positions.natural_note",
            name=model_name(reader.name, lang=view.lang),
            read=len(found.whole),
            total=found.n_tokens,
            width=found.width,
            limit=found.n_ctx,
        )
    )
    figure = lines(
        middles,
        losses,
        [
            view.t("positions.natural_whole"),
            view.t("positions.natural_windowed", window=found.window),
        ],
        x_title=view.t("positions.natural_axis"),
        y_title=view.t("positions.loss"),
        marked_x=found.n_ctx,
        height=320,
        dark=view.dark,
    )
    for trace in figure["data"]:
        trace["mode"] = "lines+markers"
    controls.chart(figure, "positions.natural", alt=view.t("positions.natural"))


def _reading(view: View, found: Beyond) -> None:
    """The perplexities beyond, and whether they differ by more than chance."""
    gap, error = found.difference, found.error
    state = "hurts" if gap > 2 * error else "helps" if gap < -2 * error else "same"
    inside, outside = slice(found.window, found.n_ctx), slice(found.n_ctx, None)
    sizes = {"limit": found.n_ctx, "window": found.window}
    controls.reading(
        "natural",
        view.t(
            "positions.natural_reading",
            whole=f"{perplexity(found.whole[outside]):.1f}",
            windowed=f"{perplexity(found.windowed[outside]):.1f}",
            **sizes,
        ),
    )
    st.markdown(
        view.t(
            f"positions.natural_{state}",
            count=len(found.whole) - found.n_ctx,
            gap=f"{abs(gap):.2f}",
            error=f"{error:.2f}",
            whole_inside=f"{perplexity(found.whole[inside]):.1f}",
            windowed_inside=f"{perplexity(found.windowed[inside]):.1f}",
            **sizes,
        )
    )
