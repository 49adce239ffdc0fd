"""Attribution: four measures of a head's relation to one output token.

weight        how much of its attention a query gives to a key
contribution  weight x ||v W_O||, the norm of the key's transformed value: a key with a tiny value
              adds nothing however large its weight. Kobayashi et al. 2020, "Attention is Not Only
              a Weight", eq. 4
gradient      weight x d log p(token) / d weight: the first-order effect of the weight on the token,
              through all later computation, including later attention
off           the change of log p(token) when the head is ablated for every query: its effect

Jain & Wallace 2019, "Attention is not Explanation", show that the weight says little about the
effect; as they do, `agreement` compares the orders in which measures put the heads.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.heads.ablation import Ablation, ablate
from explorer.analysis.heads.sinks import written_lengths
from explorer.library import LoadedModel
from explorer.runs import rerun
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, Edits, visiting

Measure = Literal["weight", "contribution", "gradient", "off"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
Cells = Float[np.ndarray, "head query key"]


@dataclass(frozen=True, eq=False)
class Attribution:
    """The four measures for `token`, the one after position `position` of the decoder's input.

    `weight`, `contribution` and `gradient` are by site name [head, query, key]; a blocked cell is
    exactly 0 in all three. `written` [head, query] is the norm of a head's total output at a query,
    ||sum over keys of weight x v W_O||. `gradient` (nats) is above 0 if the weight favours the
    token; `off` [head] (nats) is below 0 if the head was needed. A head that an edit of the Trace
    has switched off keeps its weight and has 0 in all other measures.
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
    valid: dict[str, np.ndarray] = field(repr=False)  # per sequence, True = a real token

    def per_key(self, site: str, head: int) -> dict[Measure, Float[np.ndarray, " key"]]:
        """Weight, contribution and gradient of each key for one query of a head.

        The query is the one that predicts the token. In the encoder all real queries count instead:
        the mean of weights and contributions, the sum of gradients.
        Raises KeyError for an unknown site, IndexError for an unknown head.
        """
        rows = self._queries(site)
        return {
            "weight": self.weight[site][head, rows].mean(0),
            "contribution": self.contribution[site][head, rows].mean(0),
            "gradient": self.gradient[site][head, rows].sum(0),
        }

    def over_heads(self, site: str) -> dict[Measure, Float[np.ndarray, " head"]]:
        """All four measures of each head of a site, for the whole query.

        These are the query's largest weight, the norm of the head's output, the sum of the query's
        gradients, and `off`, which covers every query and key of the head. `query` as in
        `per_key`, with the same errors.
        """
        rows = self._queries(site)
        return {
            "weight": self.weight[site][:, rows].mean(1).max(-1),
            "contribution": self.written[site][:, rows].mean(1),
            "gradient": self.gradient[site][:, rows].sum((1, 2)),
            "off": self.off[site],
        }

    def ranks(self, site: str, head: int) -> "HeadRanks":
        """A head's ranks among the heads of its kind. Raises what `per_key` raises."""
        kind = self._site(site).role
        of_kind = [self.over_heads(other.name) for other in self.sites if other.role == kind]
        own, every, values, ranks = self.over_heads(site), [], {}, {}
        for name in MEASURES:
            sizes = np.abs(np.concatenate([measures[name] for measures in of_kind]))
            values[name] = float(own[name][head])
            ranks[name] = 1 + int((sizes > abs(values[name])).sum())
            every.append(sizes)
        agreement = rank_agreement(np.array(every))[:, MEASURES.index("off")]
        return HeadRanks(
            values=values,
            ranks=ranks,
            agreement=dict(zip(MEASURES, agreement.tolist(), strict=True)),
            n_heads=len(every[0]),
            key=int(self.per_key(site, head)["weight"].argmax()),
        )

    def _site(self, name: str) -> AttentionSite:
        for site in self.sites:
            if site.name == name:
                return site
        raise KeyError(f"there is no attention site {name!r}")

    def _queries(self, site: str) -> list[int]:
        stream = self._site(site).query_stream
        return [self.position] if stream == "tgt" else np.flatnonzero(self.valid[stream]).tolist()


@dataclass(frozen=True)
class HeadRanks:
    """One head for one output token: `values` signed, `ranks` by size, 1 = largest of `n_heads`.

    `weight` is the query's largest weight, at the position `key`. `agreement` is Spearman's rho
    between the orders of the heads by each measure and by "off"; NaN if a measure has no order.
    """

    values: dict[Measure, float]
    ranks: dict[Measure, int]
    agreement: dict[Measure, float]
    n_heads: int
    key: int


