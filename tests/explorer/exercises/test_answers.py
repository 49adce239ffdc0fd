"""What hostile programs give instead of an answer: graded like any other, and never right."""

import pytest
from hostile import answers

from explorer.analysis.exercises.grading import grade
from explorer.analysis.exercises.tasks import Task, tasks

CHECKS = [task for task in tasks() if task.is_check]
FEW = {
    (task.kind, task.is_mask, bool(task.cases) and task.cases[0].queries is None): task
    for task in tasks()
}.values()
"""One task of each form: a mask, a matrix of numbers, one call, a check."""


def check(task: Task) -> None:
    for code in answers(task.function):
        assert not grade(task, code).passed, code


@pytest.mark.parametrize("task", FEW, ids=lambda task: task.id)
def test_hundreds_of_hostile_answers_are_graded(task: Task) -> None:
    check(task)


@pytest.mark.sweep
@pytest.mark.parametrize("task", tasks(), ids=lambda task: task.id)
def test_they_are_at_every_task(task: Task) -> None:
    check(task)


@pytest.mark.parametrize("task", CHECKS, ids=lambda task: task.id)
def test_a_program_that_counts_its_calls_passes_no_check(task: Task) -> None:
    """It knows the suspects in the order of the file, and answers by heart."""
    right = [each.right for each in task.suspects]
    code = f"n = -1\ndef {task.function}(s):\n    global n\n    n += 1\n    return {right}[n]"
    assert len(grade(task, code).let) > 1
