"""The run that most tests of a score examine."""

import pytest

from explorer.library import LoadedModel
from explorer.runs.trace import Trace, trace


@pytest.fixture(scope="session")
def traced(translator: LoadedModel) -> Trace:
    return trace(translator, "The cat sat on the mat.")
