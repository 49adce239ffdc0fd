"""The atlas shows the lines of what it measured: of a file, and of sentences at hand."""

import pytest
from seen_lines import Open, Seen, check_visit, name

VISITS = [
    ("atlas", {}),
    ("atlas", {"part": "compare", "against": "reader"}),
    ("atlas", {"part": "search", "like": "row"}),
]


@pytest.mark.parametrize(("page", "asked"), VISITS, ids=name)
def test_what_is_shown_ran(open_page: Open, seen: Seen, page: str, asked: dict[str, str]) -> None:
    check_visit(open_page, seen, page, asked)
