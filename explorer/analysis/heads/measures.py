"""What each head does, measured over one sentence, and which head does it most over several; the
heaviest keys and the entropy of a row of attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from explorer.analysis.roles import AttentionRows
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace
from models.hooks import Role

HeadMeasure = Literal[
    "entropy", "information", "distance", "previous", "diagonal", "first", "end_mark", "alignment"
]
HEAD_MEASURES: tuple[HeadMeasure, ...] = get_args(HeadMeasure)
LANDMARKS: tuple[HeadMeasure, ...] = ("previous", "diagonal", "first", "end_mark", "alignment")
"""The measures that are shares of attention, or of the possible information."""


CELLS = 1 << 20
"""Pattern cells that are measured at a time."""


def head_measures(
    trace: Trace, site: str, even: bool = False
) -> dict[HeadMeasure, Float[np.ndarray, " head"]]:
    """Means over the queries of each head that are real tokens and may attend to something.

    `entropy` and `information` (`AttentionRows.information`) are in bits, `distance` in positions,
    the others are shares of the attention (0 to 1). `alignment` is `information` relative to its
    maximum for this number of rows and keys: 1 if each element of the smaller side has one of the
    other side to itself. NaN if a head has no such measure: `previous`, `diagonal` and `distance`
    in cross-attention, `alignment` outside it, `end_mark` without an end token among the keys, and
    `previous` and `alignment` with only one row. `even`: of uniform attention under the same mask.
    Raises KeyError for an unknown site.
    """
    of_site = trace.site(site)
    valid = torch.tensor(trace.src_valid if of_site.query_stream == "src" else trace.tgt_valid)
    tokens = trace.src_tokens if of_site.key_stream == "src" else trace.tgt_tokens
    end = trace.marks.of(of_site.key_stream).end
    is_end = torch.tensor([token == end for token in tokens])
    pattern, mask = torch.tensor(trace.pattern(site)), torch.tensor(trace.mask(site))
    at_once = max(1, CELLS // pattern[0].numel())
    measures = []
    for weights, allowed in zip(
        torch.split(pattern, at_once), torch.split(mask, at_once), strict=True
    ):
        weights = weights[None].double()
        counts = (weights.sum(-1) > 0) & valid  # an edit may leave nothing to see
        rows = AttentionRows.of(weights, allowed[None], counts)
        measures.append(measures_of(rows.even() if even else rows, is_end, of_site.kind == "self"))
    of_heads = dict.fromkeys(HEAD_MEASURES, np.full(len(pattern), np.nan))
    for name in measures[0]:
        of_heads[name] = np.concatenate([some[name] for some in measures])
    return of_heads


def measures_of(
    rows: AttentionRows, is_end: Bool[Tensor, " key"], is_self: bool
) -> dict[HeadMeasure, Float[np.ndarray, " head"]]:
    """The measures of some heads."""
    n = rows.n_rows.clamp_min(1)
    bits, bound = rows.information()
    means: dict[HeadMeasure, Tensor] = {
        "entropy": rows.entropies.sum(-1) / n,
        "information": bits.clamp_min(0),
        "first": rows.of_keys[..., 0] / n,
    }
    if is_end.any():
        means["end_mark"] = rows.of_keys[..., is_end].sum(-1) / n
    if is_self:
        later = rows.counts[..., 1:].sum(-1)  # the first query has no previous token
        means["previous"] = rows.pattern.diagonal(-1, 2, 3).sum(-1) / later
        means["diagonal"] = rows.pattern.diagonal(0, 2, 3).sum(-1) / n
        places = torch.arange(len(is_end))
        far = (places - places[:, None]).abs()
        means["distance"] = (rows.pattern * far).sum((2, 3)) / n
    else:
        of_bound = means["information"] / torch.where(bound > 0, bound, 1.0)
        means["alignment"] = torch.where(rows.n_rows > 1, of_bound, torch.nan)
    return {name: mean[0].numpy() for name, mean in means.items()}


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
    maps = {}
    for name in HEAD_MEASURES:
        values = np.stack([layer[name] for layer in layers])
        if np.isfinite(values).any():
            maps[name] = values
    return maps


@dataclass(frozen=True)
class KeyWeight:
    """One key of a row: its position, its token and its weight (0 to 1)."""

    key: int
    token: str
    weight: float


def top_keys(
    row: Float[np.ndarray, " key"], tokens: Sequence[str], n: int = 3
) -> tuple[KeyWeight, ...]:
    """The `n` heaviest keys of any row, heaviest first, without weights of 0."""
    order = np.argsort(-row, kind="stable")[:n]
    return tuple(KeyWeight(int(k), tokens[int(k)], float(row[k])) for k in order if row[k] > 0)


def entropy(pattern: Float[np.ndarray, "... key"]) -> Float[np.ndarray, "..."]:
    """Shannon entropy of each row in bits, with 0 log 0 = 0; 0 for a row of zeros."""
    weights = np.asarray(pattern, dtype=np.float64)
    logs = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
    return np.asarray(np.abs((weights * logs).sum(-1)))  # abs: no -0.0
