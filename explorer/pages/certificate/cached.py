"""What the Certificate page computes, cached by `engine.caching`."""

from collections.abc import Callable

from explorer.analysis.certificate.certify import (
    Certificate,
    Examination,
    LeftOut,
    examine_text,
)
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached


def _examination(run: Run) -> Examination:
    return examine_text(cache.open_model(run.model), run.text, run.target, run.edits)


@cached
def promises(run: Run) -> tuple[str, ...]:
    """The promises that a certificate of this run would test, in order. Raises InputProblem."""
    return _examination(run).names


@cached
def left_out(run: Run) -> dict[str, LeftOut]:
    """The promises that it would not test, with reasons. Raises InputProblem."""
    return _examination(run).left_out


@cached
def certificate(run: Run, *, progress: Callable[[int, str], None] | None = None) -> Certificate:
    """Test the masks of a run; `progress` gets the number of finished tests and the name of the
    next.

    Raises InputProblem.
    """
    examination = _examination(run)
    for done, name in enumerate(examination.names):
        if progress is not None:
            progress(done, name)
        examination.finding(name)
    return examination.certificate()
