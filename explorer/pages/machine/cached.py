"""What the Machine page computes, cached by `engine.caching`."""

from explorer.analysis.machine import history, reach, swaps
from explorer.analysis.machine.parameters import (
    Count,
    count_config,
    count_layers,
    logits_shape,
)
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from models.config import ModelConfig


@cached
def count(config: ModelConfig) -> Count:
    """The parameters that a model of this config would have. Raises ValueError."""
    return count_config(config)


@cached
def logits(config: ModelConfig, batch: int, src: int, tgt: int) -> tuple[int, ...]:
    """The shape of the logits of such a model. Raises ValueError."""
    return logits_shape(config, batch, src, tgt)


@cached
def layers(config: ModelConfig) -> Count:
    """The parameters that the layers of such a model would have. Raises ValueError."""
    return count_layers(config)


@cached
def swapped(run: Run) -> tuple[swaps.Swapped, ...]:
    """The model with each design choice replaced, one at a time. Raises InputProblem."""
    return swaps.swapped(cache.open_model(run.model), cache.trace(run))


@cached
def moments(run: Run) -> history.Moments | None:
    """The text's loss at the saved training steps of the model. Raises InputProblem."""
    return history.moments(cache.open_model(run.model), cache.trace(run), cache.open_model)


@cached
def reaches(run: Run) -> tuple[reach.Reach, ...]:
    """The gradient at every token of the longer text of a run, by distance. Raises InputProblem."""
    return reach.reaches(reach.read_vectors(cache.trace(run)))
