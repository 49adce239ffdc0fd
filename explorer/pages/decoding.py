"""Decoding: one token after another, what else could have come, and where the model looked."""

import numpy as np
import streamlit as st

from explorer.components import token_strip
from explorer.edits import format_edits
from explorer.figures import bars
from explorer.generation import Generation, GenerationStep
from explorer.problems import InputProblem
from explorer.ui import cache, controls, session
from explorer.ui.current import latest
from explorer.ui.escape import escape
from explorer.ui.problem import show_problem
from explorer.ui.url import Strategy, format_strategy
from explorer.ui.view import View, sites_of
from models import strategies
from models.decoding import Beam, Greedy, Sample

NAMES: dict[str, type[Strategy]] = {"greedy": Greedy, "beam": Beam, "sample": Sample}
MEAN = -1  # in the menu of heads: none of them, but their mean
CODE = {
    "greedy": strategies.Greedy,
    "beam": strategies.Beam,
    "sample": strategies.Sample,
}


def render(view: View) -> None:
    """The page."""
    st.markdown(view.t("decoding.lead"))
    st.markdown(view.t("decoding.try"))
    _picture(view)


@st.fragment
def _picture(view: View) -> None:
    token = controls.clicked("decoding.row")
    if token is not None:
        session.change(step=max(0, int(token) - 1))
    view = latest(view)
    controls.edits_bar(view, "decoding.reset")
    _strategy(view)
    try:
        with st.spinner(view.t("decoding.working")):
            generation = cache.generate(
                view.loaded.name,
                view.text,
                format_strategy(view.strategy),
                format_edits(view.trace.edits),
            )
    except InputProblem as problem:
        show_problem(problem, view.lang)
        return
    if not generation.steps:
        st.info(view.t("decoding.nothing"), icon=":material/lightbulb:")
        return
    _result(view, generation)
    index = _step_slider(view, generation)
    step = generation.steps[index]
    _row(view, step)
    left, right = st.columns([5, 6], gap="large")
    with left:
        st.caption(view.t("decoding.candidates"))
        controls.chart(
            _candidates(view, step), "decoding.candidates", alt=view.t("decoding.candidates")
        )
        controls.reading("decoding", _reading(view, step))
    with right:
        _attention(view, generation, step)
    _hypotheses(view, generation)
    controls.small_print(
        view,
        "decoding",
        formula=(
            r"p(y\mid x) = \prod_t p(y_t \mid y_{<t},\, x), \qquad "
            r"p_T(y_t) = \mathrm{softmax}(\ell_t / T)",
            r"\mathrm{score}(y) = \frac{\log p(y\mid x)}{|y|^{\alpha}}",
        ),
        code=(CODE[_name(view.strategy)],),
        numbers=lambda: {
            view.t("decoding.token"): [each.str_token for each in step.candidates],
            view.t("decoding.own"): [f"{np.exp(c.logprob):.4f}" for c in step.candidates],
            view.t("decoding.logprob"): [f"{each.logprob:.3f}" for each in step.candidates],
            view.t("decoding.cut"): [f"{each.prob:.4f}" for each in step.candidates],
        },
    )


def _name(strategy: Strategy) -> str:
    return next(name for name, kind in NAMES.items() if isinstance(strategy, kind))


def _strategy(view: View) -> None:
    """Which strategy, and its own settings beside it."""
    st.session_state["decoding.strategy"] = _name(view.strategy)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        st.segmented_control(
            view.t("decoding.strategy"),
            tuple(NAMES),
            format_func=lambda name: view.t(f"decoding.{name}"),
            required=True,
            key="decoding.strategy",
            on_change=lambda: session.change(
                strategy=NAMES[st.session_state["decoding.strategy"]](), step=None
            ),
        )
        match view.strategy:
            case Beam(width=width, length_penalty=penalty):
                _setting(view, "width", width, 1, 8, 1)
                _setting(view, "length_penalty", penalty, 0.0, 2.0, 0.1)
            case Sample(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed):
                _setting(view, "temperature", temperature, 0.1, 3.0, 0.1)
                _setting(view, "top_k", top_k, 0, 100, 1)
                _setting(view, "top_p", top_p, 0.05, 1.0, 0.05)
                st.session_state["decoding.seed"] = seed
                st.number_input(
                    view.t("decoding.seed"),
                    0,
                    9999,
                    key="decoding.seed",
                    help=view.t("decoding.seed_help"),
                    width=130,
                    on_change=_set,
                    args=(view, "seed"),
                )
    st.caption(view.t(f"decoding.{_name(view.strategy)}_note"))


def _setting(view: View, field: str, value: float, low: float, high: float, step: float) -> None:
    key = f"decoding.{field}"
    st.session_state[key] = value
    st.slider(
        view.t(f"decoding.{field}"),
        low,
        high,
        step=step,
        key=key,
        width=150,
        on_change=_set,
        args=(view, field),
    )


def _set(view: View, field: str) -> None:
    value = st.session_state[f"decoding.{field}"]
    if isinstance(value, float):
        value = round(value, 2)  # a slider's steps of 0.1 do not add up exactly
    fields = {**vars(view.strategy), field: value}
    session.change(strategy=type(view.strategy)(**fields), step=None)


