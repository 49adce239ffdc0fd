"""The second sentence (suggested, typed, aligned), and the position compared in both runs."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explorer.analysis.patching.pair import Pair
from explorer.engine import jobs
from explorer.exhibits.choices import RefusedError
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.numbers import percent
from explorer.pages.patching import cached
from explorer.pages.patching.cached import Asked
from explorer.pages.patching.choices import PatchingChoices, format_places, parse_places
from explorer.problems import InputProblem
from explorer.ui import controls, running, session
from explorer.ui.problem import show_problem
from explorer.ui.stage import hero


def two_runs(view: View) -> tuple[Asked, Pair, DeltaGenerator] | None:
    """The two runs and their comparison, with the controls that choose them.

    The third value is the container of these controls, with room for one more. None, with a
    message, if there is no second sentence yet or it cannot be read.
    """
    chosen = view.choices(PatchingChoices)
    offered = _offered(view)
    second = chosen.second or offered or ""
    backwards = chosen.into == "first"
    row = st.container(horizontal=True, vertical_alignment="bottom")
    with row:
        _type(view, second, offered)
    if not second:
        st.info(view.t("patching.none_offered"), icon=":material/lightbulb:")
        return None
    asked = Asked(view.run, second, chosen.asked, chosen.align, backwards)
    try:
        both = cached.pair_of(asked)
    except InputProblem as problem:
        show_problem(problem, view.lang)
        if chosen.align is not None:
            _align_again(view)
        return None
    unknown = view.loaded.tokenizer.of("src").unknown(second)
    if unknown:
        st.caption(controls.unknown_words(view, view.loaded, unknown))
    with row:
        _pick_question(view, both, backwards)
        _pick_direction(view)
    _say(view, both, second)
    _align(view, both, backwards)
    return asked, both, row


def _offered(view: View) -> str | None:
    """A second sentence found by the page; None if there is none, or while searching."""
    return running.awaited(
        "patching.offered",
        view.run,
        lambda tell: cached.offered(view.run, progress=jobs.whole(tell)),
        view.t("patching.looking"),
        view.lang,
    )


def _type(view: View, second: str, offered: str | None) -> None:
    st.session_state["patching.second"] = second
    with st.container(width=360):
        st.text_input(
            view.t("patching.second"),
            key="patching.second",
            placeholder=view.t("patching.second_hint"),
            help=view.t("patching.second_help"),
            on_change=lambda: _change_second(st.session_state["patching.second"], offered),
        )
    if offered is not None and second != offered:
        st.button(
            view.t("patching.offer", text=escape(offered)),
            key="patching.offer",
            type="tertiary",
            on_click=lambda: _change_second("", offered),
        )


def _change_second(text: str, offered: str | None) -> None:
    new = "" if text.strip() == (offered or "") else text.strip()
    session.change(second=new, align=None, cell=None, asked=None)


def _say(view: View, both: Pair, second_text: str) -> None:
    """Both sentences, each with its answer and its logit difference."""
    backwards = view.choices(PatchingChoices).into == "first"
    first, second = both.str_answers[::-1] if backwards else both.str_answers
    texts = view.trace.text, second_text
    probabilities = both.probabilities[::-1] if backwards else both.probabilities
    said = [
        view.t(
            f"patching.says_{key}",
            text=escape(text),
            answer=controls.quoted(view, answer),
            share=percent(share),
        )
        for key, text, answer, share in zip(
            ("first", "second"), texts, (first, second), probabilities, strict=True
        )
    ]
    with hero(), st.container(key="patching-two"):
        st.markdown(" · ".join(said))


def _pick_question(view: View, both: Pair, backwards: bool) -> None:
    """The control for the compared position; positions where the runs differ are marked."""
    side = 1 if backwards else 0
    by_place = {each.places[side]: each for each in both.questions}
    shown = {
        place: view.t(
            "patching.question_differs" if each.differs else "patching.question_alike",
            place=place,
            first=_token(view, place, each.answers[side]),
            second=_token(view, place, each.answers[1 - side]),
        )
        for place, each in by_place.items()
    }
    with st.container(width=170):
        controls.pick(
            view.t("patching.question"),
            list(by_place),
            both.question.places[side],
            "patching.question",
            lambda place: session.change(asked=place, cell=None),
            format_func=lambda place: shown[place],
            help=view.t("patching.question_help"),
        )


def _token(view: View, place: int, token: int) -> str:
    return view.loaded.str_tokens((view.trace.tgt_tokens[place], token))[-1]


def _pick_direction(view: View) -> None:
    key = "patching.into"
    st.session_state[key] = view.choices(PatchingChoices).into
    st.segmented_control(
        view.t("patching.into"),
        ("second", "first"),
        format_func=lambda name: view.t(f"patching.into_{name}"),
        required=True,
        key=key,
        on_change=lambda: session.change(into=st.session_state[key]),
    )


def _align(view: View, both: Pair, backwards: bool) -> None:
    """For sentences of different length: shows and edits the token alignment."""
    stream = view.loaded.model.reads[0]
    tokens, places = both.str_tokens[stream], both.places[stream]
    if backwards:
        tokens, places = tokens[::-1], tuple(sorted((b, a) for a, b in places))
    chosen = view.choices(PatchingChoices).align
    exchanged = sum(tokens[0][a] != tokens[1][b] for a, b in places)
    if both.same_length and chosen is None and exchanged <= 1:
        return  # the alignment is obvious
    alone = [controls.quoted_at(view, tokens[1], at) for at in _missing(places, 1, tokens[1])]
    if not both.same_length:
        st.caption(
            view.t(
                "patching.unequal",
                first=len(tokens[0]),
                second=len(tokens[1]),
                count=len(places),
                alone=", ".join(alone) or view.t("patching.none_alone"),
            )
        )
    st.session_state["patching.align"] = format_places(places).replace("_", " ")
    with st.expander(view.t("patching.align_title")):
        st.markdown(
            " · ".join(
                f"{a}–{b} {escape(tokens[0][a])} – {escape(tokens[1][b])}" for a, b in places
            )
        )
        st.text_input(
            view.t("patching.align"),
            key="patching.align",
            help=view.t("patching.align_help"),
            on_change=lambda: _change_align(st.session_state["patching.align"]),
        )
        if chosen is not None:
            _align_again(view)


def _align_again(view: View) -> None:
    st.button(
        view.t("patching.align_again"),
        key="patching.align_again",
        on_click=lambda: session.change(align=None),
    )


def _missing(places: tuple[tuple[int, int], ...], side: int, tokens: tuple[str, ...]) -> list[int]:
    there = {each[side] for each in places}
    return [at for at in range(len(tokens)) if at not in there]


def _change_align(text: str) -> None:
    try:
        session.change(align=parse_places("_".join(text.split())) if text.strip() else None)
    except RefusedError:  # the box shows the current value again
        return
