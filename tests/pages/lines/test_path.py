"""The path shows the lines that computed the step that is open."""

import pytest
from seen_lines import Open, Seen, check_visit, name

from explorer.exhibits.path.course import STEPS

VISITS = [
    pytest.param("path", {"lesson": step}, marks=() if step == "look" else pytest.mark.sweep)
    for step in STEPS
]


@pytest.mark.parametrize(("page", "asked"), VISITS, ids=name)
def test_what_is_shown_ran(open_page: Open, seen: Seen, page: str, asked: dict[str, str]) -> None:
    check_visit(open_page, seen, page, asked)
