"""The tiny translator's Trace, and a call of an experiment that checks its explanation."""

from collections.abc import Callable
from typing import Any

import pytest

from explorer.analysis.cases import Result
from explorer.analysis.cases.case import SHARED, inputs
from explorer.library import LoadedModel
from explorer.runs.passes import Steps, walked
from explorer.runs.trace import Trace, trace
from explorer.text import LANGUAGES, t

TEXT = "The cat sat on the mat."


def result_of(
    test: Callable[..., Result | Steps[Result]],
    loaded: LoadedModel,
    traced: Trace,
    *args: Any,
    **more: Any,
) -> Result:
    """The result of an experiment with or without steps."""
    result = test(*inputs(test, loaded, traced), *args, **more)
    return result if isinstance(result, Result) else walked(result)


@pytest.fixture(scope="module")
def traced(translator: LoadedModel) -> Trace:
    return trace(translator, TEXT)


@pytest.fixture
def find(translator: LoadedModel, traced: Trace) -> Callable[..., Result]:
    """find(test, *args): the finding on the tiny translator; its explanation has words."""

    def found(test: Callable[..., Result], *args: Any, **more: Any) -> Result:
        finding = result_of(test, translator, traced, *args, **more)
        for lang in LANGUAGES:
            for why in finding.why:
                key = why if why in SHARED else f"{test.__name__}.{why}"
                assert "nan" not in t(f"cases.{key}", lang=lang, **finding.numbers)
        return finding

    return found
