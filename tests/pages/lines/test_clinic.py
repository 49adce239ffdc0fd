"""A pitfall shows the lines that ran for it."""

import pytest
from seen_lines import Open, Seen, check_visit, name

from explorer.analysis.clinic import PITFALLS

VISITS = [("clinic", {"case": pitfall.id}) for pitfall in PITFALLS]


@pytest.mark.parametrize(("page", "asked"), VISITS, ids=name)
def test_what_is_shown_ran(open_page: Open, seen: Seen, page: str, asked: dict[str, str]) -> None:
    check_visit(open_page, seen, page, asked)
