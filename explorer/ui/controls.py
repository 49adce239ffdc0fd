"""Elements shared by pages: the sentence, the choice of few, active changes, small print."""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explorer.analysis.heads.compare import compare
from explorer.components.mount import inside
from explorer.engine.cache import alike
from explorer.exhibits import block as b
from explorer.exhibits.block import escape
from explorer.exhibits.choices import ScreenChoices
from explorer.exhibits.pictured import patch_map
from explorer.exhibits.saying import (
    SENTENCE_END,
    axis_title as axis_title,
    labels_said,
    marked_words,
    model_title,
    name_edit,
    quoted as quoted,
    quoted_at as quoted_at,
    reading_notes,
    unbroken,
)
from explorer.exhibits.view import View
from explorer.glossary import linked
from explorer.numbers import percent
from explorer.numerics import softmax
from explorer.runs.edits import CellEdit, KeyHidden, format_edits
from explorer.text import shorten, telling
from explorer.ui import session
from explorer.ui.checking import checkable, self_check
from explorer.ui.code import code_panel
from explorer.ui.hints import hint_for
from explorer.ui.running import charts_last, enlarged, words_first
from explorer.ui.trained import models
from models.pictures import ADDRESS

Figure = dict[str, Any]
CHART = {
    "modeBarButtons": [["toImage"]],  # Plotly draws the PNG in the browser, with no network
    "displaylogo": False,
    "scrollZoom": False,
}
IMAGE = {"format": "png", "scale": 3}
_TERMS = threading.local()
MOST_LARGE = 150
"""Columns of the longest sentence in large letters."""
_WIDE = re.compile("[\u2e80-\U0010ffff]")  # these characters take two columns


def chart(figure: Figure, key: str, alt: str, file: str, **more: Any) -> None:
    """A Plotly figure at full width; `alt` describes it for screen readers, `file` names the
    picture saved from it.

    If there are fewer pixels than the figure needs (`least` in its layout's `meta`, see
    `figures.frame.least_width`), it scrolls sideways.
    """
    style = []
    if session.state().of(ScreenChoices).beamer:
        figure, rule = enlarged(figure)
        if rule:
            style.append(rule)
            more["height"] = "stretch"
    least = figure["layout"].get("meta", {}).get("least", 0)
    config = {**CHART, "toImageButtonOptions": {**IMAGE, "filename": file}}
    if least:
        style.append(f"> * {{ min-width: {least}px }}")
    place: AbstractContextManager[object] = nullcontext()
    if style:
        place = st.container(key=f"wide-{key}")
        name = f".st-key-wide-{key.replace('.', '-')}"
        st.html(f"<style>{' '.join(f'{name} {rule}' for rule in style)}</style>")
    charts_last()
    from explorer.figures import ready  # with Plotly, which no page without a chart needs

    with place:
        st.plotly_chart(
            ready.ReadyFigure(figure),
            key=key,
            width="stretch",
            theme=None,
            config=config,
            alt=alt,
            **more,
        )


def opening(view: View, page: str) -> None:
    """The introduction of a page, with what to try there folded; left out in classroom mode.

    A hint about the sentence takes its place, so that the picture below stays where it is.
    """
    hint = hint_for(view)
    if view.choices(ScreenChoices).beamer and hint is None:
        return
    lead = explained(view.t(page, "lead"))
    with st.container(key="opening", horizontal=True, vertical_alignment="center", gap="small"):
        if hint is None:
            st.markdown(lead, width="content")
        else:
            hint.show()
        with st.popover(view.t("shell.opening"), type="tertiary", width="content"):
            if hint is not None:
                st.markdown(lead)
            st.markdown(view.t(page, "try"))


def clicked_point(key: str, size: int) -> int | None:
    """The index of the point just clicked in the chart with this key; None if there is none.

    `size` is the number of points; an index out of range is ignored. In a chart of several traces,
    the index is the first of the point's `customdata`.
    """
    points = getattr(getattr(st.session_state.get(key), "selection", None), "points", None)
    if not isinstance(points, list) or not points or not isinstance(points[0], Mapping):
        return None
    data = points[0].get("customdata")
    numbers = data if isinstance(data, list | tuple) else ()
    numbered = len(numbers) > 0 and not isinstance(numbers[0], str)
    return inside(numbers[0] if numbered else points[0].get("point_index"), size)


