"""Two processes of `torchrun` on pairs of a toy task. They take seconds: one case a file."""

from pathlib import Path

import pytest
from two_processes import check_two_processes

RECIPE = """
[data]
task = "reverse"
examples = 60
valid_examples = 20
lengths = [2, 6]
symbols = 8
"""


@pytest.mark.sweep
def test_two_processes_have_the_loss_curve_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_two_processes(tmp_path, capsys, RECIPE, "encoder-decoder")
