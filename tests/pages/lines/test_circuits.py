"""Circuits shows the lines of the part that is open, and of the circuit built by hand."""

import pytest
from seen_lines import Open, Seen, check_visit, name, parts_of

VISITS = [
    *parts_of("circuits"),
    ("circuits", {"part": "circuit", "made_of": "by-hand"}),
    ("circuits", {"part": "circuit", "made_of": "text"}),
    ("circuits", {"part": "vocabulary", "head_map": "qk"}),
]


@pytest.mark.parametrize(("page", "asked"), VISITS, ids=name)
def test_what_is_shown_ran(open_page: Open, seen: Seen, page: str, asked: dict[str, str]) -> None:
    check_visit(open_page, seen, page, asked, model="writer")
