"""What the training room computes by itself, cached by `engine.caching`."""

from explorer.engine.caching import cached
from explorer.training import before as beginning
from explorer.training.before import Before
from explorer.training.setup import Setup


@cached
def before(setup: Setup, name: str = "", at: tuple[int, ...] = (0, 0)) -> Before:
    """Where a training begins; see `training.before`. Raises InputProblem."""
    return beginning.before(setup, name, at)
