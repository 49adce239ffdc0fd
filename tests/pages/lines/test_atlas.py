"""The atlas shows the lines of what it measured, compared and searched."""

import pytest
from seen_lines import Open, Seen, check_visit

VISITS = [
    ("en-zh", {}),
    pytest.param("reader", {"part": "compare", "against": "headless"}, marks=pytest.mark.sweep),
    pytest.param("en-zh", {"part": "search", "like": "row"}, marks=pytest.mark.sweep),
]


@pytest.mark.parametrize(("model", "asked"), VISITS, ids=["heads", "compare", "search"])
def test_what_is_shown_ran(open_page: Open, seen: Seen, model: str, asked: dict[str, str]) -> None:
    check_visit(open_page, seen, "atlas", asked, model)
