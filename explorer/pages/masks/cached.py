"""What the Masks page computes, kept as `engine.caching` says."""

from explorer.analysis.masks import batch as batching
from explorer.analysis.masks import forced as forcing
from explorer.analysis.masks import twins as twinning
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.runs.edits import Edit


@cached
def batch(
    model: str, texts: tuple[str, ...], edits: tuple[Edit, ...]
) -> tuple[batching.Member, ...]:
    """Sentences in one padded batch beside each alone. Raises InputProblem."""
    return batching.batch(cache.open_model(model), texts, edits)


@cached
def forced(run: Run, edits: tuple[Edit, ...]) -> forcing.Forced:
    """The words that a run writes, read again by the same model under `edits`.

    Raises InputProblem.
    """
    return forcing.forced(cache.open_model(run.model), cache.trace(run), edits)


@cached
def twins(text: str, words: str | None) -> tuple[twinning.Twin, twinning.Twin]:
    """The twins with and without causal mask on one sentence. Raises InputProblem."""
    right, cheat = cache.open_model(twinning.RIGHT), cache.open_model(twinning.CHEAT)
    return twinning.twins(right, cheat, text, words)
