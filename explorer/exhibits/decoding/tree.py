"""Greedy decoding, beam search and sampling as one tree of all prefixes that they tried.

A node is a prefix of the output; its circle is the model's own probability of its last token
given the previous ones. A beam's hypothesis is dropped when none of its extensions is among the
best: the node records the step and the score at which that happened.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any, Literal

from explorer.components.mount import inside
from explorer.components.tree_view import TreeNode, pack_tree_view
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.decoding.one_pass import is_open
from explorer.exhibits.decoding.strategy import beam_of, sample_of
from explorer.library import LoadedModel
from explorer.numbers import fixed
from explorer.runs.edits import Edit
from explorer.runs.generation import Generation, unrecorded
from explorer.runs.inputs import checked_number
from explorer.runs.passes import Steps
from models.decoding import DecodeStep
from models.strategies import Beam, Greedy, Hypothesis, Rules, Sample

Fate = Literal["live", "finished", "fallen"]
Line = Literal["beam", "greedy", "sample"]
SHOWN_FALLEN = 2
"""The number of best dropped extensions that are shown per step."""

MOST_WIDTH = 8


@dataclass(frozen=True)
class Node:
    """One prefix of the output: the last of its `tokens` is this node's own, displayed as `text`.

    `parent` is an index into the tree's nodes, None for a first token. `prob` is the model's own
    probability of the last token; `logprob` that of all tokens, in nats; `score` is the score that
    the beam compares. `fate`: "finished" with the end token; "live" if cut off by the limit, or if
    a finished output continues through it; "fallen" at step `fell_at` (from 0) with `fell_score`,
    the best score of any extension. `lines` are the strategies whose answer passes through it.
    """

    tokens: tuple[int, ...]
    prob: float
    logprob: float
    score: float
    fate: Fate
    fell_at: int | None = None
    fell_score: float | None = None
    shown: str = ""
    text: str = ""
    parent: int | None = None
    lines: tuple[Line, ...] = ()


@dataclass(frozen=True, eq=False)
class Tree:
    """All nodes, parents before children; `ends[line]` is the node where a strategy's answer ends,
    whose score is by the length penalty of the `beam`."""

    nodes: tuple[Node, ...]
    ends: dict[Line, int]
    beam: Beam

    @property
    def answers(self) -> dict[Line, tuple[str, float, float]]:
        """(text, log-probability, score by the beam's length penalty) of each strategy."""
        ends = {line: self.nodes[end] for line, end in self.ends.items()}
        score = self.beam.score
        return {
            line: (end.text, end.logprob, score(end.logprob, len(end.tokens)))
            for line, end in ends.items()
        }


def grow(
    loaded: LoadedModel,
    text: str,
    beam: Beam,
    lines: dict[Line, Generation],
    max_new_tokens: int = 64,
    edits: Sequence[Edit] = (),
    rules: Rules | None = None,
) -> Steps[Tree]:
    """The tree of a beam search, with the answers of other strategies added.

    Raises InputProblem as `generate`, and `bad_number` for a beam that is too wide to draw.
    """
    checked_number("width", beam.width, 1, MOST_WIDTH)
    known: dict[tuple[int, ...], Node] = {}
    steps = yield from unrecorded(loaded, text, beam, max_new_tokens, edits, rules)
    before: tuple[Hypothesis, ...] = (Hypothesis((), 0.0, 0.0, rows=(), finished=False),)
    for step in steps:
        _take(step, before, known, beam)
        before = step.live[0]
    best = steps[-1].best[0].tokens
    paths: dict[Line, tuple[int, ...]] = {"beam": best}
    for line, generation in lines.items():
        _lay(generation, known, beam)
        paths[line] = generation.tokens
    return _built(loaded, known, paths, beam)


def _take(
    step: DecodeStep, parents: Sequence[Hypothesis], known: dict[tuple[int, ...], Node], beam: Beam
) -> None:
    """Add the results of one beam step; a parent without a surviving extension is dropped."""
    new = [h for h in step.ended[0] if len(h.tokens) == step.index + 1]
    kept: list[tuple[Hypothesis, Fate]] = [(h, "live") for h in step.live[0]]
    kept += [(h, "finished" if h.finished else "live") for h in new]
    survived = {h.tokens[:-1] for h, _ in kept}
    fallen = _fallen(step, parents, len(kept), beam)
    for h, fate in (*kept, *((h, "fallen") for h in fallen)):
        before = known.get(h.tokens[:-1])
        gain = h.logprob - (before.logprob if before else 0.0)
        fell = (step.index, h.score) if fate == "fallen" else (None, None)
        known[h.tokens] = Node(h.tokens, min(1.0, exp(gain)), h.logprob, h.score, fate, *fell)
    for row, parent in enumerate(parents):
        node = known.get(parent.tokens)
        if node is not None and node.fate == "live" and parent.tokens not in survived:
            # The best extension of a hypothesis that was dropped in this step.
            best = beam.score(parent.total + float(step.ruled[row].max()), step.index + 1)
            known[parent.tokens] = replace(node, fate="fallen", fell_at=step.index, fell_score=best)


def _fallen(
    step: DecodeStep, parents: Sequence[Hypothesis], n_survived: int, beam: Beam
) -> list[Hypothesis]:
    """The best extensions that did not survive a step, at most SHOWN_FALLEN."""
    totals = [h.total for h in parents]
    ranked = beam.choose(step.ruled, step.probs, totals, n_survived + SHOWN_FALLEN, 0.0)
    survived = {h.tokens for h in (*step.live[0], *step.ended[0])}
    fallen = []
    for row, token in ranked:
        tokens = (*parents[row].tokens, token)
        if tokens in survived:
            continue
        logprob = parents[row].logprob + float(step.log_probs[row, token])
        total = totals[row] + float(step.ruled[row, token])
        rows, score = (*parents[row].rows, row), beam.score(total, len(tokens))
        fallen.append(Hypothesis(tokens, logprob, score, rows, False, total))
    return fallen[:SHOWN_FALLEN]


def _lay(generation: Generation, known: dict[tuple[int, ...], Node], beam: Beam) -> None:
    """Add the answer of another strategy, creating the nodes that the beam did not visit."""
    total = 0.0
    for step, token in zip(generation.steps, generation.tokens, strict=True):
        tokens = generation.tokens[: step.index + 1]
        own = next(candidate.logprob for candidate in step.candidates if candidate.token == token)
        total += own
        ends = generation.finished and step.index == len(generation.tokens) - 1
        if tokens not in known:
            fate: Fate = "finished" if ends else "live"
            score = beam.score(total, len(tokens))
            known[tokens] = Node(tokens, step.chosen_prob, total, score, fate)


def _built(
    loaded: LoadedModel,
    known: dict[tuple[int, ...], Node],
    paths: dict[Line, tuple[int, ...]],
    beam: Beam,
) -> Tree:
    """Nodes in order, with their parents, displayed tokens and strategies."""
    order = {tokens: at for at, tokens in enumerate(sorted(known, key=len))}
    through = {
        line: {tokens[:n] for n in range(1, len(tokens) + 1)} for line, tokens in paths.items()
    }
    nodes = tuple(
        replace(
            known[tokens],
            shown=loaded.str_tokens(tokens[-2:])[-1],
            text=loaded.tokenizer.decode(tokens),
            parent=order.get(tokens[:-1]),
            lines=tuple(line for line, own in through.items() if tokens in own),
        )
        for tokens in order
    )
    return Tree(nodes, {line: order[tokens] for line, tokens in paths.items()}, beam)


def compute(
    loaded: LoadedModel,
    text: str,
    beam: Beam,
    sample: Sample,
    edits: tuple[Edit, ...],
    limit: int,
    ruled: bool,
) -> Steps[Tree]:
    """Greedy, beam search and sampling in one tree. Raises InputProblem."""
    strategies: dict[Line, Greedy | Sample] = {"greedy": Greedy(), "sample": sample}
    others: dict[Line, Generation] = {}
    for line, strategy in strategies.items():
        key = (loaded.name, text, strategy, edits, limit, (), ruled)
        others[line] = yield from cache.generate.steps(*key)
    rules = loaded.asked.rules if ruled else None
    return (yield from grow(loaded, text, beam, others, limit, edits, rules))


def show(tree: Tree | None, view: View) -> b.Blocks:
    """The tree, and the answer of each strategy."""
    if tree is None:
        return

    def taken(given: Any) -> b.Change | None:
        at = inside(given, len(tree.nodes))
        return None if at is None else b.choose(fork=tree.nodes[at].tokens, step=None)

    yield b.Canvas("branches.tree", "tree_view", lambda file: _packed(view, tree), {"taken": taken})
    names = ("branches.strategy", "branches.answer", "logprob", "branches.score")
    rows = [
        (view.t("decoding.strategies", line), escape(text), fixed(logprob), fixed(score, 3))
        for line, (text, logprob, score) in tree.answers.items()
    ]
    yield b.Table([view.t("decoding", name) for name in names], rows, "llrr")
    yield b.Formula.of(
        view.t("decoding.branches.formula"),
        r"\text{score}(y) = \frac{\log p(y\mid x)}{|y|^{\alpha}}, \qquad "
        r"p_T(v) = \mathrm{softmax}(\ell / T)_v",
        r"V_k = \{v : \mathrm{rank}(v) \le k\}, \qquad "
        r"V_p = \min\Big\{S : \sum_{v \in S} p(v) \ge p\Big\}",
    )
    yield b.Code((grow, beam_of(view), sample_of(view)))
    yield b.Numbers(
        lambda: {
            view.t("decoding.token"): [node.shown for node in tree.nodes],
            view.t("decoding.own"): [f"{node.prob:.4f}" for node in tree.nodes],
            view.t("decoding.logprob"): [f"{node.logprob:.3f}" for node in tree.nodes],
            view.t("decoding.branches.score"): [f"{node.score:.3f}" for node in tree.nodes],
        }
    )


def _packed(view: View, tree: Tree) -> bytes:
    nodes = [
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
            lines=node.lines,
        )
        for node in tree.nodes
    ]
    return pack_tree_view(nodes, words=view.words("components.tree_view"))


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"beam": beam_of, "sample": sample_of},
    open=is_open,
    wait=Wait("decoding.working", after="decoding.film"),
)
