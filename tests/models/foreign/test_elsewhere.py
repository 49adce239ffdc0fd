"""How a model is run elsewhere: the answers of `transformers`, and what a folder asks for.

The golden answers are written by `benchmarks/elsewhere.py`.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from foreign import GOLDEN, Golden

from models.decoding import best, decode
from models.foreign import open_folder
from models.foreign.elsewhere import GenerationRules, RefillingBeam
from models.foreign.generation import asked_in
from models.marks import Marks
from models.strategies import Greedy
from models.transformer import Model

CASES: list[tuple[str, int, dict[str, Any], list[int], float]] = json.loads(
    (GOLDEN / "elsewhere.json").read_text("utf-8")
)
NAMES = sorted({name for name, *_ in CASES})
CORE = ("gpt2", "marian")
SOURCES = [[4, 9, 33, 12, 8, 1], [50, 21, 7, 7, 19, 40, 1]]  # of benchmarks/elsewhere.py
LIMIT = 12
BEAM = ("num_beams", "length_penalty", "early_stopping")


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> dict[str, Model]:
    """The golden models with the marks that the answers were made with."""
    found = {}
    for name in NAMES:
        model = open_folder(Golden.load(name).write(tmp_path_factory.mktemp(name))).model
        model.marks = Marks(pad=0, start=0 if "src" in model.reads else None, end=1)
        found[name] = model
    return found


def rules_of(settings: dict[str, Any], folder: Path) -> GenerationRules:
    (folder / "generation_config.json").write_text(json.dumps(settings))
    asked = asked_in(folder, {}, 61)
    assert asked.ignored == ()
    return asked.rules


@pytest.mark.parametrize("kind", ["beams", "rules"])
@pytest.mark.parametrize(
    ("name", "every"),
    [(name, 3) for name in CORE]
    + [pytest.param(name, 1, marks=pytest.mark.sweep) for name in NAMES],
)
def test_the_answers_of_transformers(opened, name, every, kind, tmp_path):
    """Of each core model every third case."""
    cases = [case for case in CASES if case[0] == name]
    cases = [case for case in cases if (kind == "beams") == (set(case[2]) == set(BEAM))]
    assert len(cases) >= 30
    for _, at, settings, tokens, score in cases[::every]:
        width = settings.get("num_beams", 1)
        beam = RefillingBeam(
            width, settings.get("length_penalty", 1.0), settings.get("early_stopping", False)
        )
        rules = rules_of({k: v for k, v in settings.items() if k not in BEAM}, tmp_path)
        strategy = beam if width > 1 else Padding()
        source = torch.tensor([SOURCES[at]])
        (found,) = best(decode(opened[name], source, strategy, LIMIT, rules=rules))
        assert list(found.tokens) == tokens[: len(found.tokens)], settings
        assert set(tokens[len(found.tokens) :]) <= {0}, settings  # the rest is padding
        if width > 1:
            assert found.score == pytest.approx(score, abs=2e-5), settings


class Padding(Greedy):
    """Greedy, where padding is a token like any other, as elsewhere."""

    may_pad = True


def test_each_rule_by_hand():
    scores = torch.tensor([[2.0, -1.0, 1.0, 0.0]])
    row = torch.tensor([[3, 0, 1, 0]])

    def ruled(prompt: int = 1, limit: int = 9, **fields: Any) -> list[float]:
        return GenerationRules(**fields).applied(scores, row, prompt, limit, (3,))[0].tolist()

    low = -math.inf
    assert ruled(repetition_penalty=2.0) == [1.0, -2.0, 1.0, 0.0]
    assert ruled(no_ngram=2) == [2.0, low, 1.0, 0.0], "0 1 is there"
    assert ruled(no_ngram=1) == [low, low, 1.0, low]
    assert ruled(forbidden=((2,), (0, 3), (1, 1))) == [2.0, -1.0, low, low]
    assert ruled(never=(0,)) == [low, -1.0, 1.0, 0.0]
    assert ruled(prompt=4, not_first=(0,)) == [low, -1.0, 1.0, 0.0]
    assert ruled(prompt=3, not_first=(0,)) == scores[0].tolist()
    assert ruled(forced_last=2, limit=4) == [low, low, 0.0, low]
    assert ruled(min_new_tokens=4) == [2.0, -1.0, 1.0, low]
    assert ruled(forced_first=2) == scores[0].tolist(), "it is not the first any more"
    assert ruled(never=(0, 1, 2, 3)) == scores[0].tolist(), "something has to follow"
    assert not GenerationRules()


def test_what_a_folder_asks_for_is_applied_or_named(tmp_path):
    said = {
        "repetition_penalty": 1.3,
        "forced_eos_token_id": 0,
        "num_beams": 4,
        "temperature": 0.6,
        "top_k": 50,
        "max_length": 200,
        "encoder_repetition_penalty": 1.5,
        "something_new": [1, 2],
        "suppress_tokens": [10**6],
        "bad_words_ids": None,
    }
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    asked = asked_in(tmp_path, {}, 61)
    assert asked.rules == GenerationRules(repetition_penalty=1.3, forced_last=0)
    assert asked.applied == ("repetition_penalty = 1.3", "forced_eos_token_id = 0")
    assert asked.chosen == ("num_beams = 4", "temperature = 0.6")
    assert asked.ignored == (
        "encoder_repetition_penalty = 1.5",
        "something_new = [1, 2]",
        "suppress_tokens = [1000000]",
    )
    (tmp_path / "generation_config.json").unlink()
    older = asked_in(tmp_path, {"bad_words_ids": [[59]], "num_beams": 6, "d_model": 3}, 61)
    assert older.rules == GenerationRules(forbidden=((59,),))
    assert older.chosen == ("num_beams = 6",)
