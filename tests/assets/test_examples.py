"""What the shipped models make of the sentences that the app offers; and the toy models, whose
attention shows how, since the right answer is known."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from explorer.library import open_model
from explorer.runs.generation import generate
from explorer.runs.trace import Trace, trace
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
    if loaded.config.reads_source:
        written = translate(loaded.model, loaded.tokenizer, list(GOOD[model]), Beam(width=1))
    else:
        written = [generate(loaded, sentence, Greedy()).text for sentence in GOOD[model]]
    wrong = {
        sentence: text
        for (sentence, good), text in zip(GOOD[model].items(), written, strict=True)
        if text not in good
    }
    assert not wrong


def test_in_the_shell_a_beam_of_one_decodes_as_the_app_does() -> None:
    loaded, sentences = open_model("en-zh"), offered("en-zh")[::6]
    shell = translate(loaded.model, loaded.tokenizer, sentences, Beam(width=1))
    assert list(shell) == [trace(loaded, sentence).output for sentence in sentences]


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


@pytest.mark.parametrize("task", TASKS)
def test_a_toy_model_is_right_and_a_head_looks_where_it_must(task: Task) -> None:
    model = open_model(task)
    traces = [trace(model, row) for row in ROWS]
    for traced in (*traces, *(trace(model, row) for row in offered(task))):
        assert traced.output == " ".join(solve(task, tuple(traced.text.split())))
    share, name = best_head(task, traces)
    assert share > SHARE[task], name
    wrong: Task = "reverse" if task == "copy" else "copy"
    assert best_head(wrong, traces)[0] < share - 0.2
