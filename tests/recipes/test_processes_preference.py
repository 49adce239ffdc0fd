"""Two processes of `torchrun` on texts, by preference. They take seconds: one case a file."""

from pathlib import Path

import pytest
from two_processes import check_two_processes

RECIPE = """
[data]
judged = "@/judged.jsonl"
[objectives.preference]
weight = 0.5
"""


@pytest.mark.sweep  # that of pairs is in `make test`: each starts two processes
def test_two_processes_have_the_loss_curve_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_two_processes(tmp_path, capsys, RECIPE, "decoder-only")
