"""Which heads of a model to look at first, measured over many sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from explorer.analysis.heads.measures import HeadMeasures, head_measures
from explorer.runs.trace import Trace

MEASURES = ("previous", "diagonal", "first", "end_mark", "alignment")


@dataclass(frozen=True)
class HeadRole:
    """The head with the highest value of a measure: a share of attention (0 to 1) or alignment."""

    measure: str
    site: str
    head: int
    value: float


def head_roles(traces: Sequence[Trace]) -> tuple[HeadRole, ...]:
    """For each measure the head with the largest mean over `traces`, all of one model.

    A measure that no head has, such as alignment in a decoder-only model, is left out. Raises
    ValueError if `traces` is empty.
    """
    if not traces:
        raise ValueError("measuring heads needs at least one sentence")
    found = []
    for measure in MEASURES:
        values = _means(traces, attrgetter(measure))
        if values:
            (site, head), value = max(values.items(), key=lambda item: item[1])
            found.append(HeadRole(measure, site, head, value))
    return tuple(found)


def induction(trace: Trace) -> HeadRole:
    """The head that most attends to the token after the last occurrence, in a repeated text.

    The second half of the sequence must repeat the first, after the start token. For each token of
    the second half, the measured key is the one after the same token's first occurrence; Olsson et
    al. 2022, In-context Learning and Induction Heads. Raises ValueError if it does not repeat.
    """
    row = trace.tgt_tokens[1 : int(trace.tgt_valid.sum())]
    half = len(row) // 2
    if half < 2 or row[:half] != row[half:]:
        raise ValueError("the text must be repeated twice and have at least two tokens")
    queries = np.arange(half, 2 * half)[:-1] + 1  # in the second half; position 0 is the start
    keys = queries - half + 1
    best = max(
        (float(pattern[queries, keys].mean()), site.name, head)
        for site in trace.sites
        if site.stack == "decoder" and site.kind == "self"
        for head, pattern in enumerate(trace.pattern(site.name))
    )
    return HeadRole("induction", best[1], best[2], best[0])


def _means(
    traces: Sequence[Trace], read: Callable[[HeadMeasures], float | None]
) -> dict[tuple[str, int], float]:
    """The mean of a measure by (site, head), over the traces in which it is defined."""
    values: dict[tuple[str, int], list[float]] = {}
    for trace in traces:
        for site in trace.sites:
            for heads in head_measures(trace, site.name):
                value = read(heads)
                if value is not None:
                    values.setdefault((heads.site, heads.head), []).append(value)
    return {address: float(np.mean(found)) for address, found in values.items()}
