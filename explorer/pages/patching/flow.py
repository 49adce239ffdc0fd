"""Flow: from a generated word back to the words read, and a test of the explanations."""

import numpy as np
import streamlit as st

from explorer.analysis.patching.deletion import HOW, Deletion, How, delete
from explorer.analysis.patching.gradients import gradients
from explorer.analysis.patching.network import (
    Network,
    contribution_network,
    nearness,
    rollout_network,
)
from explorer.analysis.patching.rankings import Rankings
from explorer.engine import jobs
from explorer.exhibits.view import View
from explorer.figures.patching.effect_map import Block, effect_map
from explorer.figures.patching.falls import falls
from explorer.numbers import fixed, percent, signed
from explorer.pages.patching import cached
from explorer.pages.patching.choices import PatchingChoices
from explorer.pages.patching.graph import draw_graph
from explorer.pages.patching.shown import said
from explorer.problems import InputProblem
from explorer.ui import controls, running, session
from explorer.ui.parts import pick_one
from explorer.ui.problem import show_problem
from explorer.ui.stage import hero
from explorer.ui.tables import table

FLAT = 0.02
"""Smallest change of a probability that counts as a fall."""
TIE = 0.005
"""Largest difference of areas that count as equal."""


def back_to_the_words(view: View) -> None:
    """Draw this part: a generated word, the graph, five rankings, and the test of each."""
    controls.sentence_line(view)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        position = _pick_word(view)
        least = _pick_least(view)
    network = _network(view)
    if network is None:
        return
    with controls.reading_first():
        controls.reading("patching-flow", _reading(view, network, position))
        with hero():
            draw_graph(view, network, position, least)
    st.caption(view.t("patching.flow_note"))
    code: tuple[object, ...] = (contribution_network, nearness)
    ranked = deleted = None
    if view.trace.predicts is not None:
        ranked, deleted = _tested(view, position)
    if ranked is not None:
        code = (*code, rollout_network, gradients)
    if deleted is not None:
        code = (*code, delete)
    controls.small_print(
        view,
        "patching",
        formula=(
            r"y_i = \sum_j T_{ij} + b, \qquad c_{ij} = \frac{\max(0,\ \lVert y_i \rVert_1 - "
            r"\lVert y_i - T_{ij} \rVert_1)}{\sum_k \max(0,\ \lVert y_i \rVert_1 - "
            r"\lVert y_i - T_{ik} \rVert_1)}, \qquad \text{flow} = C_L \cdots C_2\, C_1",
            r"\mathrm{IG}_j = (x_j - \bar x) \cdot \int_0^1 \frac{\partial \ln p}{\partial x_j}"
            r"\big(\bar x + \alpha (x - \bar x)\big)\,d\alpha, \qquad "
            r"\sum_j \mathrm{IG}_j = \ln p(x) - \ln p(\bar x)",
        ),
        code=code,
        numbers=lambda: _numbers(view, network, position, ranked),
        explained="patching.flow_formula",
    )


def _network(view: View) -> Network | None:
    """The network of contributions; None while computing, or if the text is too long."""
    try:
        return running.awaited(
            "patching.network",
            view.run,
            lambda tell: cached.network_of(view.run, progress=jobs.whole(tell)),
            view.t("patching.flow_working"),
            view.lang,
        )
    except InputProblem as problem:
        show_problem(problem, view.lang)
        return None


def _pick_word(view: View) -> int:
    """The control for the position of a generated word, special tokens last."""
    trace, n_real = view.trace, int(view.trace.tgt_valid.sum())
    fills = trace.predicts == "same"
    masks = [at for at in range(n_real) if trace.tgt_tokens[at] == trace.marks.mask]
    places = masks if fills and masks else list(range(n_real))
    usual = places[0] if trace.src_tokens or fills else places[-1]
    chosen = view.choices(PatchingChoices).written
    if chosen is not None and chosen not in places:
        st.caption(view.t("patching.not_written", place=chosen))
    now = chosen if chosen in places else usual
    with st.container(width=300):
        controls.pick(
            view.t("patching.word"),
            places,
            now,
            "patching.word",
            lambda place: session.change(written=place),
            format_func=lambda place: f"{place} · {_word(view, place)}",
            help=view.t("patching.word_help"),
        )
    return now


