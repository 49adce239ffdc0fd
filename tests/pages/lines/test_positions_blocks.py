"""Positions, Blocks and Model show the lines of the part that is open."""

import pytest
from seen_lines import Open, Seen, check_visit, name, parts_of

VISITS = [
    *parts_of("positions", "blocks", "machine"),
    *(("blocks", {"part": "norms", "norm": norm}) for norm in ("rmsnorm", "batchnorm")),
    *(
        ("positions", {"part": "head", "change": change})
        for change in ("shift-3", "swap-1-2", "reverse", "remove")
    ),
]


@pytest.mark.parametrize(("page", "asked"), VISITS, ids=name)
def test_what_is_shown_ran(open_page: Open, seen: Seen, page: str, asked: dict[str, str]) -> None:
    check_visit(open_page, seen, page, asked)
