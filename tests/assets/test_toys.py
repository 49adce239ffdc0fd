"""The toy models solve their task, and their attention shows how: the right answer is known."""

import numpy as np
import pytest

from explorer.library import open_model
from explorer.runs.trace import Trace, trace
from models.training.tasks import Task, solve

# No letter twice, so that each row has one right place to look at.
ROWS = ("c a b", "h e a d l i g", "t s r q p o n m", "k b f a r j c", "d o g")
SHARE = {"copy": 0.85, "reverse": 0.65, "sort": 0.7}  # on the right cell; evenly spread: 0.2


def right_cell(task: Task, letters: list[str], row: int) -> int:
    """Where the row that writes the row-th letter should look."""
    places = {
        "copy": row,
        "reverse": len(letters) - 1 - row,
        "sort": letters.index(solve("sort", tuple(letters))[row]),
    }
    return places[task]


def best_head(task: Task, traces: list[Trace]) -> tuple[float, str]:
    """The largest mean weight on the right cells, of all cross-attention heads."""
    found = []
    for site in (site for site in traces[0].sites if site.kind == "cross"):
        for head in range(site.n_heads):
            weights = [
                traced.pattern(site.name)[head, row, right_cell(task, letters, row)]
                for traced in traces
                for letters in [traced.text.split()]
                for row in range(len(letters))
            ]
            found.append((float(np.mean(weights)), f"{site.name} head {head}"))
    return max(found)


@pytest.mark.parametrize("task", ["copy", "reverse", "sort"])
def test_a_toy_model_is_right_and_a_head_looks_where_it_must(task: Task) -> None:
    model = open_model(task)
    traces = [trace(model, row) for row in ROWS]
    for traced in traces:
        assert traced.output == " ".join(solve(task, tuple(traced.text.split())))
    share, name = best_head(task, traces)
    assert share > SHARE[task], name
    wrong: Task = "reverse" if task == "copy" else "copy"
    assert best_head(wrong, traces)[0] < share - 0.2
