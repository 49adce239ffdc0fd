"""Heads and Masks show the lines that ran for what is open there."""

import pytest
from seen_lines import BESIDE, Open, Seen, check_visit, name, parts_of

VISITS = [
    *parts_of("heads", "masks", "certificate"),
    *(("heads", {"measure": name}) for name in ("entropy", "needed")),
    *(("heads", {"instead": name}) for name in ("mean-1", "rollout", "flow")),
    ("heads", {"beside": BESIDE}),
    ("heads", {"with": "writer", "site": "encoder"}),
    *(
        ("masks", {"edits": edits, "pads": pads})
        for edits, pads in (("", "0"), ("causal-off", "3"), ("window-2", "0"), ("prefix-2", "3"))
    ),
    ("masks", {"beside": BESIDE, "picture": "scores"}),
]


@pytest.mark.parametrize(("page", "asked"), VISITS, ids=name)
def test_what_is_shown_ran(open_page: Open, seen: Seen, page: str, asked: dict[str, str]) -> None:
    check_visit(open_page, seen, page, asked)
