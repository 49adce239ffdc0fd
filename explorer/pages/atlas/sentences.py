"""The open head's top sentences, one of them drawn as on Heads."""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import streamlit as st

from explorer.analysis.atlas.store import Head, Text
from explorer.analysis.atlas.sums import MEASURES, Measure
from explorer.components import sent_selection
from explorer.exhibits.escape import escape
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.view import View, build
from explorer.numbers import percent
from explorer.pages.atlas import cached
from explorer.pages.atlas.choices import AtlasChoices
from explorer.pages.atlas.shown import Shown, kind_words
from explorer.pages.heads.picture import draw_heads, shape_of
from explorer.problems import InputProblem
from explorer.ui import controls, session
from explorer.ui.problem import show_problem

LIST = 140
"""Height of the list of sentences in pixels; it scrolls."""
LISTED = 160
"""Most characters of a text in the list."""
VIEW = "atlas.view"
"""Key of the picture of a corpus sentence, where clicks open heads."""


def sentences(shown: Shown) -> None:
    """The list, its filters, and the open sentence."""
    view, atlas = shown.view, shown.atlas
    numbers = atlas.best[shown.head.number]
    st.subheader(view.t("atlas.sentences"), anchor=False)
    if not numbers:
        st.caption(view.t("atlas.sentences_none"))
        return
    texts = tuple(atlas.texts[number] for number in numbers)
    alone = cached.one_by_one(shown.which, texts)
    shares = alone.weight[:, shown.head.number, MEASURES.index(shown.name.nearest)]
    st.caption(
        view.t(
            f"atlas.sentences_{how(shown.name.nearest)}",
            kind=kind_words(view, shown.name.nearest),
            count=len(texts),
        )
    )
    _filters(view)
    kept = [
        at
        for at, text in enumerate(texts)
        if passes(view.choices(AtlasChoices), text, int(alone.tokens[at]), float(shares[at]))
    ]
    if not kept:
        st.info(view.t("atlas.filtered_none", count=len(texts)), icon=":material/filter_alt:")
        return
    now = min(max(view.choices(AtlasChoices).sentence - 1, 0), len(texts) - 1)
    now = now if now in kept else kept[0]
    st.session_state["atlas.sentence"] = now
    with st.container(height=LIST, border=False):
        st.radio(
            view.t("atlas.sentences"),
            kept,
            key="atlas.sentence",
            format_func=lambda at: said(view, texts[at], float(shares[at])),
            on_change=lambda: session.change(sentence=st.session_state["atlas.sentence"] + 1),
            label_visibility="collapsed",
        )
    draw_sentence(shown, texts[now])


def how(measure: Measure) -> str:
    """The meaning of the number before a sentence."""
    return measure if measure in ("spread", "alignment") else "weight"


def said(view: View, text: Text, share: float) -> str:
    """A sentence in the list: its share, its text, its translation."""
    number = f"{percent(share)} · " if np.isfinite(share) else ""
    target = f" ⟶ {escape(beginning(text.target))}" if text.target else ""
    return f"{number}{escape(beginning(text.source))}{target}"


def beginning(text: str) -> str:
    """A text shortened for the list; the open one is shown in full."""
    return text if len(text) <= LISTED else f"{text[:LISTED].rstrip()} …"


def passes(choices: AtlasChoices, text: Text, tokens: int, share: float) -> bool:
    """Whether a sentence passes the filters: length, a word in it (* matches any letters), and the
    head's share in it."""
    if choices.shortest and tokens < choices.shortest:
        return False
    if choices.longest and tokens > choices.longest:
        return False
    if choices.least and not 100 * share >= choices.least:
        return False
    word = choices.containing.strip().casefold()
    if not word:
        return True
    both = f"{text.source} {text.target}".casefold()
    if "*" in word or "?" in word:
        return any(fnmatchcase(each.strip(".,;:!?\"'。，！？“”"), word) for each in both.split())
    return word in both


def _filters(view: View) -> None:
    chosen = view.choices(AtlasChoices)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for field, limit in (("shortest", 9999), ("longest", 9999), ("least", 100)):
            key = f"atlas.{field}"
            st.session_state[key] = getattr(chosen, field)
            with st.container(width=150):
                st.number_input(
                    view.t(f"atlas.{field}"),
                    0,
                    limit,
                    key=key,
                    help=view.t(f"atlas.{field}_help"),
                    on_change=_change,
                    args=(field,),
                )
        st.session_state["atlas.containing"] = chosen.containing
        with st.container(width=220):
            st.text_input(
                view.t("atlas.word"),
                key="atlas.containing",
                max_chars=60,
                help=view.t("atlas.word_help"),
                on_change=_change,
                args=("containing",),
            )


def _change(field: str) -> None:
    session.change(**{field: st.session_state[f"atlas.{field}"]})


def view_of(shown: Shown, text: Text, head: Head) -> View | None:
    """The view of a corpus sentence with `head` open; None with its error shown if there is none.

    Corpus texts may be too long to trace.
    """
    state = replace(
        shown.view.state,
        model=shown.which.model,
        text=text.source,
        target=text.target or None,
        site=head.role,
        layer=head.layer,
        head=head.head,
        row=None,
        edits=(),
        pads=None,
    )
    try:
        return build(state, shown.view.dark)
    except InputProblem as problem:
        show_problem(problem, shown.view.lang)
        return None


def draw_sentence(shown: Shown, text: Text) -> None:
    """Draw one corpus sentence as on Heads, with its source and with the open head."""
    head = shown.head
    drawn = view_of(shown, text, head)
    if drawn is None:
        return
    choice = Opened(drawn)
    chosen = sent_selection(VIEW, shape_of(choice), len(choice.aggregates))
    opened = None if chosen is None else chosen.opened
    if opened is not None and opened[0] < len(choice.sites) and opened != (head.layer, head.head):
        session.change(layer=opened[0], head=opened[1], sentence=1)
        st.rerun(scope="fragment")
    controls.sentence_line(drawn, "sentence-atlas")
    draw_heads(choice, VIEW)
    source_of(shown, text, head)


def source_of(shown: Shown, text: Text, head: Head) -> None:
    """A button that opens a corpus sentence on Heads, and its authors."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            shown.view.t("atlas.open_sentence"),
            key="atlas.open_sentence",
            icon=":material/open_in_full:",
            on_click=_take_over,
            args=(text, head),
        )
        credit = credits(shown, [text])
        if credit:
            st.caption(credit)


def _take_over(text: Text, head: Head) -> None:
    """Open this sentence on Heads."""
    session.change_site(site=head.role)
    session.change(
        text=text.source,
        target=text.target or None,
        layer=head.layer,
        head=head.head,
        row=None,
        edits=(),
        pads=None,
    )
    session.visit("heads")


def credits(shown: Shown, texts: Sequence[Text]) -> str:
    """The authors and licences of the sentences."""
    parts = [*dict.fromkeys(text.credit for text in texts if text.credit), shown.atlas.about.credit]
    return escape(" · ".join(part for part in parts if part))
