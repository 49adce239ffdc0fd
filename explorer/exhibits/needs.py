"""Capabilities that an exhibit may require of the model; messages are at `needs.NAME`."""

from collections.abc import Callable
from dataclasses import dataclass

from explorer.exhibits.view import View


@dataclass(frozen=True)
class Need:
    """A capability by its name, and whether the model of a view has it."""

    name: str
    met: Callable[[View], bool]


CAUSAL = Need("causal", lambda view: view.loaded.config.is_causal)
"""A causal mask."""
