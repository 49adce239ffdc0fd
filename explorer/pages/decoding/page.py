"""Decoding: token by token as a film, with the details of each strategy."""

from itertools import zip_longest
from typing import Any

import numpy as np
import streamlit as st

from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.numbers import fixed
from explorer.pages.decoding import cached
from explorer.pages.decoding.branches import branches, take_branch
from explorer.pages.decoding.caching import caching
from explorer.pages.decoding.choices import DecodingChoices
from explorer.pages.decoding.lines import line
from explorer.pages.decoding.one_pass import one_pass
from explorer.pages.decoding.picture import show_film, take_moves
from explorer.pages.decoding.speculation import speculative
from explorer.pages.decoding.strategy import OURS, pick_strategy, strategy_name, with_rule
from explorer.problems import InputProblem
from explorer.runs.generation import Generation, generate
from explorer.ui import controls
from explorer.ui.current import latest
from explorer.ui.page import fragment
from explorer.ui.parts import pick_part
from explorer.ui.problem import show_problem
from explorer.ui.share import shared
from explorer.ui.stage import hero, stage
from models import decoding
from models.foreign.elsewhere import RefillingBeam
from models.strategies import Beam, Greedy, Sample

AT_ONCE = 50_000_000
"""Parameters of the largest model whose other strategy is decoded unasked."""
STRATEGIES: dict[type, str] = {
    Greedy: r"y_t = \arg\max_v \ell_{t,v}",
    Beam: r"\text{score}(y) = \frac{\log p(y\mid x)}{|y|^{\alpha}}",
    RefillingBeam: r"\text{score}(y) = \frac{\log p(y\mid x)}{|y|^{\alpha}}",
    Sample: r"y_t \sim p_T, \qquad p_T = \mathrm{softmax}(\ell_t / T)",
}


def render(view: View) -> None:
    """Draw the page."""
    controls.opening(view, "decoding")
    _picture(view)


@fragment
def _picture(view: View) -> None:
    take_branch(view)
    view = latest(view)
    with shared(view, "decoding"), stage():
        _drawn(view)


def _drawn(view: View) -> None:
    """Draw the page below its introduction."""
    controls.edits_bar(view, "decoding.reset")
    pick_strategy(view)
    fork = view.choices(DecodingChoices).fork
    try:
        first = line(view)
        second = line(view, fork) if first and fork else None
    except InputProblem as problem:
        show_problem(problem, view.lang)
        return
    if first is None or (fork and second is None):
        return
    shown = second or first
    if not shown.steps:
        st.info(view.t("decoding.nothing"), icon=":material/lightbulb:")
        return
    moved = take_moves(view, shown)
    if moved.choices(DecodingChoices).fork != fork:
        st.rerun(scope="fragment")
    view = moved
    with hero():
        _result(view, shown)
        alike = _other_strategy(view, shown)
        _other_rule(view, shown)
        show_film(view, shown)
    if alike:
        controls.offer(view, "beam")
    _small_print(view, shown)
    _parts(view, first, second)


def _result(view: View, generation: Generation) -> None:
    key = "result" if generation.finished else "result_unfinished"
    result = view.t(
        f"decoding.{'result_stopped' if generation.stopped else key}",
        logprob=fixed(generation.logprob),
        count=len(generation.steps),
    )
    with controls.sentence_place(f"{view.trace.text}{generation.text}"):
        st.markdown(
            view.t(
                "place.translated",
                source=f":green[{escape(view.trace.text)}]",
                output=f":orange[{escape(generation.text)}]",
            ),
            width="content",
        )
        st.caption(result, width="content")


