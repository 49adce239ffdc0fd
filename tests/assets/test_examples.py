"""What the shipped models make of the sentences that the app offers."""

import tomllib
from pathlib import Path

import pytest

from explorer.library import open_model
from explorer.runs.generation import generate
from explorer.runs.trace import trace
from explorer.text import examples
from models.strategies import Beam, Greedy
from models.training.evaluate import translate
from models.training.tasks import Task, solve

GOOD: dict[str, dict[str, list[str]]] = tomllib.loads(
    (Path(__file__).parent / "translations.toml").read_text(encoding="utf-8")
)
TASKS: tuple[Task, ...] = ("copy", "reverse", "sort")


def offered(model: str) -> list[str]:
    return [sentence for group in examples(model).values() for sentence in group]


@pytest.mark.parametrize("model", GOOD)
def test_each_example_is_translated_or_filled_in_well(model: str) -> None:
    assert set(GOOD[model]) == set(offered(model)), "an example without a list, or a list without"
    loaded = open_model(model)
    for sentence, good in GOOD[model].items():
        if loaded.config.reads_source:
            assert trace(loaded, sentence).output in good, sentence
        else:
            assert generate(loaded, sentence, Greedy()).text in good, sentence


@pytest.mark.parametrize("task", TASKS)
def test_each_row_of_letters_is_solved(task: Task) -> None:
    loaded = open_model(task)
    for row in offered(task):
        assert trace(loaded, row).output.split() == list(solve(task, tuple(row.split())))


def test_in_the_shell_a_beam_of_one_decodes_as_the_app_does() -> None:
    loaded, sentences = open_model("en-zh"), offered("en-zh")
    shell = translate(loaded.model, loaded.tokenizer, sentences, Beam(width=1))
    assert list(shell) == [trace(loaded, sentence).output for sentence in sentences]
