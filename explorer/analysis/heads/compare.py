"""Before and after: what an edit, another sentence or another model changed in a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

import numpy as np

from explorer.runs.trace import Trace

Status = Literal["same", "new", "gone"]


@dataclass(frozen=True)
class SiteChange:
    """How far the weights of one site are from those before: the largest change, 0 to 1, over the
    `n_query` and `n_key` tokens that both runs have from the start; `whole`: those are all."""

    site: str
    most: float
    n_query: int
    n_key: int
    whole: bool


@dataclass(frozen=True, eq=False)
class RunChange:
    """The differences between two Traces.

    `sites` are the sites that both have, with the same number of heads. `words` are the target
    tokens of both in reading order, removed tokens before those that replace them.
    """

    sites: dict[str, SiteChange]
    words: tuple[tuple[str, Status], ...]

    @property
    def most(self) -> float:
        """The largest change of any weight at any site."""
        return max((site.most for site in self.sites.values()), default=0.0)


def compare(before: Trace, after: Trace) -> RunChange:
    """All differences between two runs."""
    shared = {
        "src": _n_shared(before.src_str_tokens, after.src_str_tokens),
        "tgt": _n_shared(before.tgt_str_tokens, after.tgt_str_tokens),
    }
    sites = {}
    heads_after = {site.name: site.n_heads for site in after.sites}
    for site in before.sites:
        if heads_after.get(site.name) != site.n_heads:
            continue
        n_query, n_key = shared[site.query_stream], shared[site.key_stream]
        old, new = before.pattern(site.name), after.pattern(site.name)
        change = np.abs(new[:, :n_query, :n_key] - old[:, :n_query, :n_key])
        whole = change.shape == old.shape == new.shape
        most = float(change.max(initial=0.0))
        sites[site.name] = SiteChange(site.name, most, n_query, n_key, whole)
    return RunChange(sites, token_diff(_written(before), _written(after)))


def token_diff(before: Sequence[str], after: Sequence[str]) -> tuple[tuple[str, Status], ...]:
    """Two token sequences merged: common, removed and added tokens (Ratcliff-Obershelp)."""
    words: list[tuple[str, Status]] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for what, i, i_end, j, j_end in matcher.get_opcodes():
        if what == "equal":
            words.extend((token, "same") for token in before[i:i_end])
        else:
            words.extend((token, "gone") for token in before[i:i_end])
            words.extend((token, "new") for token in after[j:j_end])
    return tuple(words)


def _written(trace: Trace) -> tuple[str, ...]:
    """The target tokens without the start token and padding."""
    n_real = int(trace.tgt_valid.sum())
    return trace.tgt_str_tokens[1:n_real]


def _n_shared(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the common prefix of two sequences."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
