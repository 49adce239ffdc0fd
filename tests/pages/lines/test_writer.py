"""The lines of every part for a model of another design: one text, pre-norm."""

import pytest
from seen_lines import PARTS, Open, Seen, check_visit, name


@pytest.mark.sweep
@pytest.mark.parametrize(("page", "asked"), PARTS, ids=name)
def test_what_is_shown_ran(open_page: Open, seen: Seen, page: str, asked: dict[str, str]) -> None:
    check_visit(open_page, seen, page, asked, model="writer")
