"""`table`: any result as a pandas table, one row per number or finding."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from explorer.analysis.heads.ablation import Ablation
from explorer.analysis.heads.attribution import Attribution
from explorer.exports.report import finding_record
from explorer.notebook.captured import Captured
from explorer.notebook.certify import Certified
from explorer.notebook.picture import Picture, Table, joined, places
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
        records = (finding_record(replace(finding, where=None)) for finding in what.findings)
        places = ["" if finding.where is None else finding.where.name for finding in what.findings]
        return pd.DataFrame(records).assign(where=places)
    raise TypeError(f"there is no table of {type(what).__name__}")


def _logits(traced: Trace) -> Table:
    at = places(traced.logits.shape, "position", "id")
    tokens = np.array(traced.tgt_str_tokens, dtype=object)[at["position"] - 1]
    numbers = {"id": at["id"] - 1, "logit": traced.logits.ravel()}
    return {"position": at["position"], "token": tokens, **numbers}


def _ablation(ablation: Ablation) -> Table:
    tokens = np.array(ablation.tokens)
    for_sites = []
    for site in ablation.sites:
        deltas = ablation.token_deltas[site.name]
        at = places(deltas.shape, "head", "token")
        more = {"token_id": tokens[at["token"] - 1], "delta": deltas.ravel()}
        for_sites.append(_of_site(site) | at | more)
    return joined(for_sites)


def _attribution(attribution: Attribution) -> Table:
    names = ("weight", "contribution", "gradient")
    return joined(
        _of_site(site)
        | places(attribution.weight[site.name].shape, "head", "query", "key")
        | {name: getattr(attribution, name)[site.name].ravel() for name in names}
        for site in attribution.sites
    )


def _of_site(site: AttentionSite) -> dict[str, Any]:
    return {"site": site.name, "role": site.role, "layer": site.layer + 1}