def _other_strategy(view: View, shown: Generation) -> bool:
    """Beam search next to greedy decoding and the reverse: where they part, and what the other
    generates. Returns whether both generate the same; False too if that was not computed, as for a
    forced prefix and for large models.
    """
    made = view.choices(DecodingChoices)
    large = view.loaded.n_parameters > AT_ONCE
    if made.fork or shown.stopped or large or not view.trace.config.generates:
        return False
    other = made.beam if isinstance(made.strategy, Greedy) else Greedy()
    found = cached.generate(
        view.loaded.name, view.text, other, view.trace.edits, made.limit, (), made.ruled
    )
    words = {
        "other": view.t(f"decoding.{strategy_name(other)}"),
        "text": escape(found.text),
        "logprob": fixed(found.logprob),
        "own": fixed(shown.logprob),
    }
    if found.tokens == shown.tokens:
        _beside(view, "decoding.strategies_same", **words)
        return True
    pairs = enumerate(zip_longest(found.tokens, shown.tokens))
    at = next(at for at, (theirs, own) in pairs if theirs != own)
    theirs, ours = (
        each.steps[at].chosen_str if at < len(each.steps) else view.t("decoding.ends")
        for each in (found, shown)
    )
    parted = {"step": at + 1, "theirs": escape(theirs), "ours": escape(ours)}
    _beside(view, "decoding.strategies_part", **words, **parted)
    return False


def _other_rule(view: View, shown: Generation) -> None:
    """How the output differs with the other rule of beam search, for an output without a forced
    prefix."""
    made = view.choices(DecodingChoices)
    if not isinstance(made.strategy, Beam) or made.fork or shown.stopped:
        return
    name = OURS if isinstance(made.strategy, RefillingBeam) else "refill"
    other = with_rule(made.strategy, name)
    with st.spinner(view.t("decoding.working")):
        found = cached.generate(
            view.loaded.name, view.text, other, view.trace.edits, made.limit, (), made.ruled
        )
    key = "rules_same" if found.tokens == shown.tokens else "rules_differ"
    _beside(
        view,
        f"decoding.{key}",
        rule=view.t(f"decoding.rule_{name}"),
        text=escape(found.text),
        logprob=fixed(found.logprob),
        count=len(found.steps),
        own=fixed(shown.logprob),
        own_count=len(shown.steps),
    )


def _beside(view: View, key: str, **words: Any) -> None:
    """What another strategy generates, in one line above the picture: Branches lists all texts."""
    with st.container(key=key):
        st.caption(view.t(key, **words))


def _parts(view: View, first: Generation, second: Generation | None) -> None:
    """The sections below the film, one at a time, since each needs further computation.

    They need growing sequences, so models that fill in masks have none.
    """
    if not view.trace.config.generates:
        return
    part = pick_part(view, "decoding", DecodingChoices.parts)
    if part == "pass":
        one_pass(view, second or first)
    elif part == "branches":
        branches(view, first, second)
    elif part == "cache":
        caching(view, second or first)
    else:
        speculative(view)


def _code(view: View) -> tuple[object, ...]:
    """The code of the decoding loop, the strategy, and the forward pass."""
    model = view.loaded.model
    fills = view.loaded.fills_in
    writer = decoding._Filler if fills else decoding._Writer
    reads = (model.read,) if fills else (model.last_stack.run, model.logits_of)
    strategy = view.choices(DecodingChoices).strategy
    rules = view.loaded.asked.rules
    ruled = (rules.applied,) if rules and view.choices(DecodingChoices).ruled and not fills else ()
    return decoding._steps, writer, strategy, *ruled, *reads, decoding.decode, generate


def _small_print(view: View, generation: Generation) -> None:
    step = generation.steps[min(view.step, len(generation.steps) - 1)]
    controls.small_print(
        view,
        "decoding",
        formula=(
            r"p(y\mid x) = \prod_t p(y_t \mid y_{<t},\, x), \qquad "
            r"p(y_t \mid y_{<t},\, x) = \mathrm{softmax}(\ell_t)",
            STRATEGIES[type(view.choices(DecodingChoices).strategy)],
        ),
        code=_code(view),
        numbers=lambda: {
            view.t("decoding.token"): [each.str_token for each in step.candidates],
            view.t("decoding.own"): [f"{np.exp(c.logprob):.4f}" for c in step.candidates],
            view.t("decoding.logprob"): [f"{each.logprob:.3f}" for each in step.candidates],
            view.t("decoding.cut"): [f"{each.prob:.4f}" for each in step.candidates],
        },
    )
