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
    generation: Generation | None,
    edits: Sequence[Edit],
    site: str,
    head: int,
) -> OpenHead:
    """One head of the run that `flow` shows. Raises KeyError for an unknown site."""
    of_site = traced.site(site)
    rows = rows_of_flow(loaded, traced, generation)
    seen, _ = survey(loaded, rows, edits)
    queries = str_tokens(loaded, rows, of_site.query_stream)
    keys = str_tokens(loaded, rows, of_site.key_stream)
    some_q, some_k = (np.arange(min(MOST_SIDE, len(tokens))) for tokens in (queries, keys))
    kv = head // (of_site.n_heads // seen[of_site.hook("k")].shape[0])
    cells = np.ix_(some_q, some_k)
    return OpenHead(
        queries=tuple(queries[at] for at in some_q),
        keys=tuple(keys[at] for at in some_k),
        q=seen[of_site.hook("q")][head][some_q],
        k=seen[of_site.hook("k")][kv][some_k],
        v=seen[of_site.hook("v")][kv][some_k],
        z=seen[of_site.hook("z")][head][some_q],
        scores=seen[of_site.hook("scores")][head][cells],
        allowed=np.broadcast_to(seen[of_site.hook("mask")], seen[of_site.hook("pattern")].shape)[
            head
        ][cells],
        pattern=seen[of_site.hook("pattern")][head][cells],
        n_query=len(queries),
        n_key=len(keys),
    )
