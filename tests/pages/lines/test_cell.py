"""One cell shows the lines of the step and the aside that are open."""

import pytest
from seen_lines import Open, Seen, check_visit, name, parts_of

from explorer.exhibits.cell.choices import ASIDES

VISITS = [
    *parts_of("cell"),
    *(("cell", {"aside": aside}) for aside in ASIDES if aside),
    *(("cell", {"stage": str(stage)}) for stage in (2, 5)),
]


@pytest.mark.parametrize(("page", "asked"), VISITS, ids=name)
def test_what_is_shown_ran(open_page: Open, seen: Seen, page: str, asked: dict[str, str]) -> None:
    check_visit(open_page, seen, page, asked)
