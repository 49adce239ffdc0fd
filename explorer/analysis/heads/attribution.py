"""A weight is not a cause: four measures of what a head has to do with one output token.

weight        how much of its attention a query gives to a key
contribution  weight x the length of what the key's value becomes on its way out, ||v W_O||: a key
              with a tiny value adds nothing however large its weight. Kobayashi et al. 2020,
              "Attention is Not Only a Weight", eq. 4
gradient      weight x d log p(token) / d weight: to first order what the weight does for the token,
              through everything that comes after it, later attention included
off           the change of log p(token) when the head is silenced for every query: what it does

That the first says little about the last is the point of Jain & Wallace 2019, "Attention is not
Explanation"; as they do, `agreement` compares the orders in which measures put the heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.heads.ablation import Ablation, ablate
from explorer.library import LoadedModel
from explorer.runs.rerun import (
    edits_of,
    heads_off,
    require_same_model,
    rows_of,
    token_logprobs,
    written_tokens,
)
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, Edits, Role, visiting

Measure = Literal["weight", "contribution", "gradient", "off"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
Cells = Float[np.ndarray, "head query key"]


@dataclass(frozen=True, eq=False)
class Attribution:
    """The four measures for `token` as the one after position `position` of the decoder's row.

    `weight`, `contribution` and `gradient` are by site name [head, query, key]; a blocked cell is
    exactly 0 in all three. `written` is the length of all that a head writes at a query,
    ||sum over keys of weight x v W_O|| [head, query]. `gradient` (nats) is above 0 where the
    weight speaks for the token; `off` [head] (nats) is below 0 where the head was needed. A head
    that an edit of the Trace has switched off keeps its weight and has 0 in all the others.
    """

    sites: tuple[AttentionSite, ...]
    position: int
    token: int
    str_token: str
    logprob: float
    weight: dict[str, Cells] = field(repr=False)
    contribution: dict[str, Cells] = field(repr=False)
    gradient: dict[str, Cells] = field(repr=False)
    written: dict[str, Float[np.ndarray, "head query"]] = field(repr=False)
    off: dict[str, Float[np.ndarray, " head"]] = field(repr=False)
    valid: dict[str, np.ndarray] = field(repr=False)  # per stream, True = a real token

    def per_key(self, site: str, head: int) -> dict[Measure, Float[np.ndarray, " key"]]:
        """Weight, contribution and gradient of each key in one row of a head.

        The row is the one where the token is written. The encoder has no such row; there it is
        all real queries: the mean of weights and contributions, the sum of gradients.
        Raises KeyError for a site, IndexError for a head that is not there.
        """
        rows = self._queries(site)
        return {
            "weight": self.weight[site][head, rows].mean(0),
            "contribution": self.contribution[site][head, rows].mean(0),
            "gradient": self.gradient[site][head, rows].sum(0),
        }

    def over_heads(self, site: str) -> dict[Measure, Float[np.ndarray, " head"]]:
        """All four measures of each head of a site, for its row as a whole.

        They are the row's largest weight, the length of what the head writes, the sum of the
        row's gradients, and `off`, which is the head's for every query and key alike. The row and
        what is raised are as in `per_key`.
        """
        rows = self._queries(site)
        return {
            "weight": self.weight[site][:, rows].mean(1).max(-1),
            "contribution": self.written[site][:, rows].mean(1),
            "gradient": self.gradient[site][:, rows].sum((1, 2)),
            "off": self.off[site],
        }

    def agreement(self, kind: Role) -> Float[np.ndarray, "measure other_measure"]:
        """How alike the measures order all heads of a kind by size: Spearman's rho, -1 to 1.

        In the order of `MEASURES`; signs are left out, since a weight has none. NaN where a
        measure is the same for all heads. Raises ValueError for a kind that is not there.
        """
        sites = [site.name for site in self.sites if site.role == kind]
        if not sites:
            raise ValueError(f"there is no attention of the kind {kind!r}")
        of_sites = [self.over_heads(site) for site in sites]
        return rank_agreement(
            np.abs([np.concatenate([found[name] for found in of_sites]) for name in MEASURES])
        )

    def _queries(self, site: str) -> list[int]:
        of_site = next((found for found in self.sites if found.name == site), None)
        if of_site is None:
            raise KeyError(f"there is no attention site {site!r}")
        if of_site.query_stream == "tgt":
            return [self.position]
        return np.flatnonzero(self.valid[of_site.query_stream]).tolist()


def attribute(
    loaded: LoadedModel,
    traced: Trace,
    position: int,
    ablation: Ablation | None = None,
) -> Attribution:
    """All four measures for one output token, at every head of every site.

    The token is the one written after `position`, or where none was, the predicted one. An
    `ablation` of this Trace is used again where it scored this token; else heads are switched off
    here.
    Raises IndexError for a position that is padding or not there, ValueError for another model's
    Trace.
    """
    require_same_model(loaded, traced)
    n_real = int(traced.tgt_valid.sum())
    if not 0 <= position < n_real:
        raise IndexError(f"the row has {n_real} positions, no {position}")
    written = written_tokens(traced)
    token = written[position] if position < len(written) else traced.predicted_tokens[position]
    if ablation is None or ablation.tokens[position : position + 1] != (token,):
        ablation = ablate(loaded, traced, (*written[:position], token))
    before = traced.tgt_tokens[position]
    contribution, lengths = {}, {}
    for site in traced.sites:
        contribution[site.name], lengths[site.name] = _contribution(loaded, traced, site)
    return Attribution(
        sites=traced.sites,
        position=position,
        token=token,
        str_token=loaded.str_tokens((before, token))[-1],
        logprob=float(token_logprobs(traced.logits[position : position + 1], (token,))[0]),
        weight={site.name: traced.pattern(site.name) for site in traced.sites},
        contribution=contribution,
        gradient=_gradients(loaded, traced, position, token),
        written=lengths,
        off={site: deltas[:, position] for site, deltas in ablation.token_deltas.items()},
        valid={"src": traced.src_valid, "tgt": traced.tgt_valid},
    )


def _contribution(
    loaded: LoadedModel, traced: Trace, site: AttentionSite
) -> tuple[Cells, Float[np.ndarray, "head query"]]:
    """||weight x v W_O|| of each cell, and the length of each query's sum of them."""
    w_o = loaded.part(f"{site.name}.w_o").get_parameter("weight")  # [d_model, head * d_head]
    slices = w_o.detach().numpy().reshape(len(w_o), site.n_heads, -1)  # [d_model, head, d_head]
    v, z = (traced.activations[site.hook(what)] for what in ("v", "z"))
    v = np.repeat(v, site.n_heads // len(v), axis=0)  # heads that share values get a copy each
    values = np.linalg.norm(np.einsum("hkd,mhd->hkm", v, slices), axis=-1)  # [head, key]
    cells = traced.pattern(site.name) * values[:, None]
    cells[heads_off(traced, site.name)] = 0.0
    return cells, np.linalg.norm(np.einsum("hqd,mhd->hqm", z, slices), axis=-1)


def _gradients(loaded: LoadedModel, traced: Trace, position: int, token: int) -> dict[str, Cells]:
    """weight x d log p(token) / d weight, under the Trace's edits.

    No parameter asks for a gradient. What does is a zero added to every pattern: its gradient is
    the pattern's own, with the patterns of later layers free to follow.
    """
    nudges: dict[str, Tensor] = {}
    # A page may have asked under either mode; neither would leave a way back to the patterns.
    with torch.inference_mode(False), torch.enable_grad():
        nudged = {
            site.hook("pattern"): partial(_nudged, nudges=nudges, site=site.name)
            for site in traced.sites
        }
        with visiting(edits_of(traced).then(Edits(nudged))):
            logits = loaded.model.read(rows_of(traced))
        logprob = logits[0, position].log_softmax(-1)[token]
        sites = list(nudges)
        gradients = torch.autograd.grad(
            logprob, [nudges[site] for site in sites], materialize_grads=True
        )
    return {
        site: gradient[0].numpy() * traced.pattern(site) + 0.0  # no -0.0
        for site, gradient in zip(sites, gradients, strict=True)
    }


def _nudged(pattern: Tensor, nudges: dict[str, Tensor], site: str) -> Tensor:
    nudges[site] = torch.zeros_like(pattern, requires_grad=True)
    return pattern + nudges[site]


def rank_agreement(
    measures: Float[np.ndarray, "measure head"],
) -> Float[np.ndarray, "measure other_measure"]:
    """Spearman's rho of each pair of rows: the correlation of ranks, equal values sharing theirs.

    NaN where all values of a row are equal, since then they have no order. Spearman 1904.
    """
    ranks = np.stack([_ranks(row) for row in measures])
    centred = ranks - ranks.mean(1, keepdims=True)
    products = centred @ centred.T
    spread = np.sqrt(np.diagonal(products))
    whole = np.outer(spread, spread)
    return np.divide(products, whole, out=np.full_like(products, np.nan), where=whole > 0)


def _ranks(values: Sequence[float] | np.ndarray) -> Float[np.ndarray, " head"]:
    """Ranks from 1, smallest first; equal values get the mean of the ranks they take up."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    return (last - (counts - 1) / 2)[which]
