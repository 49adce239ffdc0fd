"""Every way in with the first of the fuzzer's cases; and the fuzzer itself sees what is wrong."""

from pathlib import Path

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


def test_a_file_outside_the_cases_folder_fails(tmp_path, monkeypatch):
    def strays(rng: object, folder: Path) -> None:
        fuzz._watch("open", (str(folder / "inside"), "w", 0))
        fuzz._watch("open", (str(tmp_path / "read"), "r", 0))
        fuzz._watch("open", (str(tmp_path / "outside"), "w", 0))

    monkeypatch.setitem(fuzz.ENTRIES, "link", strays)
    with pytest.raises(AssertionError, match=r"written outside its place: \['open [^,]*outside'\]"):
        fuzz.case("link", 0)
