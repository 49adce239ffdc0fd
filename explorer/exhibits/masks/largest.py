"""The largest change of any weight caused by the user's edits, as one sentence; before any, the
purpose of the causal mask."""

from dataclasses import dataclass

from explorer.analysis.heads.compare import Status, compare
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.exhibit import CAUSAL
from explorer.exhibits.masks import causal
from explorer.numbers import number
from explorer.runs.trace import Trace

ROUNDING = 5e-5
"""Changes of a weight up to this are float32 rounding: padding alone causes up to 2e-5 in the
shipped models (twin-deep-branch)."""


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
    """Differences between a run and the same text in the unchanged model.

    `words` are the tokens of both outputs as `analysis.heads.compare` has them. `ahead` is how far
    a run without the causal mask looks ahead.
    """

    sites: dict[str, SiteChange]
    words: tuple[tuple[str, Status], ...]
    ahead: causal.Ahead | None = None

    @property
    def most(self) -> float:
        """The largest change of any weight."""
        return max((site.most for site in self.sites.values()), default=0.0)


def difference(before: Trace, trace: Trace, ahead: causal.Ahead | None = None) -> RunChange:
    """Compare two runs weight by weight."""
    comparison = compare(before, trace)
    sites = {}
    for name, site in comparison.sites.items():
        _, n_query, n_key = site.difference.shape
        sites[name] = SiteChange(name, site.max_abs, n_query, n_key, site.whole)
    return RunChange(sites, comparison.words, ahead)


def show(run_change: RunChange, view: View) -> b.Blocks:
    """The sentence."""
    yield b.Hero((b.Sentence("masks", _said(run_change, view)),))


def _said(run_change: RunChange, view: View) -> str:
    if run_change.most < ROUNDING:
        if CAUSAL.met(view.loaded) and view.state.pads is None and not view.state.edits:
            return view.t("masks.purpose")
        return view.t("masks.nothing_changed", exact=number(run_change.most))
    if run_change.ahead is not None:
        return causal.ahead_words(run_change.ahead, view)
    points = 100 * run_change.most
    site = view.trace.site(max(run_change.sites.values(), key=lambda each: each.most).site)
    return view.t(
        "masks.largest",
        points=f"{points:.2g}" if points < 1 else f"{points:.0f}",
        kind=view.t(f"kinds.{site.role}"),
        layer=site.layer + 1,
    )


def _ahead(view: View) -> causal.Ahead | None:
    looking = causal.EXHIBIT.answer(view) if CAUSAL.met(view.loaded) else None
    return None if looking is None else looking[0]


def moved(view: View) -> RunChange:
    """The difference, for other exhibits' inputs."""
    return EXHIBIT.answer(view)


EXHIBIT = Exhibit(difference, show, inputs={"ahead": _ahead})
