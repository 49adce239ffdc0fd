"""What several pages show: the sentence, the place looked at, changes in force, small print."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from explorer.analysis.heads.compare import compare
from explorer.components import Panel, inside, matrices
from explorer.components.pulse import is_due, pulse
from explorer.components.standalone import Chart, Text, file_of, record
from explorer.exhibits.escape import escape, plain
from explorer.exhibits.saying import axis_title as axis_title
from explorer.exhibits.saying import blocker_words as blocker_words
from explorer.exhibits.saying import marked_words as marked_words
from explorer.exhibits.saying import name_edit as name_edit
from explorer.exhibits.saying import place_titles as place_titles
from explorer.exhibits.saying import quoted as quoted
from explorer.exhibits.saying import quoted_at as quoted_at
from explorer.exhibits.shared import ScreenChoices
from explorer.exhibits.view import View
from explorer.figures.heatmap import plotted
from explorer.figures.matrix import Matrix
from explorer.glossary import terms_in
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.runs.edits import CellEdit, format_edits
from explorer.text import shorten, telling
from explorer.ui import session
from explorer.ui.code.panel import code_panel
from explorer.ui.painting import charts_last, words_first
from explorer.ui.stage import enlarged, hero

Figure = dict[str, Any]
_ABOVE: ContextVar[st.delta_generator.DeltaGenerator | None] = ContextVar("above", default=None)
CHART = {
    "modeBarButtons": [["toImage"]],  # Plotly draws the PNG in the browser, with no network
    "displaylogo": False,
    "scrollZoom": False,
}
IMAGE = {"format": "png", "scale": 3}
CHARTS, WAITING = "controls.charts", "controls.waiting"
"""Whether this session's browser has been sent a chart; the pulse that asks for the first one."""


def chart(figure: Figure, key: str, alt: str, *, below_picture: bool = False, **more: Any) -> None:
    """A Plotly figure as wide as its place; `alt` says for screen readers what it shows.

    In a place with fewer pixels than the figure needs, as the `least` of its layout's `meta` says
    (`figures.frame.least_width`), it scrolls sideways.

    With a session's first chart the browser reads Plotly, and for a second does nothing else. So
    one `below_picture`, in a fragment whose picture is no chart, leaves its place empty in a
    session's first run, and the fragment runs again as soon as the browser has drawn that.
    """
    file = picture_file(key)
    record(Chart(figure, alt, file))
    if is_due(WAITING) or not below_picture:
        st.session_state[CHARTS] = True
    if CHARTS not in st.session_state:
        with st.container(height=figure["layout"]["height"], border=False):
            pulse(WAITING, 0)
        return
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


def picture_file(key: str) -> str:
    """The name, without ending, of the file in which the picture with this key is kept."""
    return file_of(re.sub(r"\W+", "-", key.split(".", 1)[-1]))


def heatmaps(view: View, shown: Sequence[tuple[str, Matrix]], key: str) -> None:
    """Heatmaps side by side, each under the words for it: on a canvas, in a kept page by Plotly."""
    words, name = view.words("figures.heatmap"), re.sub(r"\W+", "-", key.split(".", 1)[-1])
    panels, kept = [], []
    for number, (title, matrix) in enumerate(shown, 1):
        file = file_of(f"{name}-{number}" if len(shown) > 1 else name)
        panels.append(Panel(title, matrix, file))
        kept.append(Chart(partial(plotted, matrix, dark=view.dark, words=words), title, file))
    matrices(panels, key=key, kept=kept, words=view.words("components.matrices"))


def opening(view: View, page: str, **values: object) -> None:
    """What a page is about and what to try there; a class sees the picture instead.

    A phone shows the beginning, and all of it behind one line (page.css).
    """
    if view.choices(ScreenChoices).beamer:
        return
    lead, suggestions = view.t(f"{page}.lead", **values), view.t(f"{page}.try")
    meanings = "\n\n".join(f"**{term.name}** {term.means}" for term in terms_in(lead, view.lang))
    with st.container(key="opening"):
        st.markdown(lead, help=meanings or None)
        st.markdown(suggestions)
    with st.container(key="opening-folded"), st.expander(view.t("shell.opening")):
        st.markdown(lead, help=meanings or None)
        st.markdown(suggestions)


def clicked_point(key: str, size: int) -> int | None:
    """The number of the point that was just clicked in the chart with this key; None for none.

    `size` is how many points there are: what the browser sends may name another.
    """
    points = getattr(getattr(st.session_state.get(key), "selection", None), "points", None)
    if not isinstance(points, list) or not points or not isinstance(points[0], Mapping):
        return None
    return inside(points[0].get("point_index"), size)


