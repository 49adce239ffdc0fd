"""The times of one training pass and of token-by-token generation with the open model."""

from collections.abc import Callable

from explorer.analysis.claims import Result
from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.claims.finding import finding_of, in_percent, table_of
from explorer.exhibits.machine import passes
from explorer.exhibits.machine.choices import MachineChoices


def compute(run: Run, progress: Callable[[int, int], object]) -> Result:
    """The experiment of the claim `parallel`."""
    return finding_of(run, "parallel", progress=in_percent(progress))


def show(found: Result, view: View) -> b.Blocks:
    """The times, and their ratios."""
    yield from table_of(view, found)
    once, slow, quick = (row.values[2] for row in found.rows)
    values = {"slow": f"{slow / once:.0f}", "quick": f"{quick / once:.0f}"}
    yield b.Sentence("passes", view.t("machine.passes_reading", **values))


def _is_open(view: View) -> bool:
    return view.choices(MachineChoices).timed and passes.EXHIBIT.open(view)


EXHIBIT = Exhibit(compute, show, open=_is_open, working="claims.working")
