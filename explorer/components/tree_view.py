"""The search tree of decoding, from left to right: prefixes that were extended or dropped."""

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.components.payload import Words, pack
from explorer.figures.theme import is_special, show


@dataclass(frozen=True)
class TreeNode:
    """One prefix.

    `parent` is the index of an earlier node, None for a first token. `fell` is (step from 1, score)
    if the beam dropped it; `lines` lists which of "beam", "greedy" and "sample" pass through it.
    """

    token: str
    text: str
    parent: int | None
    prob: float
    logprob: float
    score: float
    finished: bool
    fell: tuple[int, float] | None
    lines: tuple[str, ...]


def pack_tree_view(nodes: Sequence[TreeNode], *, words: Words) -> bytes:
    """Pack every node, after its parent, with its column and row."""
    columns, rows, children = _places(nodes)
    head = {
        "nodes": [
            {
                "token": show(node.token),
                "special": is_special(node.token),
                "text": show(node.text),
                "parent": node.parent,
                "children": children[at],
                "column": columns[at],
                "row": rows[at],
                "prob": round(node.prob, 6),
                "logprob": round(node.logprob, 3),
                "score": round(node.score, 3),
                "finished": node.finished,
                "fell": None if node.fell is None else [node.fell[0], round(node.fell[1], 3)],
                "lines": list(node.lines),
            }
            for at, node in enumerate(nodes)
        ],
        "words": dict(words),
    }
    return pack(head)


def _places(nodes: Sequence[TreeNode]) -> tuple[list[int], list[int], list[list[int]]]:
    """Column and row of each node, and its children, first the one that continues in the same row.

    A chain takes one row. A branch takes the next row below that is free over its whole length,
    deepest branches first, to keep line crossings few.
    """
    children: list[list[int]] = [[] for _ in nodes]
    columns: list[int] = []
    first: list[int] = []
    for at, node in enumerate(nodes):
        columns.append(0 if node.parent is None else columns[node.parent] + 1)
        (first if node.parent is None else children[node.parent]).append(at)

    def importance(at: int) -> tuple[bool, bool, bool, float]:
        node = nodes[at]
        return ("beam" not in node.lines, node.fell is not None, not node.lines, -node.score)

    for group in (first, *children):
        group.sort(key=importance)
    rows = [0] * len(nodes)
    taken: list[list[tuple[int, int]]] = []  # per row: first and last column of its chains

    def chain_from(at: int) -> list[int]:
        chain = [at]
        while children[chain[-1]]:
            chain.append(children[chain[-1]][0])
        return chain

    waiting = [(at, -1) for at in reversed(first)]
    while waiting:
        start, above = waiting.pop()
        chain = chain_from(start)
        begin, end = columns[chain[0]], columns[chain[-1]]
        row = above + 1
        while row < len(taken) and any(begin <= b and a <= end for a, b in taken[row]):
            row += 1
        while row >= len(taken):
            taken.append([])
        taken[row].append((begin, end))
        for at in chain:
            rows[at] = row
        # A stack: the branch of the deepest node is pushed last and placed first.
        for at in chain:
            waiting.extend((other, row) for other in reversed(children[at][1:]))
    return columns, rows, children
