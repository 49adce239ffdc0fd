"""The tiny translator's Trace, and a call of an experiment that checks its explanation."""

from collections.abc import Callable
from typing import Any

import pytest

from explorer.analysis.claims import Result
from explorer.analysis.claims.attention import fills
from explorer.library import LoadedModel
from explorer.runs.trace import Trace, trace
from explorer.text import LANGUAGES, t

TEXT = "The cat sat on the mat."


@pytest.fixture(scope="module")
def traced(translator: LoadedModel) -> Trace:
    return trace(translator, TEXT)


@pytest.fixture
def find(translator: LoadedModel, traced: Trace) -> Callable[..., Result]:
    """find(test, *args): the finding on the tiny translator; its explanation has words."""

    def found(test: Callable[..., Result], *args: Any, **more: Any) -> Result:
        finding = test(translator, traced, lambda done: None, *args, **more)
        for lang in LANGUAGES:
            for why in finding.why:
                filled = t(f"claims.{test.__name__}.{why}", lang=lang, **finding.numbers)
                assert "nan" not in filled or test is fills  # where NaN is what is found
        return finding

    return found
