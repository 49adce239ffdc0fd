"""What the Card page computes, cached by `engine.caching`."""

from explorer.analysis.card import facts as measured
from explorer.analysis.card.facts import ModelFacts
from explorer.engine import cache
from explorer.engine.caching import cached


@cached
def facts(model: str) -> ModelFacts:
    """The facts in a model's files. Raises InputProblem."""
    return measured.facts(cache.open_model(model))
