"""`table`: any result as a pandas table, one row per number or finding."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from explorer.analysis.heads.ablation import Ablation
from explorer.analysis.heads.attribution import Attribution
from explorer.notebook.captured import Captured
from explorer.notebook.certify import Certified
from explorer.notebook.picture import Picture, Table
from explorer.notebook.show import attention
from explorer.runs.trace import Trace
from models.hooks import AttentionSite

if TYPE_CHECKING:
    import pandas as pd


def table(what: Any, of: Literal["patterns", "logits"] = "patterns") -> "pd.DataFrame":
    """Any result as a pandas table. Layers, heads and positions count from 1.

    - a Trace, a capture, or a picture: one row per cell, with tokens, weight, and whether it may be
      attended to; for a Trace, `of="logits"` gives one row per position and vocabulary entry;
    - the result of `ablate`: one row per head and token, `delta` = log p(head off) - log p in nats;
    - the result of `attribute`: one row per cell, with weight, contribution and gradient;
    - the result of `certify`: one row per tested property.

    Raises TypeError for anything else, ImportError without pandas.
    """
    import pandas as pd  # optional dependency

    if isinstance(what, Trace) and of == "logits":
        return pd.DataFrame(_logits(what))
    if isinstance(what, Trace | Captured):
        what = attention(what)
    if isinstance(what, Picture):
        return what.dataframe()
    if isinstance(what, Ablation):
        return pd.DataFrame(_ablation(what))
    if isinstance(what, Attribution):
        return pd.DataFrame(_attribution(what))
    if isinstance(what, Certified):
        return what.dataframe()
    raise TypeError(f"there is no table of {type(what).__name__}")


def _logits(traced: Trace) -> Table:
    n_pos, n_vocab = traced.logits.shape
    tokens = np.array(traced.tgt_str_tokens, dtype=object)
    return {
        "position": np.repeat(np.arange(1, n_pos + 1), n_vocab),
        "token": np.repeat(tokens, n_vocab),
        "id": np.tile(np.arange(n_vocab), n_pos),
        "logit": traced.logits.ravel(),
    }


def _ablation(found: Ablation) -> Table:
    deltas = {site: found.token_deltas[site.name] for site in found.sites}
    return _joined(deltas, ("head", "token")) | {
        "token_id": np.concatenate([np.tile(found.tokens, len(each)) for each in deltas.values()]),
        "delta": np.concatenate([each.ravel() for each in deltas.values()]),
    }


def _attribution(found: Attribution) -> Table:
    weights = {site: found.weight[site.name] for site in found.sites}
    more = {
        name: np.concatenate([getattr(found, name)[site.name].ravel() for site in found.sites])
        for name in ("weight", "contribution", "gradient")
    }
    return _joined(weights, ("head", "query", "key")) | more


def _joined(arrays: dict[AttentionSite, np.ndarray], axes: tuple[str, ...]) -> dict[str, Any]:
    """The site and index columns for every number of every site."""
    columns: dict[str, list[Any]] = {}
    for site, array in arrays.items():
        places = np.indices(array.shape).reshape(array.ndim, -1) + 1
        site_columns = {"site": site.name, "role": site.role, "layer": site.layer + 1}
        for name, value in site_columns.items():
            columns.setdefault(name, []).append(np.full(array.size, value, dtype=object))
        for name, place in zip(axes, places, strict=True):
            columns.setdefault(name, []).append(place)
    return {name: np.concatenate(parts) for name, parts in columns.items()}
