"""A visitor's mask in the shipped translator: what it breaks, and what is then written."""

import pytest

from explorer import library
from explorer.analysis.exercises.planted import PlantedError, examined, fits, written
from explorer.analysis.exercises.tasks import Task, tasks
from explorer.engine.jobs import walked
from explorer.library import LoadedModel
from explorer.runs.trace import Trace, trace

CORE = ("causal", "prefix")
MASKS = [
    pytest.param(task, id=task.id, marks=[] if task.id in CORE else [pytest.mark.sweep])
    for task in tasks()
    if task.planted
]


@pytest.fixture(scope="module")
def translator() -> tuple[LoadedModel, Trace]:
    loaded = library.open_model("twin-right")
    return loaded, trace(loaded, "I love you.")


def broken(task: Task, code: str, translator: tuple[LoadedModel, Trace]) -> list[str]:
    return [each.name for each in walked(examined(task, code, *translator)) if not each.passed]


@pytest.mark.parametrize("task", MASKS)
def test_a_right_mask_keeps_what_its_rule_allows(task, translator):
    """A window hides real tokens, so no key is found far back. What opens the first keys opens PADs
    on the left in their place, and a prefix is meant to be read before its time.
    """
    expected = {
        "window": ["open_cells", "needle"],
        "sinks": ["padding_left", "open_cells"],
        "prefix": ["future_leak", "future_mass", "padding_left", "cache", "prefix"],
    }
    assert broken(task, task.reference, translator) == expected.get(task.id, [])


def test_wrong_masks_change_what_is_written_and_its_own_do_not(translator):
    for name in ("causal", "both", "cross"):
        task = next(each for each in tasks() if each.id == name)
        assert not walked(written(task, task.reference, *translator)).changed
    task = tasks()[0]
    upside_down = task.mutants[0].code
    assert {"future_leak", "future_mass"} <= set(broken(task, upside_down, translator))
    found = walked(written(task, upside_down, *translator))
    assert found.loss_after > found.loss_before + 1


def test_programs_that_fail_or_belong_nowhere_are_refused(translator):
    code = "def may_attend(q, k):\n    return k <= q if q < 8 else 1 // 0"
    with pytest.raises(PlantedError) as raised:
        walked(written(tasks()[0], "def may_attend(q, k):\n    return 1 // 0 == k", *translator))
    assert raised.value.args[0].error == "ZeroDivisionError"
    with pytest.raises(PlantedError):
        walked(examined(tasks()[0], code, *translator))
    loaded, traced = translator
    alibi = next(task for task in tasks() if task.id == "alibi")
    assert not fits(alibi, loaded)
    with pytest.raises(ValueError, match="alibi has no place in twin-right"):
        walked(examined(alibi, alibi.reference, loaded, traced))
