"""The tiny translator's Trace, and a call of an experiment that checks its explanation."""

from collections.abc import Callable
from typing import Any

import pytest

from explorer.analysis.cases import Result
from explorer.analysis.cases.case import SHARED, inputs
from explorer.library import LoadedModel
from explorer.runs.passes import walked
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
        finding = test(*inputs(test, translator, traced), *args, **more)
        if not isinstance(finding, Result):
            finding = walked(finding)
        for lang in LANGUAGES:
            for why in finding.why:
                key = why if why in SHARED else f"{test.__name__}.{why}"
                assert "nan" not in t(f"cases.{key}", lang=lang, **finding.numbers)
        return finding

    return found
