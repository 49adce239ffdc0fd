"""Toy tasks and rows: what they are by hand, and what a recipe may ask for."""

from pathlib import Path

import pytest

from models.training.corpus import DataConfig, make_rows, read_rows
from models.training.tasks import Task, solve, task_pairs


@pytest.mark.parametrize(
    ("task", "expected"),
    [("copy", ("c", "a", "b")), ("reverse", ("b", "a", "c")), ("sort", ("a", "b", "c"))],
)
def test_tasks_by_hand(task: Task, expected: tuple[str, ...]) -> None:
    assert solve(task, ("c", "a", "b")) == expected
    [(question, answer)] = task_pairs(task, 1, (3, 3), 3, seed=1)
    assert tuple(answer.split()) == solve(task, tuple(question.split()))


def test_pairs_differ_repeat_with_their_seed_and_keep_to_their_sizes() -> None:
    pairs = task_pairs("copy", 300, (2, 4), 6, seed=4)
    assert len({question for question, _ in pairs}) == 300
    assert {len(question.split()) for question, _ in pairs} == {2, 3, 4}
    assert {symbol for question, _ in pairs for symbol in question.split()} == set("abcdef")
    assert pairs == task_pairs("copy", 300, (2, 4), 6, seed=4)
    assert pairs != task_pairs("copy", 300, (2, 4), 6, seed=5)


def test_more_questions_than_there_are_get_refused() -> None:
    with pytest.raises(ValueError, match="only 4 exist"):
        task_pairs("copy", 3, (2, 2), 2, seed=0)


def test_rows_to_choose_by_are_not_trained_on() -> None:
    config = DataConfig(task="sort", examples=80, valid_examples=20, lengths=(2, 3), symbols=10)
    rows, valid = make_rows(config, paired=True, seed=3)
    assert (len(rows), len(valid)) == (80, 20)
    assert not set(rows) & set(valid)


def test_a_language_models_question_and_answer_are_one_row() -> None:
    config = DataConfig(task="reverse", examples=5, valid_examples=1, lengths=(3, 3), symbols=9)
    for row in make_rows(config, paired=False, seed=3)[0]:
        assert isinstance(row, str)
        question, answer = row.split(" = ")
        assert answer == question[::-1]


def test_a_file_is_read_as_the_recipe_says(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("one\t一\nsomething long\t二\ntwo\t一二三四五\n", encoding="utf-8")
    assert read_rows(path, DataConfig(longest=4), paired=True) == [("one", "一")]
    turned = read_rows(path, DataConfig(reverse=True), paired=True)
    assert turned[1] == ("二", "something long")
    with pytest.raises(ValueError, match="no text that this recipe uses"):
        read_rows(path, DataConfig(longest=2), paired=True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task", "shuffle"),
        ("symbols", 1),
        ("lengths", (0, 3)),
        ("lengths", (4, 3)),
        ("lengths", (4,)),
        ("longest", 0),
    ],
)
def test_impossible_settings_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        DataConfig(**{field: value})  # type: ignore[arg-type]


def test_rows_cannot_be_made_without_a_task() -> None:
    with pytest.raises(ValueError, match="no task"):
        make_rows(DataConfig(), paired=True, seed=1)
