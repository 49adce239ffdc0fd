"""Decoding shows the lines of the strategy and of the part that is open."""

import pytest
from seen_lines import Open, Seen, check_visit, name, parts_of

VISITS = [
    *parts_of("decoding", "start"),
    *(
        ("decoding", {"part": part, "strategy": strategy})
        for part, strategy in (
            ("pass", "beam-2-0.6"),
            ("pass", "sample-0.8-40-0.95-1"),
            ("branches", "beam-2-0.6"),
            ("branches", "sample-0.8-40-0.95-1"),
            ("cache", "beam-2-0.6"),
        )
    ),
]


@pytest.mark.parametrize(("page", "asked"), VISITS, ids=name)
def test_what_is_shown_ran(open_page: Open, seen: Seen, page: str, asked: dict[str, str]) -> None:
    check_visit(open_page, seen, page, asked)
