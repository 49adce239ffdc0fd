"""Branches: a second output next to the first, and the search tree."""

from itertools import zip_longest
from typing import Any

import numpy as np
import streamlit as st

from explorer.analysis.decoding.tree import grow
from explorer.components import TreeNode, sent_node, token_strip, tree_view
from explorer.exhibits.view import View
from explorer.exports.film import stacked
from explorer.figures.heatmap import attention
from explorer.figures.heatmap import difference as heat_difference
from explorer.numbers import fixed
from explorer.pages.decoding import cached
from explorer.pages.decoding.choices import DecodingChoices
from explorer.pages.decoding.strategy import beam_of, beam_settings, sample_of, sample_settings
from explorer.problems import InputProblem
from explorer.runs.generation import Generation, forced_tokens, room
from explorer.ui import controls, session
from explorer.ui.parts import pick_one
from explorer.ui.problem import show_problem
from models.hooks import AttentionSite, Role

TREE = "branches.tree"


def take_branch(view: View) -> None:
    """Start the second output with the prefix just clicked in the tree."""
    kept: list[tuple[int, ...]] = st.session_state.get("branches.nodes", [])
    taken = sent_node(TREE, len(kept))
    if taken is not None:
        session.change(fork=kept[taken], step=None)


def branches(view: View, first: Generation, second: Generation | None) -> None:
    """Draw the section."""
    st.markdown(view.t("branches.lead"))
    _type(view, second or first)
    if second is not None:
        _two_lines(view, first, second)
        _compare(view, first, second)
    _tree(view)


def _type(view: View, shown: Generation) -> None:
    """A text field for a custom token at the film's step."""
    step = min(view.step, len(shown.steps) - 1)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(
            view.t("branches.type", step=step + 1),
            key="branches.typed",
            width=320,
            placeholder=view.t("branches.type_hint"),
            on_change=_typed,
            args=(view, shown.tokens[:step]),
        )
        if view.choices(DecodingChoices).fork:
            st.button(
                view.t("branches.close"),
                key="branches.close",
                icon=":material/call_merge:",
                on_click=lambda: session.change(fork=()),
            )
    problem = st.session_state.pop("branches.problem", None)
    if problem is not None:
        show_problem(problem, view.lang)


def _typed(view: View, before: tuple[int, ...]) -> None:
    """Continue with the typed token; an error message is stored for the next run."""
    typed = st.session_state["branches.typed"]
    if not typed.strip():
        return
    try:
        tokens = forced_tokens(view.loaded, typed)
        most = min(view.choices(DecodingChoices).limit, room(view.loaded, view.text))
        if len(before) + len(tokens) > most:
            raise InputProblem("target_too_long", limit=most, length=len(before) + len(tokens))
    except InputProblem as problem:
        st.session_state["branches.problem"] = problem
        return
    session.change(fork=(*before, *tokens))


def _two_lines(view: View, first: Generation, second: Generation) -> None:
    """Both outputs as chips, and the step at which they diverge."""
    apart = (
        next(
            at
            for at, pair in enumerate(zip_longest(first.tokens, second.tokens))
            if len({*pair}) > 1
        )
        if first.tokens != second.tokens
        else len(first.tokens)
    )
    for name, made in (("first", first), ("second", second)):
        token_strip(
            [step.chosen_str for step in made.steps],
            stream="tgt",
            title=view.t(f"branches.{name}", logprob=fixed(made.logprob)),
            selected=apart if apart < len(made.steps) else None,
            words=view.words("components.token_strip"),
            key=f"branches.{name}",
        )
    ahead = first if first.logprob >= second.logprob else second
    controls.reading(
        "branches",
        view.t("branches.same")
        if first.tokens == second.tokens
        else view.t(
            "branches.apart",
            step=apart + 1,
            better=view.t("branches.the_first" if ahead is first else "branches.the_second"),
            by=f"{abs(first.logprob - second.logprob):.2f}",
        ),
    )


