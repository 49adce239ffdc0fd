"""Every way in with the first of the fuzzer's cases; and the fuzzer itself sees what is wrong."""

import pytest

from tests.fuzz import running as fuzz

CASES = {
    "sentence": 20,
    "program": 12,
    "page": 6,
    "visit": 3,
    "shell": 15,
    "checkpoint": 20,
    "upload": 20,
    "foreign": 30,
    "atlas": 30,
    "setup": 60,
}


@pytest.mark.filterwarnings("ignore")  # as at a visitor's
@pytest.mark.parametrize("entry", fuzz.ENTRIES)
def test_random_input_is_used_or_refused(entry):
    for number in range(CASES.get(entry, 150)):
        fuzz.case(entry, number)
