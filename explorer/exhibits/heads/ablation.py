"""The ablation of every head, on which the measures of heads below are based."""

from explorer.analysis.heads.ablation import Ablation
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.heads import grids
from explorer.exhibits.heads.choices import HeadsChoices
from explorer.runs.rerun import written_tokens

AT_ONCE = 45e9
"""Most heads x tokens (source and target) x parameters that run without a click: 80 tokens of a
translator with 72 heads and 7.6 million parameters."""


def show(found: Ablation | None, view: View) -> b.Blocks:
    """Only the progress is shown."""
    yield from ()


def is_wanted(view: View) -> bool:
    """Whether the ablation is quick, requested, or cached."""
    if not written_tokens(view.trace):
        return False
    heads, count = sizes(view)
    made = view.choices(HeadsChoices)
    return (
        not view.asks
        or heads * count * view.loaded.n_parameters <= AT_ONCE
        or made.ablated == view.run
        or made.measure == "needed"
        or grids.ablation.is_kept(view.run)
    )


def sizes(view: View) -> tuple[int, int]:
    """The numbers of heads and tokens."""
    trace = view.trace
    heads = sum(site.n_heads for site in trace.sites)
    return heads, len(trace.src_tokens) + len(trace.tgt_tokens)


EXHIBIT = Exhibit(
    grids.ablation, show, working="matter.working", open=is_wanted, after="heads.measures"
)