def _compare(view: View, first: Generation, second: Generation) -> None:
    """The attention of both outputs, side by side or as a difference, by step."""
    kind: Role = "cross" if view.sites_of("cross") else view.own_role
    sites = [site for site in view.sites_of(kind) if site.name in first.steps[0].rows]
    shown = pick_one(
        view,
        "picture",
        view.t("branches.picture"),
        DecodingChoices.pictures,
        "branches.picture",
        lambda name: view.t(f"branches.{name}"),
    )
    st.caption(_place(view, sites, kind))
    ones = [_pattern(view, made, sites) for made in (first, second)]
    queries = [tuple(step.input_tokens[-1] for step in made.steps) for made in (first, second)]
    keys = [
        made.src_str_tokens if kind == "cross" else made.steps[-1].input_tokens
        for made in (first, second)
    ]
    titles: dict[str, Any] = {
        "query_title": controls.axis_title(view, "query", "tgt"),
        "key_title": controls.axis_title(view, "key", "src" if kind == "cross" else "tgt"),
        "query_stream": "tgt",
        "key_stream": "src" if kind == "cross" else "tgt",
        "dark": view.dark,
    }
    if shown == "difference":
        n_query, n_key = (min(pattern.shape[axis] for pattern in ones) for axis in (0, 1))
        both = [
            one if one == other else f"{one} | {other}"
            for one, other in zip(*(row[:n_query] for row in queries), strict=True)
        ]
        figure = heat_difference(
            ones[0][:n_query, :n_key],
            ones[1][:n_query, :n_key],
            both,
            keys[1][:n_key],
            words={
                **view.words("figures.heatmap"),
                "before": view.t("branches.the_first"),
                "after": view.t("branches.the_second"),
            },
            **titles,
        )
        controls.chart(figure, "branches.difference", alt=view.t("branches.difference"))
        return
    for at, column in enumerate(st.columns(2, gap="large")):
        with column:
            name = ("the_first", "the_second")[at]
            st.caption(view.t(f"branches.{name}"))
            figure = attention(
                ones[at],
                None,
                queries[at],
                keys[at],
                words=view.words("figures.heatmap"),
                **titles,
            )
            controls.chart(figure, f"branches.{name}", alt=view.t(f"branches.{name}"))


def _pattern(view: View, made: Generation, sites: list[AttentionSite]) -> np.ndarray:
    """Weights [step, key] of the film's layer and head, or of their mean."""
    rows = stacked(made, sites)
    layer, head = view.state.layer, view.state.head
    if layer is None:
        return rows.mean((0, 1))
    of_layer = rows[min(layer, len(rows) - 1)]
    return of_layer.mean(0) if head is None or head >= len(of_layer) else of_layer[head]


def _place(view: View, sites: list[AttentionSite], kind: Role) -> str:
    layer, head = view.state.layer, view.state.head
    if layer is None:
        where = view.t("branches.everywhere")
    elif head is None or head >= sites[0].n_heads:
        where = view.t("onepass.mean", layer=min(layer, len(sites) - 1) + 1)
    else:
        where = view.t("heads.large", layer=min(layer, len(sites) - 1) + 1, head=head + 1)
    return f"{view.t(f'kinds.{kind}')} · {where}"


def _tree(view: View) -> None:
    """Greedy, beam search and sampling in one tree, each with its settings."""
    st.subheader(view.t("branches.tree"), anchor=False)
    st.markdown(view.t("branches.tree_lead"))
    settings = st.expander(view.t("branches.settings"), icon=":material/tune:")
    with settings, st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        beam_settings(view, "branches")
        sample_settings(view, "branches")
    try:
        with st.spinner(view.t("decoding.working")):
            tree = cached.tree_of(
                view.loaded.name,
                view.text,
                beam_of(view),
                sample_of(view),
                view.trace.edits,
                view.choices(DecodingChoices).limit,
                view.choices(DecodingChoices).ruled,
            )
    except InputProblem as problem:
        show_problem(problem, view.lang)
        return
    st.session_state["branches.nodes"] = [node.tokens for node in tree.nodes]
    tree_view(
        [
            TreeNode(
                token=node.shown,
                text=node.text,
                parent=node.parent,
                prob=node.prob,
                logprob=node.logprob,
                score=node.score,
                finished=node.fate == "finished",
                fell=None
                if node.fell_at is None or node.fell_score is None
                else (node.fell_at + 1, node.fell_score),
                lines=tuple(node.lines),
            )
            for node in tree.nodes
        ],
        key=TREE,
        words=view.words("components.tree_view"),
    )
    st.dataframe(
        {
            view.t("branches.strategy"): [view.t(f"decoding.{line}") for line in tree.answers],
            view.t("branches.answer"): [text for text, _, _ in tree.answers.values()],
            view.t("decoding.logprob"): [round(each[1], 2) for each in tree.answers.values()],
            view.t("branches.score"): [round(each[2], 3) for each in tree.answers.values()],
        },
        hide_index=True,
        width="stretch",
    )
    controls.small_print(
        view,
        "branches",
        formula=(
            r"\text{score}(y) = \frac{\log p(y\mid x)}{|y|^{\alpha}}, \qquad "
            r"p_T(v) = \mathrm{softmax}(\ell / T)_v",
            r"V_k = \{v : \mathrm{rank}(v) \le k\}, \qquad "
            r"V_p = \min\Big\{S : \sum_{v \in S} p(v) \ge p\Big\}",
        ),
        code=(grow, beam_of(view), sample_of(view)),
        numbers=lambda: {
            view.t("decoding.token"): [node.shown for node in tree.nodes],
            view.t("decoding.own"): [f"{node.prob:.4f}" for node in tree.nodes],
            view.t("decoding.logprob"): [f"{node.logprob:.3f}" for node in tree.nodes],
            view.t("branches.score"): [f"{node.score:.3f}" for node in tree.nodes],
        },
        explained="branches.formula",
    )