def attribute(
    loaded: LoadedModel, traced: Trace, position: int, ablation: Ablation | None = None
) -> Attribution:
    """All four measures for one output token, at every head of every site.

    The token is the one written after `position`, or the predicted one if none was written. An
    `ablation` of this Trace is reused if it scored this token; otherwise heads are ablated here.
    Raises IndexError for a position that is padding or out of range, ValueError for another model's
    Trace.
    """
    rerun.require_same_model(loaded, traced)
    n_real = int(traced.tgt_valid.sum())
    if not 0 <= position < n_real:
        raise IndexError(f"there is no position {position}: the sequence has {n_real}")
    written = rerun.written_tokens(traced)
    token = written[position] if position < len(written) else traced.predicted_tokens[position]
    if ablation is None or ablation.tokens[position : position + 1] != (token,):
        ablation = ablate(loaded, traced, (*written[:position], token))
    before = traced.tgt_tokens[position]
    contribution = {}
    for site in traced.sites:
        cells = traced.pattern(site.name) * written_lengths(loaded, traced, site, "v")[:, None]
        cells[rerun.heads_off(traced, site.name)] = 0.0
        contribution[site.name] = cells
    return Attribution(
        sites=traced.sites,
        position=position,
        token=token,
        str_token=loaded.str_tokens((before, token))[-1],
        logprob=float(rerun.token_logprobs(traced.logits[position : position + 1], (token,))[0]),
        weight={site.name: traced.pattern(site.name) for site in traced.sites},
        contribution=contribution,
        gradient=_gradients(loaded, traced, position, token),
        written={s.name: written_lengths(loaded, traced, s, "z") for s in traced.sites},
        off={site: deltas[:, position] for site, deltas in ablation.token_deltas.items()},
        valid={"src": traced.src_valid, "tgt": traced.tgt_valid},
    )


def _gradients(loaded: LoadedModel, traced: Trace, position: int, token: int) -> dict[str, Cells]:
    """weight x d log p(token) / d weight, under the Trace's edits.

    No parameter requires a gradient. A zero added to every pattern does: its gradient is
    the pattern's own, and the patterns of later layers respond to it.
    """
    nudges: dict[str, Tensor] = {}
    # The caller may be in inference or no-grad mode; neither records a graph.
    with torch.inference_mode(False), torch.enable_grad():
        nudged = {
            site.hook("pattern"): partial(_nudged, nudges=nudges, site=site.name)
            for site in traced.sites
        }
        with visiting(rerun.edits_of(traced).then(Edits(nudged))):
            logits = loaded.model.read(rerun.rows_of(traced))
        logprob = logits[0, position].log_softmax(-1)[token]
        sums = torch.autograd.grad(logprob, [*nudges.values()], materialize_grads=True)
    gradients = zip(nudges, sums, strict=True)
    return {site: of[0].numpy() * traced.pattern(site) + 0.0 for site, of in gradients}  # no -0.0


def _nudged(pattern: Tensor, nudges: dict[str, Tensor], site: str) -> Tensor:
    nudges[site] = torch.zeros_like(pattern, requires_grad=True)
    return pattern + nudges[site]


def rank_agreement(
    measures: Float[np.ndarray, "measure head"],
) -> Float[np.ndarray, "measure other_measure"]:
    """Spearman's rho of each pair of rows: the correlation of ranks, with tied ranks averaged.

    NaN if all values of a row are equal, since they have no order. Spearman 1904.
    """
    ranks = np.stack([*map(_ranks, measures)])
    centred = ranks - ranks.mean(1, keepdims=True)
    products = centred @ centred.T
    spread = np.sqrt(np.diagonal(products))
    whole = np.outer(spread, spread)
    return np.divide(products, whole, out=np.full_like(products, np.nan), where=whole > 0)


def _ranks(values: Sequence[float] | np.ndarray) -> Float[np.ndarray, " head"]:
    """Ranks from 1, smallest first; tied values get their mean rank."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    return (last - (counts - 1) / 2)[which]


def likely(count: int) -> float:
    """The rank correlation that 5 % of random orders of so many heads exceed, by its normal
    approximation: the standard deviation of Spearman's rho is 1/sqrt(n - 1)."""
    return min(1.0, 1.645 / math.sqrt(max(1, count - 1)))
