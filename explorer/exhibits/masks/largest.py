"""The largest change of any weight caused by the user's edits, as one sentence; before any, the
purpose of the causal mask."""

from explorer.analysis.heads.compare import RunChange, compare
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.exhibit import CAUSAL
from explorer.exhibits.masks import causal
from explorer.numbers import number
from explorer.runs.trace import Trace

ROUNDING = 5e-5
"""Changes of a weight up to this are float32 rounding: padding alone causes up to 2e-5 in the
shipped models (twin-deep-branch)."""
Answer = tuple[RunChange, causal.Ahead | None]
"""What changed, and how far a run without the causal mask looks ahead."""


def difference(before: Trace, trace: Trace, ahead: causal.Ahead | None = None) -> Answer:
    """Compare two runs weight by weight."""
    return compare(before, trace), ahead


def show(answer: Answer, view: View) -> b.Blocks:
    """The sentence."""
    yield b.Hero((b.Sentence("masks", _said(*answer, view)),))


def _said(run_change: RunChange, looking: causal.Ahead | None, view: View) -> str:
    if run_change.most < ROUNDING:
        if CAUSAL.met(view.loaded) and view.state.pads is None and not view.state.edits:
            return view.t("masks.purpose")
        return view.t("masks.nothing_changed", exact=number(run_change.most))
    if looking is not None:
        return causal.ahead_words(looking, view)
    points = 100 * run_change.most
    site = view.trace.site(max(run_change.sites.values(), key=lambda each: each.most).site)
    return view.t(
        "masks.largest",
        points=f"{points:.2g}" if points < 1 else f"{points:.0f}",
        kind=view.t("kinds", site.role),
        layer=site.layer + 1,
    )


def _ahead(view: View) -> causal.Ahead | None:
    looking = causal.EXHIBIT.answer(view) if CAUSAL.met(view.loaded) else None
    return None if looking is None else looking[0]


def moved(view: View) -> RunChange:
    """The difference, for other exhibits' inputs."""
    return EXHIBIT.answer(view)[0]


EXHIBIT = Exhibit(difference, show, inputs={"ahead": _ahead})
