"""What the Start page computes, cached by `engine.caching`."""

from explorer.analysis.start import flow as flows
from explorer.analysis.start import opened as opening
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.runs.edits import Edit
from explorer.runs.generation import Generation


@cached
def flow(run: Run, made: Generation | None, edits: tuple[Edit, ...]) -> flows.Flow:
    """The flow of a text through the model. Raises InputProblem."""
    return flows.flow(cache.open_model(run.model), cache.trace(run), made, edits)


@cached
def open_head(
    run: Run, made: Generation | None, edits: tuple[Edit, ...], site: str, head: int
) -> opening.OpenHead:
    """One head of the flow with its numbers. Raises InputProblem."""
    return opening.open_head(cache.open_model(run.model), cache.trace(run), made, edits, site, head)
