"""What each head does, measured over one sentence."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float

from explorer.analysis.heads.reading import distances, entropy
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace
from models.hooks import Role

HeadMeasure = Literal[
    "entropy", "information", "distance", "previous", "diagonal", "first", "end_mark", "alignment"
]
HEAD_MEASURES: tuple[HeadMeasure, ...] = get_args(HeadMeasure)


@dataclass(frozen=True)
class HeadMeasures:
    """Means over the queries of one head that are real tokens and may attend to something.

    `entropy` and `information` are in bits, `distance` in positions, the others are shares of the
    attention (0 to 1). `information` is the mutual information of query and key, H(mean row) - mean
    H(row): high if every row is sharp and different rows attend to different keys, so it
    distinguishes an alignment from a head that always attends to one key. `alignment` is
    `information` relative to its maximum for this number of rows and keys: 1 if each element of the
    smaller side has one of the other side to itself. `previous`, `diagonal` and `distance` are None
    in cross-attention, `alignment` outside it; `end_mark` is None if the keys have no end token,
    and `previous` and `alignment` if there is only one row.
    """

    site: str
    head: int
    entropy: float
    information: float
    first: float
    end_mark: float | None
    previous: float | None
    diagonal: float | None
    distance: float | None
    alignment: float | None


def head_measures(trace: Trace, site: str) -> tuple[HeadMeasures, ...]:
    """The measures of every head of a site. Raises KeyError for an unknown site."""
    of_site = trace.site(site)
    tokens = {"src": trace.src_tokens, "tgt": trace.tgt_tokens}
    valid = {"src": trace.src_valid, "tgt": trace.tgt_valid}
    is_end = np.array(tokens[of_site.key_stream]) == trace.marks.of(of_site.key_stream).end
    return tuple(
        _measures(site, head, pattern, valid[of_site.query_stream], is_end, of_site.kind == "self")
        for head, pattern in enumerate(trace.pattern(site).astype(np.float64))
    )


def _measures(
    site: str,
    head: int,
    pattern: Float[np.ndarray, "query key"],
    query_valid: Bool[np.ndarray, " query"],
    is_end: Bool[np.ndarray, " key"],
    is_self: bool,
) -> HeadMeasures:
    seeing = np.flatnonzero(query_valid & (pattern.sum(1) > 0))
    rows = pattern[seeing]
    if not len(rows):  # an edit may leave a head nothing at all to see
        rows, seeing = np.zeros((1, pattern.shape[1])), np.zeros(1, dtype=np.int64)
    mean_entropy = float(entropy(rows).mean())
    later = seeing > 0
    far = distances(*pattern.shape)[seeing]
    information = max(0.0, float(entropy(rows.mean(0))) - mean_entropy)
    return HeadMeasures(
        site=site,
        head=head,
        entropy=mean_entropy,
        information=information,
        first=float(rows[:, 0].mean()),
        end_mark=float(rows[:, is_end].sum(1).mean()) if is_end.any() else None,
        previous=(
            float(rows[later, seeing[later] - 1].mean()) if is_self and later.any() else None
        ),
        diagonal=float(rows[np.arange(len(rows)), seeing].mean()) if is_self else None,
        distance=float((rows * far).sum(1).mean()) if is_self else None,
        alignment=_alignment(information, rows) if not is_self else None,
    )


def _alignment(information: float, rows: Float[np.ndarray, "row key"]) -> float | None:
    """Information relative to its bound: log2 of the number of rows, or of keys if fewer."""
    n_keys = int((rows.sum(0) > 0).sum())
    if len(rows) < 2:
        return None
    return information / np.log2(min(len(rows), n_keys)) if n_keys > 1 else 0.0


def measure_names(trace: Trace, kind: Role) -> tuple[HeadMeasure, ...]:
    """The measures that heads of a kind have in this run, determined from its tokens alone.

    An edit may leave a head without a value: a head that sees nothing has no previous token.
    """
    site = trace.sites_of(kind)[0]
    is_self, query = site.kind == "self", site.query_stream
    n_rows = int((trace.src_valid if query == "src" else trace.tgt_valid).sum())
    keys = trace.src_tokens if site.key_stream == "src" else trace.tgt_tokens
    lacking: set[HeadMeasure] = {"alignment"} if is_self else {"distance", "previous", "diagonal"}
    if n_rows < 2:
        lacking |= {"previous", "alignment"}
    if trace.marks.of(site.key_stream).end not in keys:
        lacking.add("end_mark")
    return tuple(name for name in HEAD_MEASURES if name not in lacking)


def measure_maps(
    trace: Trace, kind: Role
) -> Steps[dict[HeadMeasure, Float[np.ndarray, "layer head"]]]:
    """Every measure that some head of a kind has, for all its heads; NaN if a head has none.

    Yields (layers done, all layers). Raises ValueError for a kind that the model does not have.
    """
    sites = trace.sites_of(kind)
    if not sites:
        raise ValueError(f"{trace.model} has no attention of the kind {kind!r}")
    layers = []
    for done, site in enumerate(sites, 1):
        layers.append(head_measures(trace, site.name))
        yield done, len(sites)
    maps: dict[HeadMeasure, Float[np.ndarray, "layer head"]] = {  # None becomes NaN
        name: np.array([[getattr(head, name) for head in row] for row in layers], dtype=np.float64)
        for name in HEAD_MEASURES
    }
    return {name: of for name, of in maps.items() if np.isfinite(of).any()}
