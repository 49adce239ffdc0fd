"""The rank of one head among all heads of its kind, by four measures that may disagree."""

import math
from dataclasses import dataclass

import numpy as np

from explorer.analysis.heads.attribution import MEASURES, Attribution, Measure


@dataclass(frozen=True)
class HeadRanks:
    """One head for one output token: `values` signed, `ranks` by size, 1 = largest of `n_heads`.

    `weight` is the query's largest weight, at the position `key`. `agreement` is Spearman's rho
    between each measure's order of the heads and that of "off"; NaN if a measure has no order.
    """

    values: dict[Measure, float]
    ranks: dict[Measure, int]
    agreement: dict[Measure, float]
    n_heads: int
    key: int


def head_ranks(attribution: Attribution, site: str, head: int) -> HeadRanks:
    """A head's ranks among those of its kind. Raises KeyError, IndexError as `Attribution` does."""
    of_site = next((each for each in attribution.sites if each.name == site), None)
    if of_site is None:
        raise KeyError(f"there is no attention site {site!r}")
    kind = of_site.role
    of_kind = {
        each.name: attribution.over_heads(each.name)
        for each in attribution.sites
        if each.role == kind
    }
    values, ranks = {}, {}
    for name in MEASURES:
        values[name] = float(of_kind[site][name][head])
        every = np.concatenate([found[name] for found in of_kind.values()])
        ranks[name] = 1 + int((np.abs(every) > abs(values[name])).sum())
    agreement = attribution.agreement(kind)[:, MEASURES.index("off")]
    return HeadRanks(
        values=values,
        ranks=ranks,
        agreement=dict(zip(MEASURES, agreement.tolist(), strict=True)),
        n_heads=len(every),
        key=int(attribution.per_key(site, head)["weight"].argmax()),
    )


def likely(count: int) -> float:
    """The rank correlation that 5 % of random orders of so many heads exceed, by its normal
    approximation: the standard deviation of Spearman's rho is 1/sqrt(n - 1)."""
    return min(1.0, 1.645 / math.sqrt(max(1, count - 1)))