def explained(words: str) -> str:
    """Markdown in which each term that this run has not shown yet links to its meaning, and percent
    signs and powers of ten stay on the line of their number.
    """
    words = unbroken(words)
    context = get_script_run_ctx()
    if context is None:
        return words
    if getattr(_TERMS, "run", None) is not context.cursors:  # new with each run
        _TERMS.run, _TERMS.shown = context.cursors, set()
    return linked(words, session.state().lang, _TERMS.shown)


def reading(page: str, words: str, below: st.delta_generator.DeltaGenerator | None = None) -> None:
    """What a picture shows. Above the page's main one, the first sentence; the rest `below` it."""
    first, *rest = [words] if below is None else SENTENCE_END.split(words, maxsplit=1)
    with st.container(), st.container(key=f"reading-{page}"):
        st.markdown(explained(first))
    if below is not None and rest:
        with below, st.container(key=f"told-{page}"):
            st.markdown(explained(*rest))


def sentence_place(words: str, key: str = "sentence") -> st.delta_generator.DeltaGenerator:
    """The row of input and output; long ones have smaller letters (page.css)."""
    size = "-long" if is_long(words) else ""
    return st.container(
        key=f"{key}{size}", horizontal=True, vertical_alignment="center", gap="large"
    )


def is_long(words: str) -> bool:
    """Whether an input with its output is too long for large letters."""
    return len(words) + len(_WIDE.findall(words)) > MOST_LARGE


def sentence_line(view: View, key: str = "sentence", mapped: bool = True) -> None:
    """The input and the output, in the colours of the two streams.

    With `mapped`, a picture that the model reads is shown with its patches numbered.
    """
    drawn = view.trace.text.startswith(ADDRESS)
    source = view.t("source.own") if drawn else escape(view.trace.text)
    output = escape(view.trace.output)
    translates = view.sites_of("cross") and view.loaded.config.lm_head
    if translates:
        words = "place.forced" if view.target else "place.translated"
    else:
        words = "place.continued" if view.target else "place.prompt"
        output = escape(view.target or "")
    silent = translates and not view.trace.output
    if silent:
        output = view.t("place.nothing")
    with st.container():  # a fixed element, even while empty
        with sentence_place(f"{source}{output}", key):
            st.markdown(
                view.t(words, source=f":green[{source}]", output=f":orange[{output}]"),
                width="content",
            )
            if mapped and (drawn_map := patch_map(view)):
                st.html(drawn_map, width="content")
        for label in labels_said(view):
            st.markdown(label)
        if silent:
            st.caption(_why_silent(view))
        if not view.trace.finished:
            st.caption(view.t("place.unfinished"))
        if notes := reading_notes(view, view.text, view.trace.unknown):
            st.caption(notes)


def offer(view: View, lesson: str) -> None:
    """Explain that this sentence does not show the lesson, and offer one that does.

    Shows nothing if no such sentence is known; the words are at `lessons.<lesson>`.
    """
    sentence = telling(lesson, view.loaded.name)
    if sentence is None or sentence == view.text:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(view.t("lessons", lesson), width="content")
        if st.button(
            view.t("lessons.try", text=escape(sentence)), key=f"lessons.{lesson}", type="tertiary"
        ):
            session.change(text=sentence, target=None, row=None, step=None)
            session.run_page()  # the sidebar shows the sentence too


def _why_silent(view: View) -> str:
    """Why an output has no words: it ends at once, or its tokens decode to no text."""
    trace = view.trace
    n_real = int(trace.tgt_valid.sum())
    if n_real > 1:
        tokens = " ".join(quoted(view, token) for token in trace.tgt_str_tokens[1:n_real])
        return view.t("place.no_text", tokens=tokens)
    chance = float(softmax(trace.logits[0])[trace.predicted_tokens[0]])
    return view.t("place.ended", probability=percent(chance))