def _word(view: View, place: int) -> str:
    """The token predicted at a position, or the token at it if the model has no logits."""
    trace = view.trace
    if trace.predicts is None:
        return trace.tgt_str_tokens[place]
    return cached.explained_of(view.run, place).str_token


def _pick_least(view: View) -> float:
    key = "patching.least"
    st.session_state[key] = view.choices(PatchingChoices).edge_share
    with st.container(width=320):
        st.slider(
            view.t("patching.least"),
            0,
            30,
            key=key,
            format="%d %%",
            help=view.t("patching.least_help"),
            on_change=lambda: session.change(edge_share=st.session_state[key]),
        )
    return max(0.001, view.choices(PatchingChoices).edge_share / 100)


def _reading(view: View, network: Network, position: int) -> str:
    """The reading: the two words that contributed most, and the share of each stream."""
    shares = network.reached(network.node("tgt", position))[0]
    first, second = (int(at) for at in np.argsort(-shares, kind="stable")[:2])
    said_of = [
        controls.quoted_at(view, _own(view, at)[0], _own(view, at)[1]) for at in (first, second)
    ]
    words = view.t(
        "patching.flow_read",
        word=controls.quoted(view, _word(view, position)),
        first=said_of[0],
        first_share=percent(float(shares[first])),
        second=said_of[1],
        second_share=percent(float(shares[second])),
    )
    if not network.n_src:
        return words
    source = float(shares[: network.n_src].sum())
    return f"{words} " + view.t(
        "patching.flow_streams", source=said(source), target=said(1 - source)
    )


def _own(view: View, node: int) -> tuple[tuple[str, ...], int]:
    """The token sequence of a node, and its position."""
    n_src = len(view.trace.src_tokens)
    if node < n_src:
        return view.trace.src_str_tokens, node
    return view.trace.tgt_str_tokens, node - n_src


def _tested(view: View, position: int) -> tuple[Rankings | None, Deletion | None]:
    """The rankings and their tests, each None until computed."""
    st.subheader(view.t("patching.rankings_title"), anchor=False)
    ranked = running.awaited(
        "patching.rankings",
        (view.run, position),
        lambda tell: cached.rankings_of(view.run, position, progress=jobs.whole(tell)),
        view.t("patching.ranking"),
        view.lang,
    )
    if ranked is None:
        return None, None
    if not ranked.asked.words:
        st.info(view.t("patching.no_words"), icon=":material/lightbulb:")
        return ranked, None
    _strips(view, ranked)
    slopes = ranked.slopes
    st.caption(
        view.t(
            "patching.closes",
            total=signed(float(slopes.integrated.sum())),
            difference=signed(slopes.logprob - slopes.baseline),
            steps=slopes.n_points,
        )
    )
    if "flow" not in ranked.scores:
        st.caption(view.t("patching.no_flow"))
    how: How = pick_one(
        view,
        "how",
        view.t("patching.how"),
        HOW,
        "patching.how",
        lambda name: view.t(f"patching.hows.{name}"),
        help=view.t("patching.how_help"),
    )
    deleted = running.awaited(
        "patching.deletion",
        (view.run, position, how),
        lambda tell: cached.deletion_of(view.run, position, how, progress=jobs.whole(tell)),
        view.t("patching.deleting"),
        view.lang,
    )
    if deleted is not None:
        _verdict(view, ranked, deleted)
    return ranked, deleted


def _strips(view: View, ranked: Rankings) -> None:
    """One strip of words per ranking, each scaled to its own largest score."""
    tokens, stream = _labels(view, ranked), ranked.asked.stream
    blocks = [
        Block(
            view.t(f"patching.rankings.{name}"),
            (scores / max(float(np.abs(scores).max(initial=0.0)), 1e-12))[None],
            [""],
            tokens,
            stream,
        )
        for name, scores in ranked.scores.items()
    ]
    figure = effect_map(blocks, dark=view.dark, words=view.words("figures.rankings"))
    controls.chart(figure, "patching.strips", alt=view.t("patching.rankings_title"))


