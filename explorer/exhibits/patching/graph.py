"""The flow graph of a generated word: the vectors that led to it from the words read."""

from functools import partial

import numpy as np

from explorer.analysis.patching.network import Network, contribution_network, nearness
from explorer.analysis.patching.patches import Progress
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.patching.choices import PatchingChoices
from explorer.exhibits.patching.flow import position_of, word_of
from explorer.exhibits.patching.names import said
from explorer.exhibits.saying import quoted, quoted_at
from explorer.figures.patching.flow_graph import Dot, FlowEdge, WordColumn, flow_graph
from explorer.figures.theme import show as shown_token
from explorer.numbers import fixed, percent
from models.hooks import AttentionSite
from models.rows import Stream

APART = 0.6
"""Blank columns between the two streams."""


class Places:
    """The place of each vector in the graph: one column per word, one level per sublayer, the
    target's levels above the source's."""

    def __init__(self, network: Network) -> None:
        self.n_src = network.n_src
        self.of_stream: dict[Stream, list[int]] = {"src": [], "tgt": []}
        for sublayer, site in enumerate(network.sites):
            self.of_stream[site.query_stream].append(sublayer)
        self.begins = len(self.of_stream["src"]) + 1 if self.n_src else 0

    def stream(self, node: int) -> Stream:
        """The stream of a node."""
        return "src" if node < self.n_src else "tgt"

    def column(self, node: int) -> float:
        """The column of a node."""
        return node + (APART if self.n_src and node >= self.n_src else 0)

    def level(self, node: int, below: int) -> float:
        """The level of a node with `below` sublayers below it."""
        stream = self.stream(node)
        own = sum(sublayer < below for sublayer in self.of_stream[stream])
        return own + (self.begins if stream == "tgt" else 0)

    @property
    def top(self) -> float:
        """The level above all sublayers."""
        return self.begins + len(self.of_stream["tgt"])


@cached
def network(run: Run, *, progress: Progress | None = None) -> Network:
    """The network of contributions between the vectors of a run. Raises InputProblem."""
    return contribution_network(cache.open_model(run.model), cache.trace(run), progress)


def show(found: Network, view: View) -> b.Blocks:
    """The graph, and the words that contributed most."""
    yield b.Hero((b.Sentence("patching-flow", _reading(view, found)), _graph(view, found)))
    yield b.Note(view.t("patching.flow_note"))
    yield b.Formula.of(
        view.t("patching.flow_formula"),
        r"y_i = \sum_j T_{ij} + b, \qquad c_{ij} = \frac{\max(0,\ \lVert y_i \rVert_1 - "
        r"\lVert y_i - T_{ij} \rVert_1)}{\sum_k \max(0,\ \lVert y_i \rVert_1 - "
        r"\lVert y_i - T_{ik} \rVert_1)}, \qquad \text{flow} = C_L \cdots C_2\, C_1",
        r"\mathrm{IG}_j = (x_j - \bar x) \cdot \int_0^1 \frac{\partial \ln p}{\partial x_j}"
        r"\big(\bar x + \alpha (x - \bar x)\big)\,d\alpha, \qquad "
        r"\sum_j \mathrm{IG}_j = \ln p(x) - \ln p(\bar x)",
    )
    yield b.Code((contribution_network, nearness))
    yield b.Numbers(lambda: _numbers(view, found))


def _shares(view: View, found: Network) -> np.ndarray:
    """The share of every node below all sublayers in the word."""
    return found.reached(found.node("tgt", position_of(view)))[0]


def _reading(view: View, found: Network) -> str:
    """The reading: the two words that contributed most, and the share of each stream."""
    shares = _shares(view, found)
    first, second = (int(at) for at in np.argsort(-shares, kind="stable")[:2])
    words = view.t(
        "patching.flow_read",
        word=quoted(view, word_of(view)),
        first=quoted_at(view, *_own(view, first)),
        first_share=percent(float(shares[first])),
        second=quoted_at(view, *_own(view, second)),
        second_share=percent(float(shares[second])),
    )
    if not found.n_src:
        return words
    source = float(shares[: found.n_src].sum())
    return f"{words} " + view.t(
        "patching.flow_streams", source=said(source), target=said(1 - source)
    )


