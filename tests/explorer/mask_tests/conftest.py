"""Shapes are checked where right models are certified, and nowhere else: it takes a minute."""

from collections.abc import Iterator

import pytest
from typecheck import unchecked


@pytest.fixture(autouse=True)
def _shapes_are_checked_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where right models with the norm behind are certified, in every family and with all kinds of
    positions. The other tests make the same calls, thousands of them.
    """
    checked = request.node.name.startswith("test_a_right_model_keeps_every_promise")
    if checked and request.getfixturevalue("placement") == "post":
        yield
    else:
        with unchecked():
            yield