def _labels(view: View, ranked: Rankings) -> list[str]:
    asked = ranked.asked
    row = view.trace.src_str_tokens if asked.stream == "src" else view.trace.tgt_str_tokens
    return [row[word] for word in asked.words]


def _verdict(view: View, ranked: Rankings, deleted: Deletion) -> None:
    """Which ranking makes the probability fall fastest, compared with random orders."""
    mean, spread = deleted.chance
    with st.container(key="reading-patching-test"):
        st.markdown(_said_of(view, ranked, deleted))
    names = [view.t(f"patching.rankings.{name}") for name in deleted.curves]
    figure = falls(
        deleted.steps,
        np.stack([each.probs for each in deleted.curves.values()]),
        names,
        np.stack([each.probs for each in deleted.random]),
        random_name=view.t("patching.random"),
        x_title=view.t("patching.gone"),
        y_title=f"p({ranked.asked.str_token})",
        dark=view.dark,
    )
    controls.chart(figure, "patching.falls", alt=view.t("patching.falls"))
    tokens = _labels(view, ranked)
    table(
        (
            view.t("patching.by"),
            view.t("patching.area"),
            view.t("patching.beaten", count=len(deleted.random)),
            view.t("patching.first_gone"),
        ),
        [
            *(
                (
                    view.t(f"patching.rankings.{name}"),
                    fixed(round(each.area, 2) + 0.0),
                    str(deleted.beaten(name)),
                    " ".join(controls.quoted_at(view, tokens, at) for at in each.order[:3]),
                )
                for name, each in deleted.curves.items()
            ),
            (view.t("patching.random"), f"{fixed(mean)} ± {fixed(spread)}", "", ""),
        ],
        "lrrl",
    )


def _said_of(view: View, ranked: Rankings, deleted: Deletion) -> str:
    """Which ranking makes the probability fall fastest, or that none does."""
    every = np.stack([each.probs for each in (*deleted.curves.values(), *deleted.random)])
    before, after = float(every[0, 0]), float(every[0, -1])
    if np.abs(every - before).max() < FLAT:
        word = controls.quoted(view, ranked.asked.str_token)
        shares = {"before": percent(before), "after": percent(after)}
        return view.t("patching.test_flat", word=word, **shares)
    mean, spread = deleted.chance
    most = max(each.area for each in deleted.curves.values())
    best = [name for name, each in deleted.curves.items() if each.area > most - TIE]
    said_first = view.t(
        "patching.test_read",
        best=" / ".join(view.t(f"patching.rankings.{name}") for name in best),
        area=fixed(most),
        mean=fixed(mean),
        spread=fixed(spread),
        orders=len(deleted.random),
    )
    return f"{said_first} {_better(view, deleted)}"


def _better(view: View, deleted: Deletion) -> str:
    """How many rankings are better than chance, with the false positive rate."""
    n_words, better = len(deleted.random[0].order), len(deleted.better)
    if not better and deleted.n_orders <= len(deleted.random):
        return view.t("patching.test_few", words=n_words, count=deleted.n_orders)
    if not better:
        return view.t("patching.test_none")
    rate = percent(deleted.rate)
    return view.t("patching.test_better", better=better, count=len(deleted.curves), rate=rate)


def _numbers(
    view: View, network: Network, position: int, ranked: Rankings | None
) -> dict[str, list[object]]:
    shares = network.reached(network.node("tgt", position))[0]
    if ranked is None:
        rows = [_own(view, node) for node in range(len(shares))]
        return {
            view.t("patching.token"): [row[at] for row, at in rows],
            view.t("patching.rankings.contribution"): [fixed(float(each), 4) for each in shares],
        }
    return {
        view.t("patching.token"): list(_labels(view, ranked)),
        **{
            view.t(f"patching.rankings.{name}"): [fixed(float(each), 4) for each in scores]
            for name, scores in ranked.scores.items()
        },
    }