def _step_slider(view: View, generation: Generation) -> int:
    last = len(generation.steps) - 1
    index = min(view.step, last)
    if last:
        st.session_state["decoding.step"] = index + 1
        st.slider(
            view.t("decoding.step", count=last + 1),
            1,
            last + 1,
            key="decoding.step",
            on_change=lambda: session.change(step=st.session_state["decoding.step"] - 1),
        )
    return index


def _row(view: View, step: GenerationStep) -> None:
    token_strip(
        (*step.input_tokens, step.chosen_str),
        stream="tgt",
        title=view.t("decoding.row"),
        selected=len(step.input_tokens),
        words=view.words("components.token_strip"),
        key="decoding.row",
    )


def _candidates(view: View, step: GenerationStep) -> controls.Figure:
    sampled = isinstance(view.strategy, Sample)
    own = np.exp([each.logprob for each in step.candidates])
    return bars.candidates(
        [each.str_token for each in step.candidates],
        np.array([each.prob for each in step.candidates]) if sampled else own,
        kept=np.array([each.kept for each in step.candidates]) if sampled else None,
        chosen=next(
            (i for i, each in enumerate(step.candidates) if each.token == step.chosen), None
        ),
        dark=view.dark,
        words=view.words("figures.bars"),
    )


def _attention(view: View, generation: Generation, step: GenerationStep) -> None:
    layers = len(view.sites_of("decoder"))
    layer = min(layers - 1 if view.state.layer is None else view.state.layer, layers - 1)
    head = view.state.head
    with st.container(horizontal=True, vertical_alignment="bottom"):
        with st.container(width=90):
            controls.pick(
                view.t("place.layer"),
                range(layers),
                layer,
                "decoding.layer",
                lambda value: session.change(layer=value),
                format_func=lambda value: str(value + 1),
            )
        with st.container(width=200):
            n_heads = view.sites_of("decoder")[0].n_heads
            controls.pick(
                view.t("place.head"),
                (MEAN, *range(n_heads)),
                MEAN if head is None or head >= n_heads else head,
                "decoding.head",
                lambda value: session.change(head=None if value == MEAN else value),
                format_func=lambda value: view.t("place.mean") if value == MEAN else str(value + 1),
            )
    for kind in ("cross", "decoder"):
        sites = [site for site in sites_of(view.trace, kind) if site.name in step.rows]
        if not sites:
            continue
        site = sites[min(layer, len(sites) - 1)]
        weights = step.rows[site.name]
        names = [view.t("decoding.head_name", head=index + 1) for index in range(len(weights))]
        st.caption(view.t(f"decoding.looks_{kind}"))
        figure = bars.row(
            generation.src_str_tokens if kind == "cross" else step.input_tokens,
            weights if head is None or head >= len(weights) else weights[head],
            stream=site.key_stream,
            head_names=names if head is None or head >= len(weights) else (),
            title=controls.axis_title(view, "key", site.key_stream),
            dark=view.dark,
            words=view.words("figures.bars"),
        )
        figure["layout"]["height"] = 200
        # A row of one or two tokens keeps slim bars, and grows into its place step by step.
        shown = max(8, weights.shape[-1])
        figure["layout"]["xaxis"]["range"] = [-0.5, shown - 0.5]
        controls.chart(figure, f"decoding.looks.{kind}", alt=view.t(f"decoding.looks_{kind}"))


def _reading(view: View, step: GenerationStep) -> str:
    """Which token was chosen, how probable it was, and why it was taken."""
    own = next(each for each in step.candidates if each.token == step.chosen)
    ranked = sorted(step.candidates, key=lambda each: -each.logprob)
    values = {
        "step": step.index + 1,
        "token": controls.quoted(view, step.chosen_str),
        "probability": controls.percent(float(np.exp(own.logprob))),
        "rank": ranked.index(own) + 1,
        "drawn": controls.percent(own.prob),
        "best": controls.quoted(view, ranked[0].str_token),
    }
    name = _name(view.strategy)
    if name == "beam":
        name = "beam_first" if values["rank"] == 1 else "beam_other"
    return view.t(f"decoding.why_{name}", **values)


def _result(view: View, generation: Generation) -> None:
    with st.container(key="sentence"):
        st.markdown(
            view.t(
                "place.translated",
                source=f":green[{escape(view.trace.text)}]",
                output=f":orange[{escape(generation.text)}]",
            )
        )
    st.caption(
        view.t(
            "decoding.result" if generation.finished else "decoding.result_unfinished",
            logprob=f"{generation.logprob:.2f}".replace("-", "−"),
            count=len(generation.steps),
        )
    )


def _hypotheses(view: View, generation: Generation) -> None:
    if len(generation.hypotheses) > 1:
        st.caption(view.t("decoding.hypotheses"))
        st.dataframe(
            {
                view.t("decoding.hypothesis"): [text for text, _, _ in generation.hypotheses],
                view.t("decoding.logprob"): [round(h[1], 3) for h in generation.hypotheses],
                view.t("decoding.score"): [round(h[2], 3) for h in generation.hypotheses],
            },
            hide_index=True,
            width="stretch",
        )
