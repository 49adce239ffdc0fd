"""The shipped tasks: each can be solved, but by no starter, mistake or hostile program."""

import pytest
from hostile import answers

from explorer import library
from explorer.analysis.cases import BUGS
from explorer.analysis.exercises.grading import by_case, grade
from explorer.analysis.exercises.planted import PlantedError, findings_under, fits, output_under
from explorer.analysis.exercises.tasks import KINDS, Task, read, task_of, tasks
from explorer.exhibits.exercises.answer import flat
from explorer.library import LoadedModel
from explorer.runs.passes import walked
from explorer.runs.trace import Trace, trace
from explorer.text import LANGUAGES

TASKS = pytest.mark.parametrize("task", tasks(), ids=lambda task: task.id)


def test_tasks_of_four_kinds_with_suspects_and_hidden_sizes():
    assert len(tasks()) >= 30
    assert {task.kind for task in tasks()} == set(KINDS)
    assert len({task.id for task in tasks()}) == len(tasks())
    for task in tasks():
        if task.is_check:
            assert len(task.mutants) >= 6
            assert any(each.right for each in task.suspects)
        elif task.is_mask:
            sizes = {(case.queries, case.keys) for case in task.cases[1:]}
            assert len(sizes) >= 3, task.id
            assert any(1 in size for size in sizes), task.id


def leaves(value: object) -> list[object]:
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]


@TASKS
def test_each_task_has_words_a_reference_and_mistakes_that_fail(task):
    for words in (task.name, task.text, task.solution, *(each.words for each in task.suspects)):
        assert set(words) == set(LANGUAGES)
        assert all(words.values())
    assert all(len(set(hints)) == 3 for hints in task.hints.values())
    assert task.bug in ("", *(bug.id for bug in BUGS))
    assert (task.kind == "repairs") == bool(task.bug)
    made = grade(task, task.reference)
    assert made.passed, (made.fault, made.wrong, [each.words["en"] for each in made.let])
    if not task.is_check:
        assert leaves(made.wanted[0]) == pytest.approx(leaves(flat(task)))
    assert not grade(task, task.starter).passed
    assert task.mutants
    if task.is_check:
        return
    for mutant in task.mutants:
        made = grade(task, mutant.code)
        assert not made.passed, mutant.words["en"]
        assert made.mistake is mutant, (mutant.words["en"], made.fault)


CHECKS = [task for task in tasks() if task.is_check]
FEW = {
    (task.kind, task.is_mask, bool(task.cases) and task.cases[0].queries is None): task
    for task in tasks()
}.values()
"""One task of each form: a mask, a matrix of numbers, one call, a check."""


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(task, id=task.id, marks=() if task in FEW else pytest.mark.sweep)
        for task in tasks()
    ],
)
def test_hundreds_of_hostile_answers_are_graded(task):
    for code in answers(task.function):
        assert not grade(task, code).passed, code


@pytest.mark.parametrize("task", CHECKS, ids=lambda task: task.id)
def test_a_program_that_counts_its_calls_passes_no_check(task):
    """It knows the suspects in the order of the file, and answers by heart."""
    right = [each.right for each in task.suspects]
    code = f"n = -1\ndef {task.function}(s):\n    global n\n    n += 1\n    return {right}[n]"
    assert len(grade(task, code).let) > 1


TABLE = """
[[task]]
id = "mine"
function = "f"
formula = "x"
starter = "def f(q, k):\\n    return False"
reference = "def f(q, k):\\n    return True"
shown = { queries = 1, keys = 1 }
wanted = ["#"]
suspects = []
[task.en]
name = "Mine"
text = "A teacher's own."
hints = ["a", "b", "c"]
solution = "True."
[task.zh]
name = "我的"
text = "教师自己的。"
hints = ["甲", "乙", "丙"]
solution = "真。"
"""


def test_a_teachers_table_is_a_task_and_values_are_cut_by_case(tmp_path):
    (tmp_path / "masks.toml").write_text(TABLE, encoding="utf-8")
    (task,) = read(tmp_path / "masks.toml", "masks")
    assert task.signature == "def f(q, k):"
    assert grade(task, task.reference).passed
    assert not grade(task, task.starter).passed
    task = task_of("causal")
    values = [True] * sum(case.n_values for case in task.cases)
    assert [len(row) for row in by_case(task, values)] == [36, 1, 4, 25, 81, 289]
    with pytest.raises(ValueError, match="435 values for cases of 436"):
        by_case(task, values[1:])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('id = "mine"\n', 'id = "mine"\nlevel = 3\n', r"masks\.toml, task mine: .* 'level'"),
        ('formula = "x"\n', "", r"task mine: .* missing .* 'formula'"),
        ('"a", "b", "c"', '"a"', r"task mine: each language needs three hints"),
        ("queries = 1, ", "", r"task mine: a case has queries and keys, or neither"),
        ("queries = 1", "queries = 9999", r"at most 64 queries and keys"),
        ('wanted = ["#"]\n', "", r"needs shown and wanted"),
        ('function = "f"', 'function = "g"', r"the reference does not define g"),
        ('function = "f"', 'function = "f"\nplanted = "moon"', r"planted is 'moon'"),
    ],
)
def test_what_a_teacher_forgot_is_named(tmp_path, old, new, said):
    assert old in TABLE
    (tmp_path / "masks.toml").write_text(TABLE.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        list(read(tmp_path / "masks.toml", "masks"))


# A visitor's mask in the shipped translator: what it breaks, and what is then written.
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
    return [
        each.name for each in walked(findings_under(task, code, *translator)) if not each.passed
    ]


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
        assert not walked(output_under(task, task.reference, *translator)).changed
    task = tasks()[0]
    upside_down = task.mutants[0].code
    assert {"future_leak", "future_mass"} <= set(broken(task, upside_down, translator))
    found = walked(output_under(task, upside_down, *translator))
    assert found.loss_after > found.loss_before + 1


def test_programs_that_fail_or_belong_nowhere_are_refused(translator):
    code = "def may_attend(q, k):\n    return k <= q if q < 8 else 1 // 0"
    with pytest.raises(PlantedError) as raised:
        walked(
            output_under(tasks()[0], "def may_attend(q, k):\n    return 1 // 0 == k", *translator)
        )
    assert raised.value.args[0].error == "ZeroDivisionError"
    with pytest.raises(PlantedError):
        walked(findings_under(tasks()[0], code, *translator))
    loaded, traced = translator
    alibi = next(task for task in tasks() if task.id == "alibi")
    assert not fits(alibi, loaded)
    with pytest.raises(ValueError, match="alibi has no place in twin-right"):
        walked(findings_under(alibi, alibi.reference, loaded, traced))
