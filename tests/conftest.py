"""What all tests share: one torch thread, the same random numbers, and checks of shapes."""

import gc
import sys

import pytest
import torch
from hypothesis import HealthCheck, settings
from typecheck import CALLS, begin, check_shapes

gc.disable()  # until all is imported and collected, of which nothing goes away
check_shapes()  # before anything that it checks is imported


torch.set_num_threads(1)
settings.register_profile(
    "headlight",
    deadline=None,
    derandomize=True,  # the same examples in every run: a red test is red for everybody
    max_examples=25,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("headlight")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-shapes", action="store_true", help="check the shapes of every call")
    parser.addoption("--fuzz", type=float, default=0, help="seconds of further random input")


@pytest.fixture(autouse=True)
def _begin(request) -> None:
    """Each test begins with the same random numbers, and each file with shapes to check.

    `torch.manual_seed` would also write down the whole stack for each kind of GPU (1 ms).
    """
    torch.default_generator.manual_seed(0)
    begin(str(request.path), sys.maxsize if request.config.getoption("all_shapes") else CALLS)


def pytest_collection_finish() -> None:
    """Keep what has been imported out of garbage collections, each of which walked all of torch."""
    gc.freeze()
    gc.set_threshold(10_000)  # of the usual 700: a page makes more, and holds them to its end
    gc.enable()
