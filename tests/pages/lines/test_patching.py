"""Patching shows the lines of the part and of the activation that are open."""

import pytest
from seen_lines import Open, Seen, check_visit, name, parts_of

VISITS = [
    *parts_of("patching"),
    ("patching", {"what": "z"}),
    ("patching", {"part": "paths", "into_head": "q", "into": "first"}),
]


@pytest.mark.parametrize(("page", "asked"), VISITS, ids=name)
def test_what_is_shown_ran(open_page: Open, seen: Seen, page: str, asked: dict[str, str]) -> None:
    check_visit(open_page, seen, page, asked)