def _own(view: View, node: int) -> tuple[tuple[str, ...], int]:
    """The token sequence of a node, and its position."""
    n_src = len(view.trace.src_tokens)
    if node < n_src:
        return view.trace.src_str_tokens, node
    return view.trace.tgt_str_tokens, node - n_src


def _graph(view: View, found: Network) -> b.Chart:
    """Every edge with at least the chosen share in the word."""
    places, node = Places(found), found.node("tgt", position_of(view))
    tokens = (*view.trace.src_str_tokens, *view.trace.tgt_str_tokens)
    shown = np.flatnonzero(found.reached(node).max(0) > 0).tolist()
    lines = _lines(view, found, places, tokens)
    columns = [
        WordColumn(tokens[each], places.stream(each), places.column(each), places.level(each, 0))
        for each in shown
    ]
    draw = partial(
        flow_graph,
        columns,
        _dots(found, places, tokens, lines, node),
        lines,
        written=(places.column(node), places.top, word_of(view)),
        levels=_levels(view, found, places),
        words=view.words("figures.flow_graph"),
    )
    return b.Chart("patching.graph", draw, view.t("patching.graph"))


def _lines(view: View, found: Network, places: Places, tokens: tuple[str, ...]) -> list[FlowEdge]:
    node = found.node("tgt", position_of(view))
    least = max(0.001, view.choices(PatchingChoices).edge_share / 100)
    lines = []
    for edge in found.edges(node, least):
        lower = places.column(edge.lower), places.level(edge.lower, edge.sublayer)
        upper = places.column(edge.upper), places.level(edge.upper, edge.sublayer + 1)
        where = _level(view, found.sites[edge.sublayer])
        pair = f"{shown_token(tokens[edge.lower])} → {shown_token(tokens[edge.upper])}"
        what = f"{pair} · {where} · {percent(edge.share)}"
        crosses = places.stream(edge.lower) != places.stream(edge.upper)
        lines.append(FlowEdge(lower, upper, edge.share, what, crosses))
    return lines


def _dots(
    found: Network, places: Places, tokens: tuple[str, ...], lines: list[FlowEdge], node: int
) -> list[Dot]:
    """The vectors at the ends of lines, each with its share at the lowest of equal levels."""
    met = {end for line in lines for end in (line.lower, line.upper)}
    dots: dict[tuple[float, float], Dot] = {}
    for below, shares in enumerate(found.reached(node)):
        for each, share in enumerate(shares.tolist()):
            at = places.column(each), places.level(each, below)
            if at in met and at not in dots and share > 0:
                dots[at] = Dot(*at, min(1.0, share), tokens[each], places.stream(each))
    return list(dots.values())


def _levels(view: View, found: Network, places: Places) -> list[tuple[float, str]]:
    """The rows of the graph and their names."""
    levels = [(0.0, view.t("patching.levels.words"))] if not places.n_src else []
    for sublayer, site in enumerate(found.sites):
        node = 0 if site.query_stream == "src" else found.n_src
        levels.append((places.level(node, sublayer + 1), _level(view, site)))
    return levels


def _level(view: View, site: AttentionSite) -> str:
    """The short name of a sublayer."""
    return f"{view.t(f'patching.levels.{site.role}')} {site.layer + 1}"


def _numbers(view: View, found: Network) -> dict[str, list[object]]:
    shares = _shares(view, found)
    rows = [_own(view, node) for node in range(len(shares))]
    return {
        view.t("patching.token"): [row[at] for row, at in rows],
        view.t("patching.rankings.contribution"): [fixed(float(each), 4) for each in shares],
    }


EXHIBIT = Exhibit(network, show, working="patching.flow_working")
