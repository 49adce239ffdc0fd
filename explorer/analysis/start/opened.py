"""One head in detail: its queries and keys, and the resulting scores, mask and pattern."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from explorer.analysis.start.flow import rows_of_flow
from explorer.library import LoadedModel
from explorer.runs.activations import survey
from explorer.runs.edits import Edit
from explorer.runs.generation import Generation
from explorer.runs.inputs import str_tokens
from explorer.runs.trace import Trace

MOST_SIDE = 24
"""The maximum number of rows and columns in the figure: the first ones of a longer text."""


@dataclass(frozen=True, eq=False)
class OpenHead:
    """A head's values over the displayed tokens.

    `scores` are scaled and include the positional bias, before the mask; `pattern` is
    taken from the whole row, so the displayed part of it may sum to less than 1. `n_query` and
    `n_key` are the sizes of the whole matrix.
    """

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    q: Float[np.ndarray, "query d_head"]
    k: Float[np.ndarray, "key d_head"]
    v: Float[np.ndarray, "key d_head"]
    z: Float[np.ndarray, "query d_head"]
    scores: Float[np.ndarray, "query key"]
    allowed: Bool[np.ndarray, "query key"]
    pattern: Float[np.ndarray, "query key"]
    n_query: int
    n_key: int


def open_head(
    loaded: LoadedModel,
    traced: Trace,
    made: Generation | None,
    edits: Sequence[Edit],
    site: str,
    head: int,
) -> OpenHead:
    """One head of the run that `flow` shows. Raises KeyError for an unknown site."""
    found = traced.site(site)
    rows = rows_of_flow(loaded, traced, made)
    seen, _ = survey(loaded, rows, edits)
    queries = str_tokens(loaded, rows, found.query_stream)
    keys = str_tokens(loaded, rows, found.key_stream)
    some_q, some_k = (np.arange(min(MOST_SIDE, len(each))) for each in (queries, keys))
    kv = head // (found.n_heads // seen[found.hook("k")].shape[0])
    cells = np.ix_(some_q, some_k)
    return OpenHead(
        queries=tuple(queries[at] for at in some_q),
        keys=tuple(keys[at] for at in some_k),
        q=seen[found.hook("q")][head][some_q],
        k=seen[found.hook("k")][kv][some_k],
        v=seen[found.hook("v")][kv][some_k],
        z=seen[found.hook("z")][head][some_q],
        scores=seen[found.hook("scores")][head][cells],
        allowed=np.broadcast_to(seen[found.hook("mask")], seen[found.hook("pattern")].shape)[head][
            cells
        ],
        pattern=seen[found.hook("pattern")][head][cells],
        n_query=len(queries),
        n_key=len(keys),
    )
