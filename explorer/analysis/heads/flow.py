"""Attention flow: the maximum flow from a token to a position through all layers.

The layers form a network of pipes. The capacity of the pipe from a position to one in the layer
above is the mean attention weight, with half of each row given to the residual connection. The flow
of a pair is the maximum flow. Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers",
§3. Rollout multiplies weights along each path; flow is limited only by the narrowest pipe.
"""

from collections import deque

import numpy as np
from jaxtyping import Float

from explorer.analysis.heads.rollout import layer_mixes
from explorer.problems import InputProblem
from explorer.runs.trace import Trace
from models.hooks import Role

MAX_FLOW_TOKENS = 32  # padding included: a row of n tokens is n * n networks of n * layers nodes
_LEAST = 1e-12  # less room than this in a pipe is rounding


def attention_flow(traced: Trace, kind: Role) -> Float[np.ndarray, "query key"]:
    """The maximum flow from every query in the last layer to every input token.

    From 0 to 1; a row need not add up to 1, since its pairs do not share the pipes. A pair that no
    open cells connect is exactly 0. With one layer it equals `rollout`.
    Raises ValueError as `layer_mixes`, and InputProblem `too_many_tokens` for a sequence longer
    than `MAX_FLOW_TOKENS`.
    """
    top_first = layer_mixes(traced, kind)[::-1]
    n_tokens = top_first.shape[1]
    if n_tokens > MAX_FLOW_TOKENS:
        raise InputProblem("too_many_tokens", limit=MAX_FLOW_TOKENS, length=n_tokens)
    positions = range(n_tokens)
    return np.array([[max_flow(top_first, query, key) for key in positions] for query in positions])


def max_flow(pipes: Float[np.ndarray, "layer upper lower"], source: int, sink: int) -> float:
    """The maximum flow from node `source` above the first layer to `sink` below the last.

    `pipes[layer, i, j]` is the capacity from node i to node j of the next layer. Computed with
    blocking flows along shortest paths (Dinic 1970).
    """
    n_layers, n_upper, _ = pipes.shape
    if n_layers == 1:
        return float(pipes[0, source, sink])
    # Node (layer, i) is layer * n_upper + i. A pipe and its reverse are edges 2e and 2e + 1.
    start, end = source, n_layers * n_upper + sink
    heads: list[int] = []
    room: list[float] = []
    edges: list[list[int]] = [[] for _ in range((n_layers + 1) * n_upper)]
    for layer, widths in enumerate(pipes):
        wide = widths > 0
        if layer == 0:
            wide = wide & (np.arange(n_upper) == source)[:, None]
        if layer == n_layers - 1:
            wide = wide & (np.arange(widths.shape[1]) == sink)
        for i, j in np.argwhere(wide).tolist():
            upper, lower = layer * n_upper + i, (layer + 1) * n_upper + j
            edges[upper].append(len(heads))
            edges[lower].append(len(heads) + 1)
            heads += [lower, upper]
            room += [float(widths[i, j]), 0.0]
    total = 0.0
    while (levels := _levels(heads, room, edges, end))[start] >= 0:
        untried = [list(of_node) for of_node in edges]
        while path := _path(heads, room, untried, levels, start, end):
            pushed = min(room[edge] for edge in path)
            for edge in path:
                room[edge] -= pushed
                room[edge ^ 1] += pushed
            total += pushed
    return total


def _levels(heads: list[int], room: list[float], edges: list[list[int]], end: int) -> list[int]:
    """The number of edges with capacity from each node to the end; -1 if there is no path."""
    levels = [-1] * len(edges)
    levels[end] = 0
    queue = deque([end])
    while queue:
        node = queue.popleft()
        for edge in edges[node]:
            before = heads[edge]  # edge ^ 1 leads from there to this node
            if levels[before] < 0 and room[edge ^ 1] > _LEAST:
                levels[before] = levels[node] + 1
                queue.append(before)
    return levels


def _path(
    heads: list[int],
    room: list[float],
    untried: list[list[int]],
    levels: list[int],
    start: int,
    end: int,
) -> list[int]:
    """A shortest path with capacity, as edges; [] if there is none. Consumes `untried`."""
    path: list[int] = []
    node = start
    while node != end:
        while untried[node]:
            edge = untried[node][-1]
            if room[edge] > _LEAST and levels[heads[edge]] == levels[node] - 1:
                break
            untried[node].pop()
        if untried[node]:
            path.append(edge)
            node = heads[edge]
        elif not path:
            return []
        else:  # a dead end: one step back, and never this way again
            node = heads[path.pop() ^ 1]
            untried[node].pop()
    return path