@contextmanager
def reading_first() -> Iterator[None]:
    """What `reading` says inside stands above all that is drawn inside.

    For a picture that fills a phone's screen, whose sentence comes out of what the picture needs.
    In front of a class the picture comes first.
    """
    if session.state().of(ScreenChoices).beamer:
        with hero():
            yield
        return
    token = _ABOVE.set(st.container())
    try:
        yield
    finally:
        _ABOVE.reset(token)


def reading(page: str, words: str) -> None:
    """The one sentence beside a picture that says its number."""
    record(Text(plain(words), is_reading=True))
    # No line begins with the per cent sign, none with a power of ten.
    kept = words.replace(" %", "\u00a0%").replace(" · 10", "\u00a0·\u00a010")
    with _ABOVE.get() or st.container(), st.container(key=f"reading-{page}"):
        st.markdown(kept)


def sentence_line(view: View, key: str = "sentence") -> None:
    """What was read and what came out, in the colours of the two streams."""
    source, output = escape(view.trace.text), escape(view.trace.output)
    if view.sites_of("cross"):
        words = "forced" if view.target else "translated"
    else:
        words = "continued" if view.target else "prompt"
        output = escape(view.target or "")
    silent = view.sites_of("cross") and not view.trace.output
    if silent:
        output = view.t("place.nothing")
    with hero(), st.container():  # one place on the page, whether there is something to say or not
        with st.container(key=key):
            st.markdown(
                view.t(f"place.{words}", source=f":green[{source}]", output=f":orange[{output}]")
            )
        if silent:
            st.caption(_why_silent(view))
        if not view.trace.finished:
            st.caption(view.t("place.unfinished"))
        if view.trace.unknown:
            st.caption(unknown_words(view, view.loaded, view.trace.unknown))


def unknown_words(view: View, loaded: LoadedModel, unknown: Sequence[str]) -> str:
    """What of a text a model reads as its unknown token, whatever that is called, or drops."""
    mark = loaded.marks.unknown
    token = "" if mark is None else escape(loaded.tokenizer.piece(mark))
    dropped = {each for each in unknown if loaded.tokenizer.drops(each)}
    said = []
    for key, some in (
        ("place.unknown", [each for each in unknown if each not in dropped]),
        ("place.dropped", [each for each in unknown if each in dropped]),
    ):
        characters = " ".join(map(escape, some[:20]))
        said += [view.t(key, token=token, characters=characters)] if some else []
    return " · ".join(said)


def offer(view: View, lesson: str) -> None:
    """Say that a lesson does not show on this sentence, and offer one on which it does.

    Nothing where no such sentence is known; the words are at `lessons.<lesson>`.
    """
    sentence = telling(lesson, view.loaded.name)
    if sentence is None or sentence == view.text:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(view.t(f"lessons.{lesson}"))
        if st.button(
            view.t("lessons.try", text=escape(sentence)), key=f"lessons.{lesson}", type="tertiary"
        ):
            session.change(text=sentence, target=None, row=None, step=None)
            st.rerun(scope="app")  # the sidebar shows the sentence too


def _why_silent(view: View) -> str:
    """Why a translation has no words: it ends at once, or its tokens stand for no text."""
    trace = view.trace
    first, n_real = trace.logits[0].astype(np.float64), int(trace.tgt_valid.sum())
    if n_real > 1:
        tokens = " ".join(quoted(view, token) for token in trace.tgt_str_tokens[1:n_real])
        return view.t("place.no_text", tokens=tokens)
    chances = np.exp(first - np.logaddexp.reduce(first))
    return view.t("place.ended", probability=percent(float(chances[trace.predicted_tokens[0]])))


def pick(
    label: str,
    options: Sequence[Any],
    value: Any,
    key: str,
    change: Callable[[Any], None],
    **more: Any,
) -> None:
    """A select box that shows `value` and hands what is picked to `change`."""
    st.session_state[key] = value
    st.selectbox(label, options, key=key, on_change=lambda: change(st.session_state[key]), **more)


def pick_kind(view: View, key: str) -> None:
    """Which kind of attention."""
    st.session_state[key] = view.kind
    st.segmented_control(
        view.t("place.kind"),
        view.kinds,
        format_func=lambda kind: view.t(f"kinds.{kind}"),
        required=True,
        key=key,
        on_change=lambda: session.change_site(site=st.session_state[key]),
    )


def pick_layer(view: View, key: str) -> None:
    """Which layer."""
    pick(
        view.t("place.layer"),
        range(len(view.sites_of(view.kind))),
        view.layer,
        key,
        lambda layer: session.change(layer=layer, head=view.head),
        format_func=lambda layer: str(layer + 1),
    )


