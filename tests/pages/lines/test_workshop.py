"""The workshop shows the lines that judged a program: one task of each kind."""

import pytest
from seen_lines import Open, Seen, check_visit, name

from explorer.analysis.workshop.tasks import KINDS, tasks

VISITS = [
    ("workshop", {"task": next(task.id for task in tasks() if task.kind == kind)}) for kind in KINDS
]


@pytest.mark.parametrize(("page", "asked"), VISITS, ids=name)
def test_what_is_shown_ran(open_page: Open, seen: Seen, page: str, asked: dict[str, str]) -> None:
    check_visit(open_page, seen, page, asked)
