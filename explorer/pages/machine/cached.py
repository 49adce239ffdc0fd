"""What the Machine page computes, kept as `ui.caching` says."""

from explorer.analysis.machine.parameters import Count, count_config, count_layers
from explorer.ui.caching import cached
from models.config import ModelConfig


@cached
def count(config: ModelConfig) -> Count:
    """The parameters that a model of this config would have. Raises ValueError."""
    return count_config(config)


@cached
def layers(config: ModelConfig) -> Count:
    """The parameters that the layers of such a model would have. Raises ValueError."""
    return count_layers(config)
