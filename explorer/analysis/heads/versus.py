"""Two models on one sentence: how much their heads differ, and what each predicts next."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from explorer.analysis.heads.aligned import Pieces, align, gathered
from explorer.analysis.heads.measures import entropy
from explorer.labels import CONTINUED
from explorer.numerics import softmax
from explorer.runs.trace import Trace
from models.hooks import Role

N_TOP = 3
"""Tokens listed per prediction."""


@dataclass(frozen=True, eq=False)
class Versus:
    """The attention of one kind in two models, compared by the pieces of text that both read.

    `role` and `other_role` are the kinds compared. `queries` and `keys` are the pieces of the two
    axes. `by_number`: both models have the same number of layers and heads, and `difference`
    [layer, head] is the mean divergence of the rows of each pair of heads with the same number, 0
    to 1 bit; NaN if no row can be compared. None if the shapes differ.
    """

    role: Role
    other_role: Role
    queries: Pieces
    keys: Pieces
    shapes: tuple[tuple[int, int], tuple[int, int]]
    difference: Float[np.ndarray, "layer head"] | None

    @property
    def comparable(self) -> bool:
        """Whether the two have any piece in common on both axes."""
        return bool(self.queries.labels and self.keys.labels)

    @property
    def by_number(self) -> bool:
        """Whether heads with the same number are compared."""
        return self.difference is not None

    def ranked(self) -> tuple[tuple[int, int], ...]:
        """The compared heads, most different first."""
        if self.difference is None:
            return ()
        places = zip(*np.nonzero(np.isfinite(self.difference)), strict=True)
        heads = [(int(layer), int(head)) for layer, head in places]
        of = self.difference
        return tuple(sorted(heads, key=lambda place: (-of[place], place)))


def input_role(trace: Trace) -> Role:
    """The kind of attention with which a model reads the sentence itself."""
    stream = "src" if trace.src_tokens else "tgt"
    return trace.stack(stream).role


def counterpart(one: Trace, other: Trace, role: Role) -> Role | None:
    """The kind of attention of the other model that reads the same text; None if there is none."""
    if role == input_role(one):
        return input_role(other)
    if bool(one.src_tokens) == bool(other.src_tokens) and other.sites_of(role):
        return role
    return None


def versus(one: Trace, other: Trace, role: Role) -> Versus | None:
    """Compare one kind of attention of two runs; None if the other model has no counterpart.

    Raises ValueError for a kind that the first model does not have.
    """
    sites = one.sites_of(role)
    if not sites:
        raise ValueError(f"{one.model} has no attention of the kind {role!r}")
    theirs = counterpart(one, other, role)
    if theirs is None:
        return None
    name, other_name = sites[0].name, other.sites_of(theirs)[0].name
    queries = align(one.query_tokens(name), other.query_tokens(other_name))
    keys = align(one.key_tokens(name), other.key_tokens(other_name))
    shapes = _shape(one, role), _shape(other, theirs)
    difference = None
    if shapes[0] == shapes[1] and queries.labels and keys.labels:
        ours, others = patterns(one, role), patterns(other, theirs)
        difference = mean_divergence(
            gathered(ours, queries.one, keys.one), gathered(others, queries.other, keys.other)
        )
    return Versus(role, theirs, queries, keys, shapes, difference)


def _shape(trace: Trace, role: Role) -> tuple[int, int]:
    sites = trace.sites_of(role)
    return len(sites), sites[0].n_heads


def patterns(trace: Trace, role: Role) -> Float[np.ndarray, "layer head query key"]:
    """The weights of all heads of a kind; rows of PAD are set to zero, so they do not count."""
    sites = trace.sites_of(role)
    real = trace.src_valid if sites[0].query_stream == "src" else trace.tgt_valid
    stacked = np.stack([trace.pattern(site.name) for site in sites])
    return np.where(real[:, None], stacked, np.float32(0))


def divergence(
    one: Float[np.ndarray, "*rows key"], other: Float[np.ndarray, "*rows key"]
) -> Float[np.ndarray, "*rows"]:
    """Jensen-Shannon divergence of rows in bits: 0 for equal rows, 1 for rows without a common key.

    H((p + q) / 2) - (H(p) + H(q)) / 2 (Lin 1991, eq. 4.1 with equal weights). NaN if one of
    the two is a row of zeros, which attends to nothing.
    """
    totals = one.sum(-1, keepdims=True), other.sum(-1, keepdims=True)
    p, q = (
        np.divide(pattern, total, out=np.zeros_like(pattern, dtype=np.float64), where=total > 0)
        for pattern, total in zip((one, other), totals, strict=True)
    )
    divergences = np.maximum(0.0, entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2)
    seen = (totals[0] > 0) & (totals[1] > 0)
    return np.where(seen[..., 0], divergences, np.nan)


def mean_divergence(
    one: Float[np.ndarray, "*heads query key"], other: Float[np.ndarray, "*heads query key"]
) -> Float[np.ndarray, "*heads"]:
    """The mean over the rows that attend to something in both; NaN if there is none."""
    rows = divergence(one, other)
    counted = np.isfinite(rows)
    total = np.where(counted, rows, 0.0).sum(-1)
    n = counted.sum(-1)
    return np.divide(total, n, out=np.full(total.shape, np.nan), where=n > 0)


def closest(
    one: Trace, other: Trace, compared: Versus, layer: int, head: int
) -> tuple[tuple[int, int], float] | None:
    """The head of the other model with the most similar attention, and their divergence in bits.

    Searches all its heads of the kind compared; None if no row can be compared.
    """
    if not compared.comparable:
        return None
    queries, keys = compared.queries, compared.keys
    own = gathered(patterns(one, compared.role)[layer, head], queries.one, keys.one)
    theirs = gathered(patterns(other, compared.other_role), queries.other, keys.other)
    divergences = mean_divergence(np.broadcast_to(own, theirs.shape), theirs)
    if not np.isfinite(divergences).any():
        return None
    place = np.unravel_index(int(np.nanargmin(divergences)), divergences.shape)
    return (int(place[0]), int(place[1])), float(divergences[place])


@dataclass(frozen=True)
class Expectation:
    """The predictions of both models at one piece of the text that their logits belong to.

    `one` and `other` are the most probable tokens with their probabilities, most probable first;
    `positions` are the positions whose logits were read. `same` compares the first of both.
    """

    piece: str
    positions: tuple[int, int]
    one: tuple[tuple[str, float], ...]
    other: tuple[tuple[str, float], ...]

    @property
    def same(self) -> bool:
        """Whether both predict the same token first."""
        ours, theirs = (
            predictions[0][0].removeprefix(CONTINUED) for predictions in (self.one, self.other)
        )
        return ours == theirs


Shown = Callable[[Sequence[int]], Sequence[str]]
"""The labels of tokens, as a tokenizer gives them."""


Incomparable = Literal["no_predictions", "other_predictions", "other_task"]
"""Why predictions cannot be compared: one of the models has no LM head; one predicts the next token
and the other the token at the same position; one reads a source and the other does not."""


def incomparable(one: Trace, other: Trace) -> Incomparable | None:
    """Why the predictions of two models cannot be compared; None if they can."""
    if not (one.config.lm_head and other.config.lm_head):
        return "no_predictions"
    if one.config.fills != other.config.fills:
        return "other_predictions"
    return None if bool(one.src_tokens) == bool(other.src_tokens) else "other_task"


def expectations(
    one: Trace, other: Trace, shown: Shown, other_shown: Shown, n: int = N_TOP
) -> tuple[Expectation, ...]:
    """The predictions of two models, piece by piece of the text that both read.

    () if `incomparable` gives a reason, or if they share no piece. `shown` labels tokens as each
    model's tokenizer writes them.
    """
    if incomparable(one, other) is not None:
        return ()
    rows = [trace.tgt_str_tokens[: int(trace.tgt_valid.sum())] for trace in (one, other)]
    pieces = align(*rows)
    predictions = []
    for label, ours, theirs in zip(pieces.labels, pieces.one, pieces.other, strict=True):
        if one.config.fills and not len(ours) == len(theirs) == 1:
            continue  # a piece of several tokens is no single prediction
        at = ours[-1], theirs[-1]
        predictions.append(
            Expectation(label, at, _top(one, at[0], shown, n), _top(other, at[1], other_shown, n))
        )
    return tuple(predictions)


def _top(trace: Trace, at: int, shown: Shown, n: int) -> tuple[tuple[str, float], ...]:
    chances = softmax(trace.logits[at])
    # With context, so that a piece inside a word is labelled as one.
    before = [] if trace.config.fills else [trace.tgt_tokens[at]]
    return tuple(
        (shown([*before, int(token)])[-1], float(chances[token]))
        for token in np.argsort(-chances, kind="stable")[:n]
    )
