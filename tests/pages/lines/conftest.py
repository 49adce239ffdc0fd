"""The fixture of these tests stands beside what they share."""

import pytest
from seen_lines import seen

__all__ = ["seen"]


@pytest.fixture(autouse=True)
def _open_once() -> None:
    """Opened anew for every visit, since what opens a model may be shown."""
