"""What the Causes page computes, cached by `engine.caching`."""

from explorer.analysis.causes import lens as lenses
from explorer.analysis.causes import why as reasons
from explorer.analysis.causes import writes as written
from explorer.analysis.causes.writers import Detail, Side, Told
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.runs.generation import Generation


@cached
def why(
    run: Run,
    site: str,
    head: int,
    query: int,
    key: int,
    against: int | None,
    detail: Detail,
    *,
    progress: Told | None = None,
) -> reasons.Why:
    """The score of a cell as a sum. Raises InputProblem; IndexError if out of range."""
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    return reasons.why(
        loaded, traced, loaded.site(site), head, query, key, against, detail, progress
    )


@cached
def removal(
    run: Run,
    site: str,
    head: int,
    query: int,
    key: int,
    detail: Detail,
    side: Side,
    writer: int,
    *,
    progress: Told | None = None,
) -> reasons.Removal:
    """Ablate a writer in the query or the key of a cell. Raises as `why`."""
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    found = why(run, site, head, query, key, None, detail, progress=progress)
    return reasons.remove(loaded, traced, found, side, writer)


@cached
def writes(
    run: Run,
    position: int,
    word: int,
    other: int,
    detail: Detail,
    *,
    progress: Told | None = None,
) -> written.Writes:
    """The logits of two words as sums. Raises InputProblem; IndexError if out of range."""
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    return written.writes(loaded, traced, position, word, other, detail, progress)


@cached
def silenced(
    run: Run,
    position: int,
    word: int,
    other: int,
    detail: Detail,
    writer: int,
    *,
    progress: Told | None = None,
) -> written.Silenced:
    """Ablate a writer at its position. Raises as `writes`; ValueError for the biases."""
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    found = writes(run, position, word, other, detail, progress=progress)
    return written.silence(loaded, traced, found, writer)


@cached
def pushes(
    run: Run, site: str, head: int, query: int, *, progress: Told | None = None
) -> written.Pushes:
    """The output of a head at a query, projected on the vocabulary. Raises as `writes`."""
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    return written.pushes(loaded, traced, loaded.site(site), head, query, progress)


@cached
def without_head(
    run: Run,
    position: int,
    word: int,
    other: int,
    site: str,
    head: int,
    query: int,
    *,
    progress: Told | None = None,
) -> float:
    """The difference of two logits without a head at one query. Raises as `writes`."""
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    found = writes(run, position, word, other, "sublayers", progress=progress)
    return written.without_head(loaded, traced, found, loaded.site(site), head, query)


@cached
def lens(run: Run, *, progress: Told | None = None) -> lenses.Lens:
    """The lens at every position of a run. Raises InputProblem; ValueError without logits."""
    return lenses.lens(cache.open_model(run.model), cache.trace(run), progress)


@cached
def film(made: Generation, *, progress: Told | None = None) -> lenses.Lens:
    """The lens at every step of a decoding. Raises ValueError without logits."""
    return lenses.film(cache.open_model(made.model), made, progress)
