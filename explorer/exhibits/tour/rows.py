"""Rows of attention for a question, and other choices that depend on the run."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from explorer.exhibits import View
from explorer.exhibits.saying import quoted_at
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, Role
from models.rows import Stream

FIRST_CJK = "\u2e80"


class MissingError(Exception):
    """This run does not show a lesson; `why` is the key of the reason's words."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def require(condition: object, why: str) -> None:
    """Raise MissingError(why) unless the run meets the condition of a lesson."""
    if not condition:
        raise MissingError(why)


@dataclass(frozen=True, eq=False)
class QueryRow:
    """One query of one head: its weights, the keys that it may attend to, and its scores before
    the mask; numbers are float64."""

    site: AttentionSite
    head: int
    query: int
    weights: Float[np.ndarray, " key"] = field(repr=False)
    allowed: Bool[np.ndarray, " key"] = field(repr=False)
    scores: Float[np.ndarray, " key"] = field(repr=False)

    @property
    def place(self) -> dict[str, Any]:
        """The choices that select this row."""
        site = self.site
        return {"site": site.role, "layer": site.layer, "head": self.head, "row": self.query}

    @property
    def descending(self) -> list[int]:
        """The keys in descending order of weight."""
        return [int(key) for key in np.argsort(-self.weights, kind="stable")]


def row_of(trace: Trace, site: AttentionSite, head: int, query: int) -> QueryRow:
    """A row of a Trace."""
    weights = trace.pattern(site.name)[head, query].astype(np.float64)
    scores = trace.activations[site.hook("scores")][head, query].astype(np.float64)
    return QueryRow(site, head, query, weights, trace.mask(site.name)[head, query].copy(), scores)


def keys_of(view: View, row: QueryRow) -> list[str]:
    """The keys of a row as options: distinct tokens in quotation marks."""
    tokens = view.trace.key_tokens(row.site.name)
    return [quoted_at(view, tokens, key) for key in range(len(tokens))]


def best_row(
    view: View, why: str, worth: Callable[[QueryRow], Any], role: Role | None = None, least: int = 1
) -> QueryRow:
    """The first row of the largest `worth`, of all heads and real queries of a kind of attention,
    with at least `least` allowed keys; None: it is no example. Raises MissingError(why) if none is.
    """
    trace, examples = view.trace, list[tuple[Any, QueryRow]]()
    for site in trace.sites_of(role or main_role(view)):
        valid = trace.src_valid if site.query_stream == "src" else trace.tgt_valid
        for query, head in product(np.flatnonzero(valid), range(site.n_heads)):
            row = row_of(trace, site, head, int(query))
            value = worth(row) if row.allowed.sum() >= least else None
            examples += [] if value is None else [(value, row)]
    require(examples, why)
    return max(examples, key=lambda example: example[0])[1]


def main_role(view: View) -> Role:
    """Cross-attention if the model has it, otherwise the attention of its one text. Of a translator
    the attention of the sequence in the user's language."""
    roles: tuple[Role, ...] = ("cross", "decoder", "encoder")
    sites = [view.trace.sites_of(role)[0] for role in roles if view.trace.sites_of(role)]
    readable = [site for site in sites if is_read(view, site.query_stream, site.key_stream)]
    return (readable or sites)[0].role


def is_read(view: View, *streams: Stream) -> bool:
    """Whether each sequence is in the script, Chinese or another, of the user's language."""
    labels = (tokens_of(view.trace, stream)[0] for stream in streams)
    shares = (np.mean([max(token, default="") >= FIRST_CJK for token in of]) for of in labels)
    return all((share > 0.5) == (view.lang == "zh") for share in shares)


def tokens_of(trace: Trace, stream: Stream) -> tuple[tuple[str, ...], int]:
    """The tokens of a sequence, and the number of real ones."""
    valid = trace.src_valid if stream == "src" else trace.tgt_valid
    return trace.str_tokens(stream), int(valid.sum())


def varied(trace: Trace, low: float, high: float) -> float:
    """A number from `low` to `high`, determined by the text and the model.

    Questions aim at a value near it, so that their answers vary between texts.
    """
    return low + (high - low) * (zlib.crc32(f"{trace.model} {trace.text}".encode()) % 101) / 100
