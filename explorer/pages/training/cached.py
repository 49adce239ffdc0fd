"""What the Training page computes itself, cached by `engine.caching`."""

from explorer.engine.caching import cached
from explorer.training import before as beginning
from explorer.training.before import Before
from explorer.training.setup import Setup


@cached
def before(setup: Setup, name: str = "", at: tuple[int, ...] = (0, 0)) -> Before:
    """The state before a training; see `training.before`. Raises InputProblem."""
    return beginning.before(setup, name, at)
