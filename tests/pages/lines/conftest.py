"""The fixture of these tests stands beside what they share."""

import pytest
from seen_lines import seen

from explorer.engine.caching import Store, budget

__all__ = ["seen"]


@pytest.fixture(autouse=True)
def _open_once() -> None:
    """Opened anew for every visit, since what opens a model may be shown."""


@pytest.fixture
def store() -> Store:
    """Computed anew for every visit, since what computes it is shown."""
    return Store(budget())
