"""Tiny models of every design, each built and read once: in float64, so that sums must close."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from explorer.library import LoadedModel
from explorer.runs.trace import Trace, trace
from tests.explorer.conftest import DESIGNS

TEXT, TARGET = "The cat sat on the mat.", "猫坐在垫子上。"


@pytest.fixture(scope="session")
def design(tiny) -> Callable[[str], tuple[LoadedModel, Trace]]:
    """design("post"): a tiny model in float64, and what it did with a sentence."""

    @cache
    def made(name: str) -> tuple[LoadedModel, Trace]:
        loaded = tiny(name, **DESIGNS[name])
        loaded.model.double()
        traced = trace(loaded, TEXT, TARGET if "src" in loaded.model.reads else "", pads=1)
        assert traced.activations[traced.sites[0].hook("scores")].dtype == np.float64
        return loaded, traced

    return made


@pytest.fixture(params=DESIGNS)
def each(request, design) -> tuple[LoadedModel, Trace]:
    return design(request.param)
