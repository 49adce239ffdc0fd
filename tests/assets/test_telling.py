"""What a page offers for its lesson, by shipped models: there the lesson shows. The twins: what
training without the causal mask gains, and what it costs."""

import tomllib

import pytest

from explorer.analysis.positions.order import four_texts
from explorer.engine.jobs import walked
from explorer.exhibits.decoding.choices import DecodingChoices
from explorer.exhibits.masks.twins import CHEAT, LONGEST, RIGHT, twins
from explorer.exhibits.positions.choices import PositionsChoices
from explorer.library import open_model
from explorer.runs.generation import generate
from explorer.runs.trace import trace
from explorer.text import telling
from models.strategies import Greedy
from models.training.home import asset
from models.training.recipe import read_recipe

TELLING = tomllib.loads(asset("lessons", "telling.toml").read_text(encoding="utf-8"))


def offered(lesson: str) -> list[tuple[str, str]]:
    return list(TELLING[lesson].items())


def test_every_lesson_here_is_tested_and_others_have_none() -> None:
    assert set(TELLING) == {"shuffle", "beam", "twins"}
    assert telling("beam", "somebody-elses") is None


@pytest.mark.parametrize(("model", "sentence"), offered("shuffle"))
def test_shuffled_it_is_written_otherwise(model: str, sentence: str) -> None:
    shuffle = PositionsChoices().shuffle or 1
    texts = walked(four_texts(open_model(model), sentence, shuffle))
    assert texts.in_order != texts.shuffled


@pytest.mark.parametrize(("model", "sentence"), offered("beam"))
def test_a_beam_ends_elsewhere_than_greedy_decoding(model: str, sentence: str) -> None:
    made, loaded = DecodingChoices(), open_model(model)
    beam, greedy = (
        generate(loaded, sentence, strategy, made.limit).text for strategy in (made.beam, Greedy())
    )
    assert beam != greedy


@pytest.mark.parametrize(("model", "sentence"), offered("twins"))
def test_the_right_twin_translates_it_and_the_other_does_not(model: str, sentence: str) -> None:
    assert len(sentence) <= LONGEST == read_recipe("twin-right", []).data.longest
    assert trace(open_model("twin-right"), sentence).output == "汤姆不在这里。"
    assert model.startswith(("en-", "twin-"))


@pytest.mark.parametrize("text", ["I like dogs.", "He is a teacher."])
def test_the_cheat_reads_better_and_writes_worse(text: str) -> None:
    right, cheat = twins(open_model(RIGHT), open_model(CHEAT), text)
    assert cheat.loss < 0.1 < right.loss
    assert len(right.writes) > 2
    assert len(cheat.writes) < len(right.writes)


def test_the_deep_twin_with_post_norm_has_learned() -> None:
    """It is shown beside the other placements; with their schedule it repeats one word."""
    loaded = open_model("twin-deep-post")
    assert trace(loaded, "Tom is not here.").output == "汤姆不在这里。"
    assert trace(loaded, "I love you.").output != trace(loaded, "She likes dogs.").output
