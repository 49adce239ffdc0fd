"""The page of models: what was found, why something cannot be opened, and how one is opened."""

import os
import re
from pathlib import Path

import pytest
from foreign import Golden
from shown import models_page, words_of

from explorer.exhibits.escape import plain
from explorer.exhibits.saying import message
from explorer.problems import InputProblem
from explorer.text import LANGUAGES
from explorer.ui import session
from models.foreign.finding import VARIABLE
from models.refusals import Refusal


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    Golden.load("llama").write(tmp_path / "mine", "own")
    broken = Golden.load("gpt2").write(tmp_path / "pickled")
    (broken / "model.safetensors").rename(broken / "pytorch_model.bin")
    odd = Golden.load("gpt2").write(tmp_path / "odd")
    (odd / "config.json").write_text('{"model_type": "<b>:red[a]"}')
    return tmp_path


@pytest.mark.parametrize(
    ("button", "page", "link"),
    [
        ("card.mine", "card", {"model": "mine"}),
        ("open.mine", "heads", {"model": "mine"}),
        ("compare.mine", "heads", {"model": "writer", "with": "mine"}),
    ],
)
def test_a_button_opens_a_model_its_card_or_one_beside_the_open_one(
    own, monkeypatch, button, page, link
):
    visited: list[str] = []
    monkeypatch.setattr(session, "visit", visited.append)
    at = models_page(lang="en", model="writer")
    assert "shelf.compare.writer" not in {each.key for each in at.button}
    at.button(key=f"shelf.{button}").click().run()
    assert visited == [page]
    assert {name: at.query_params[name] for name in link} == link


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_was_found_and_what_to_do(own, lang):
    at = models_page(lang=lang)
    said = [words_of(each) for each in at.markdown]
    assert "**mine**" in said
    assert "**pickled**" in said
    assert any("pickle" in each.value for each in at.error)
    never = {"en": "never", "zh": "从不"}[lang]
    assert any(never in each.value for each in at.error), "the reason is in the reader's language"
    assert not any("<b>" in each.value or ":red[" in each.value for each in at.error)
    assert any("<b>:red[a]" in plain(each.value) for each in at.error)
    assert any("weights_only=True" in each.value for each in at.code)
    assert {each.key for each in at.button} >= {"shelf.open.mine", "shelf.open.en-zh"}
    assert "shelf.open.pickled" not in {each.key for each in at.button}


def test_a_folder_that_is_not_there_is_named(own, monkeypatch):
    monkeypatch.setenv(VARIABLE, f"{own}{os.pathsep}{own / 'private' / 'gone'}")
    (said,) = (each.value for each in models_page().warning)
    assert "gone" in said
    assert "private" not in said


def test_a_tokenizer_of_few_tokens_is_said_beside_the_name(own):
    folder = Golden.load("gpt2").write(own / "large", "own")
    theirs = Golden.load("bert").write(own / "other", "own")
    (theirs / "tokenizer.json").replace(folder / "tokenizer.json")
    at = models_page(lang="en", model="large")
    said = "The tokenizer has 97 tokens, but the model has 260"
    assert sum(said in each.value for each in at.main.warning) == 1
    assert sum(said in each.value for each in at.sidebar.warning) == 1
    assert not models_page(lang="en", model="mine").sidebar.warning


def test_it_stands_where_the_model_of_the_link_is_missing(own):
    at = models_page(model="gone")
    assert "**mine**" in [words_of(each) for each in at.markdown]


def test_without_a_folder_it_says_how_to_name_one(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    at = models_page()
    assert any(VARIABLE in each.value for each in at.info)


def test_names_out_of_a_strangers_files_are_shown_and_never_obeyed(tmp_path):
    """Of a tensor, a family and a folder, on this page and in the refusal of every other one."""
    inner = Refusal("lacks", file="w", tensor="<b>:red[a]$x$")
    refused = Refusal("within", file="**folder**", reason=inner)
    problem = InputProblem("broken_model", name="mine", reason=refused)
    for lang in LANGUAGES:
        said = message(problem, lang)
        assert not re.search(r"<b>|:red\[|\$x\$|\*\*", said)
        assert "<b>:red[a]$x$" in plain(said)
