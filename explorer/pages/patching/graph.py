"""The flow graph of a generated word: the vectors that led to it from the words read."""

from explorer.analysis.patching.network import Network
from explorer.exhibits.view import View
from explorer.figures.patching.flow_graph import Column, Dot, Line, flow_graph
from explorer.figures.theme import show
from explorer.numbers import percent
from explorer.pages.patching import cached
from explorer.ui import controls
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


def draw_graph(view: View, network: Network, position: int, least: float) -> None:
    """Draw every edge with a share of at least `least` in the word generated at a position."""
    places, node = Places(network), network.node("tgt", position)
    trace = view.trace
    tokens = (*trace.src_str_tokens, *trace.tgt_str_tokens)
    reached = network.reached(node)
    shown = [at for at in range(len(tokens)) if reached[:, at].max() > 0]
    lines = []
    for edge in network.edges(node, least):
        lower = places.column(edge.lower), places.level(edge.lower, edge.sublayer)
        upper = places.column(edge.upper), places.level(edge.upper, edge.sublayer + 1)
        where = _level(view, network.sites[edge.sublayer])
        pair = f"{show(tokens[edge.lower])} → {show(tokens[edge.upper])}"
        what = f"{pair} · {where} · {percent(edge.share)}"
        crosses = places.stream(edge.lower) != places.stream(edge.upper)
        lines.append(Line(lower, upper, edge.share, what, crosses))
    met = {end for line in lines for end in (line.lower, line.upper)}
    dots = {}
    for below in range(len(network.sites) + 1):
        for each in shown:
            at = places.column(each), places.level(each, below)
            share = float(reached[below, each])
            if at in met and at not in dots and share > 0:
                dots[at] = Dot(*at, min(1.0, share), tokens[each], places.stream(each))
    columns = [
        Column(tokens[each], places.stream(each), places.column(each), places.level(each, 0))
        for each in shown
    ]
    levels = [(0.0, view.t("patching.levels.words"))] if not places.n_src else []
    for sublayer, site in enumerate(network.sites):
        stream = site.query_stream
        level = places.level(0 if stream == "src" else network.n_src, sublayer + 1)
        levels.append((level, _level(view, site)))
    figure = flow_graph(
        columns,
        list(dots.values()),
        lines,
        written=(places.column(node), places.top, _written(view, position)),
        levels=levels,
        dark=view.dark,
        words=view.words("figures.flow_graph"),
    )
    controls.chart(figure, "patching.graph", alt=view.t("patching.graph"))


def _level(view: View, site: AttentionSite) -> str:
    """The short name of a sublayer."""
    return f"{view.t(f'patching.levels.{site.role}')} {site.layer + 1}"


def _written(view: View, position: int) -> str:
    if view.trace.predicts is None:
        return view.trace.tgt_str_tokens[position]
    return cached.explained_of(view.run, position).str_token
