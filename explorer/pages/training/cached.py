"""What the training room computes by itself, kept as `ui.work.caching` says."""

from explorer.training import before as beginning
from explorer.training.before import Before
from explorer.training.setup import Setup
from explorer.ui.work.caching import cached


@cached
def before(setup: Setup, name: str = "", at: tuple[int, ...] = (0, 0)) -> Before:
    """Where a training begins; see `training.before`. Raises InputProblem."""
    return beginning.before(setup, name, at)
