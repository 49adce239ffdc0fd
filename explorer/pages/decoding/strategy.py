"""The controls for the decoding strategy, its settings, and the token limit."""

import random

import streamlit as st

from explorer.exhibits.escape import escape
from explorer.exhibits.shared import ScreenChoices
from explorer.exhibits.view import View
from explorer.pages.decoding.choices import MOST_NEW, STOPS, DecodingChoices, Strategy, rule_of
from explorer.ui import session
from models.foreign.elsewhere import RefillingBeam
from models.strategies import Beam, Greedy, Sample

NAMES: dict[str, type[Strategy]] = {"greedy": Greedy, "beam": Beam, "sample": Sample}
MOST_SEED = 9999
OURS = "narrowing"
RULES = (OURS, *STOPS)


def strategy_name(strategy: Strategy) -> str:
    """ "greedy", "beam" or "sample"."""
    return next(name for name, kind in NAMES.items() if isinstance(strategy, kind))


def beam_of(view: View) -> Beam:
    """The current beam search settings: the film's, else the stored ones."""
    made = view.choices(DecodingChoices)
    return made.strategy if isinstance(made.strategy, Beam) else made.beam


def sample_of(view: View) -> Sample:
    """The current sampling settings: the film's, else the stored ones."""
    made = view.choices(DecodingChoices)
    return made.strategy if isinstance(made.strategy, Sample) else made.sample


def pick_strategy(view: View) -> None:
    """Controls for the strategy, its settings, and the limit."""
    made = view.choices(DecodingChoices)
    st.session_state["decoding.strategy"] = strategy_name(made.strategy)
    kinds: dict[str, Strategy] = {
        "greedy": Greedy(),
        "beam": made.beam,
        "sample": made.sample,
    }
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        st.segmented_control(
            view.t("decoding.strategy"),
            tuple(NAMES),
            format_func=lambda name: view.t(f"decoding.{name}"),
            required=True,
            key="decoding.strategy",
            on_change=lambda: session.change(
                strategy=kinds[st.session_state["decoding.strategy"]], step=None
            ),
        )
        match made.strategy:
            case Beam():
                beam_settings(view, "decoding")
            case Sample():
                sample_settings(view, "decoding")
        st.session_state["decoding.limit"] = made.limit
        st.number_input(
            view.t("decoding.limit"),
            0,
            MOST_NEW,
            key="decoding.limit",
            help=view.t("decoding.limit_help"),
            width=130,
            on_change=lambda: session.change(limit=st.session_state["decoding.limit"]),
        )
    if not view.choices(ScreenChoices).beamer:
        refills = isinstance(made.strategy, RefillingBeam)
        note = "refilling" if refills else strategy_name(made.strategy)
        st.caption(view.t(f"decoding.{note}_note"))
    _elsewhere(view)


def _elsewhere(view: View) -> None:
    """The settings in the model's folder: rules, which can be disabled, and all others."""
    asked, made = view.loaded.asked, view.choices(DecodingChoices)
    if asked.rules and view.trace.config.generates:
        st.session_state["decoding.ruled"] = made.ruled
        st.toggle(
            view.t("decoding.ruled", settings=escape(", ".join(asked.applied))),
            key="decoding.ruled",
            help=view.t("decoding.ruled_help"),
            on_change=lambda: session.change(ruled=st.session_state["decoding.ruled"], step=None),
        )
    for key, settings in (("asked_chosen", asked.chosen), ("asked_ignored", asked.ignored)):
        if settings:
            st.caption(view.t(f"decoding.{key}", settings=escape(", ".join(settings))))


def rule(beam: Beam) -> str:
    """The name of a beam's rule, one of RULES."""
    return rule_of(beam.early_stopping) if isinstance(beam, RefillingBeam) else OURS


def with_rule(beam: Beam, name: str) -> Beam:
    """A beam of the same width and length penalty with another rule."""
    sizes = {"width": beam.width, "length_penalty": beam.length_penalty}
    return Beam(**sizes) if name == OURS else RefillingBeam(**sizes, early_stopping=STOPS[name])  # type: ignore[arg-type]


def beam_settings(view: View, page: str) -> None:
    """Controls for width, length penalty and rule of the current beam search."""
    beam = beam_of(view)
    key = f"{page}.rule"
    st.session_state[key] = rule(beam)
    st.selectbox(
        view.t("decoding.rule"),
        RULES,
        format_func=lambda name: view.t(f"decoding.rule_{name}"),
        key=key,
        width=230,
        help=view.t("decoding.rule_help"),
        on_change=lambda: _replace(beam, with_rule(beam, st.session_state[key])),
    )
    _setting(view, page, beam, "width", 1, 8, 1)
    _setting(view, page, beam, "length_penalty", 0.0, 2.0, 0.1)


def sample_settings(view: View, page: str) -> None:
    """Controls for the cut-offs and seed of the current sampling, with a button for another
    seed."""
    sample = sample_of(view)
    _setting(view, page, sample, "temperature", 0.0, 3.0, 0.1)
    _setting(view, page, sample, "top_k", 0, 100, 1)
    _setting(view, page, sample, "top_p", 0.0, 1.0, 0.05)
    st.session_state[f"{page}.seed"] = sample.seed
    st.number_input(
        view.t("decoding.seed"),
        0,
        MOST_SEED,
        key=f"{page}.seed",
        help=view.t("decoding.seed_help"),
        width=120,
        on_change=_set,
        args=(page, sample, "seed"),
    )
    st.button(
        view.t("decoding.again"),
        key=f"{page}.again",
        icon=":material/casino:",
        on_click=lambda: _replace(
            sample, Sample(**{**vars(sample), "seed": another_seed(sample.seed)})
        ),
    )


def another_seed(seed: int) -> int:
    """A different seed."""
    return (seed + random.randint(1, MOST_SEED)) % (MOST_SEED + 1)


def _setting(
    view: View,
    page: str,
    strategy: Strategy,
    field: str,
    low: float,
    high: float,
    step: float,
) -> None:
    key = f"{page}.{field}"
    st.session_state[key] = getattr(strategy, field)
    st.slider(
        view.t(f"decoding.{field}"),
        low,
        high,
        step=step,
        key=key,
        width=140,
        on_change=_set,
        args=(page, strategy, field),
    )


def _set(page: str, strategy: Strategy, field: str) -> None:
    value = st.session_state[f"{page}.{field}"]
    if isinstance(value, float):
        value = round(value, 2)  # a slider's steps of 0.1 accumulate rounding errors
    _replace(strategy, type(strategy)(**{**vars(strategy), field: value}))


def _replace(before: Strategy, after: Strategy) -> None:
    """Apply new settings, also to the film if it uses this strategy."""
    name = strategy_name(after)
    if strategy_name(session.state().of(DecodingChoices).strategy) == name:
        session.change(strategy=after, step=None, **{name: after})
    else:
        session.change(**{name: after})