MOST_NAMED_CELLS = 3


def edits_bar(view: View, key: str, reset: Callable[[], None]) -> None:
    """The active changes, in words, their effect on the translation, and a button to `reset`
    them."""
    # A fixed element, even while empty: otherwise the elements below would be re-created, and a
    # matrix would lose the keyboard focus.
    with st.container(horizontal=True, vertical_alignment="center"):
        if view.edits or view.state.pads:
            _edits(view, key, reset)
    words_first(view.run)


def _edits(view: View, key: str, reset: Callable[[], None]) -> None:
    if view.trace.ignored_edits:
        ignored = shorten(format_edits(view.trace.ignored_edits), 120)
        count = len(view.trace.ignored_edits)
        st.caption(view.t("edits.ignored", count=count, edits=escape(ignored)))
    st.markdown(changes_of(view))  # one element, which is painted at once
    st.button(view.t("edits.reset"), key=key, on_click=reset)
    if edits := checkable(view.trace.edits):  # the sidebar is not redrawn by a change here
        self_check(view.loaded.name, (edits,), f".{key}")


def changes_of(view: View) -> str:
    """The active changes and their effect on the translation, a line each, as Markdown."""
    shown, counted = list(view.trace.edits), []
    for kind, words in ((CellEdit, "edits.cells"), (KeyHidden, "edits.all_hidden")):
        alike = [edit for edit in shown if isinstance(edit, kind)]
        if len(alike) > MOST_NAMED_CELLS:
            shown = [edit for edit in shown if not isinstance(edit, kind)]
            counted.append(f"**{view.t(words, count=len(alike))}**")
    named = [*(f"**{name_edit(view, edit)}**" for edit in shown), *counted]
    if view.state.pads:
        named.append(f"**{view.t('edits.pads', count=view.pads)}**")
    lines = f"{view.t('edits.active')} {' · '.join(named)}", _translation_change(view)
    return "  \n".join(filter(None, lines))


def _translation_change(view: View) -> str:
    """How the changes affect the translation, as Markdown: removed and added words."""
    if view.target or not view.sites_of("cross"):
        return ""
    words = compare(view.before(), view.trace).words
    if all(status == "same" for _, status in words):
        return view.t("edits.same")
    return view.t("edits.changed", words=marked_words(words))


def small_prints(view: View, name: str, small: Sequence[b.Small]) -> None:
    """A button that shows the formulas, the numbers and the code of a page."""
    label = view.t("more.label")
    if not st.segmented_control(
        label,
        ("more",),
        format_func={"more": label}.__getitem__,
        key=f"{name}.more",
        label_visibility="collapsed",
    ):
        return
    for block in small:
        if isinstance(block, b.Formula):
            for line in block.lines:
                st.latex(view.formula(line))
            if block.explained:
                st.caption(explained(block.explained))
    for block in small:
        if isinstance(block, b.Numbers):
            st.dataframe(dict(block.columns()), hide_index=True, width="stretch")
    code = [block for block in small if isinstance(block, b.Code)]
    code.sort(key=lambda block: not block.first)
    if code:
        code_panel(view, list(dict.fromkeys(thing for block in code for thing in block.objects)))


def pick_model(
    view: View, now: str, label: str, why: str, choose: Callable[[str], None], key: str
) -> None:
    """A menu of the models that this session can open besides the current one, those with the same
    tokenization first, and none (""); `now` is the chosen one."""
    shelf = models()
    # One from a link may not be listed: its error is shown below.
    offered = dict.fromkeys(["", *alike(view.loaded.name, shelf), *shelf, now])
    offered.pop(view.loaded.name, None)
    st.session_state[key] = now if now in offered else ""
    st.selectbox(
        label,
        tuple(offered),
        format_func=lambda name: model_title(view, name) if name else view.t("heads.versus.none"),
        key=key,
        help=why,
        on_change=lambda: choose(st.session_state[key]),
    )
