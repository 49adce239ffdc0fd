"""What the Card page computes, kept as `engine.caching` says."""

from explorer.analysis.card import facts as measured
from explorer.analysis.card.facts import ModelFacts
from explorer.engine import cache
from explorer.engine.caching import cached


@cached
def facts(model: str) -> ModelFacts:
    """What a model and its files tell of themselves. Raises InputProblem."""
    return measured.facts(cache.open_model(model))
