"""Every way in with the first of the fuzzer's cases, or with more (`make fuzz`)."""

import itertools
import sys
import time

import pytest

from explorer.engine.memory import resident
from explorer.runs.trace import trace
from tests.fuzz import running as fuzz, texts

GROWTH = 700_000_000
"""Bytes that an entry may add to the process: allocators keep some of what they once had."""

CASES = {
    "sentence": 20,
    "program": 12,
    "page": 6,
    "visit": 3,
    "shell": 15,
    "checkpoint": 20,
    "foreign": 30,
    "atlas": 30,
    "setup": 60,
}


@pytest.fixture(scope="module", autouse=True)
def _watched() -> None:
    trace(texts.model("copy"), "a b")  # once: torch makes its cache's folder
    sys.addaudithook(fuzz.watch)


@pytest.mark.filterwarnings("ignore")  # as at a visitor's
@pytest.mark.parametrize("entry", fuzz.ENTRIES)
def test_random_input_is_used_or_refused(entry, request):
    until = time.monotonic() + request.config.getoption("fuzz") / len(fuzz.ENTRIES)
    began_with = resident()
    for number in itertools.count():
        if number >= CASES.get(entry, 150) and time.monotonic() > until:
            break
        fuzz.case(entry, number)
    assert resident() - began_with < GROWTH