def pick_head(view: View, key: str) -> None:
    """Which head."""
    pick(
        view.t("place.head"),
        range(view.site.n_heads),
        view.head,
        key,
        lambda head: session.change(layer=view.layer, head=head),
        format_func=lambda head: str(head + 1),
    )


def pick_token(view: View, field: str, label: str, tokens: Sequence[str], key: str) -> int:
    """A place in a row of tokens; the last one where the state names a place behind it."""
    at: int = min(session.links().chosen(view.state, field), len(tokens) - 1)
    with st.container(width=260):
        pick(
            label,
            range(len(tokens)),
            at,
            key,
            lambda place: session.change(**{field: place}),
            format_func=lambda place: f"{place} · {tokens[place]}",
        )
    return at


def pick_place(view: View, page: str, *, kind: bool = True) -> None:
    """Kind of attention, layer and head, for a row of controls; `kind` False: not the kind."""
    if kind:
        pick_kind(view, f"{page}.kind")
    for name, control in (("layer", pick_layer), ("head", pick_head)):
        with st.container(width=100):
            control(view, f"{page}.{name}")


MOST_NAMED_CELLS = 3


def edits_bar(view: View, key: str, reset: Callable[[], None] | None = None) -> None:
    """The changes in force, in words, what they did to the translation, and one button to undo.

    `reset` is what that button does instead of leaving out every edit and PAD.
    """
    # One place on the page, even while empty: what follows would otherwise be re-created, and
    # a matrix would forget where the keyboard was.
    with st.container():
        _edits(view, key, reset)
    words_first(view.run)


def _edits(view: View, key: str, reset: Callable[[], None] | None) -> None:
    cells = [edit for edit in view.trace.edits if isinstance(edit, CellEdit)]
    single = len(cells) <= MOST_NAMED_CELLS
    shown = [edit for edit in view.trace.edits if single or not isinstance(edit, CellEdit)]
    named = [f"**{name_edit(view, edit)}**" for edit in shown]
    if not single:
        named.append(f"**{view.t('edits.cells', count=len(cells))}**")
    if view.state.pads:
        named.append(f"**{view.t('edits.pads', count=view.pads)}**")
    if view.trace.ignored_edits:
        ignored = shorten(format_edits(view.trace.ignored_edits), 120)
        count = len(view.trace.ignored_edits)
        st.caption(view.t("edits.ignored", count=count, edits=escape(ignored)))
    if not named and not view.trace.ignored_edits:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"{view.t('edits.active')} {' · '.join(named)}")
        st.button(
            view.t("edits.reset"),
            key=key,
            on_click=reset or (lambda: session.change(edits=(), pads=None)),
        )
        st.markdown(_translation_change(view))


def _translation_change(view: View) -> str:
    """What the changes did to the translation, as Markdown: words that went, words that came."""
    if view.target or not view.sites_of("cross"):
        return ""
    comparison = compare(view.before(), view.trace)
    if comparison.same_output:
        return view.t("edits.same")
    return view.t("edits.changed", words=marked_words(comparison.words))


def small_print(
    view: View,
    name: str,
    *,
    formula: Sequence[str],
    code: Sequence[object],
    numbers: Callable[[], Mapping[str, Sequence[Any]]],
    explained: str = "",
) -> None:
    """One quiet row: formula, code and numbers of a page, each shown only when asked for.

    `formula` is LaTeX, with its words as `text.formula` takes them, explained by the words at
    `explained` (else `<name>.formula`). `code` is what computed this very picture, in the order of
    its calls: functions, classes, methods of the objects at hand, modules of the model
    (`ui.code.source.lines_of`). `numbers` makes the table.
    """
    small_prints(
        view,
        name,
        formulas=[(formula, view.t(explained or f"{name}.formula"))],
        code=code,
        numbers=[numbers],
    )


def small_prints(
    view: View,
    name: str,
    *,
    formulas: Sequence[tuple[Sequence[str], str]],
    code: Sequence[object],
    numbers: Sequence[Callable[[], Mapping[str, Sequence[Any]]]],
) -> None:
    """The same row for several pictures: lines of LaTeX with what explains them, and tables."""
    shown = st.segmented_control(
        view.t("more.label"),
        ("formula", "code", "numbers"),
        format_func=lambda part: view.t(f"more.{part}"),
        key=f"{name}.more",
        label_visibility="collapsed",
    )
    if shown == "formula":
        for lines, explained in formulas:
            for line in lines:
                st.latex(view.formula(line))
            st.caption(explained)
    elif shown == "code":
        code_panel(view, code)
    elif shown == "numbers":
        for columns in numbers:
            st.dataframe(dict(columns()), hide_index=True, width="stretch")
