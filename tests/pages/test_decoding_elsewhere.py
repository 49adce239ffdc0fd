"""Decoding as a model is decoded elsewhere: its own rules, and the beam of `transformers`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from foreign import Golden
from shown import words_of, written
from streamlit.testing.v1 import AppTest

from explorer.text import LANGUAGES, t
from models.foreign.finding import VARIABLE

Open = Callable[..., AppTest]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_rules_of_its_folder_are_applied_or_named(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str
) -> None:
    folder = Golden.load("gpt2").write(tmp_path / "ruled", "own")
    said = {"min_new_tokens": 4, "encoder_repetition_penalty": 1.5, "top_p": 0.9}
    (folder / "generation_config.json").write_text(json.dumps(said))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    at = open_page("decoding", model="ruled", text="the park", limit="9", lang=lang)
    assert not at.exception
    assert len(written(at)) > 4
    captions = [words_of(each) for each in at.caption]
    for key, setting in (
        ("asked_ignored", "encoder_repetition_penalty"),
        ("asked_chosen", "top_p"),
    ):
        begun = t(f"decoding.{key}", lang=lang, settings="\0").partition("\0")[0]
        assert any(each.startswith(begun) and setting.split("_")[0] in each for each in captions)
    at.toggle(key="decoding.ruled").set_value(False).run()
    assert not at.exception
    assert len(written(at)) == 1, "by itself this model ends at once"


def test_the_other_beam_rule_is_a_choice_and_is_compared(open_page: Open) -> None:
    at = open_page("decoding", strategy="beam-3-1")
    assert not at.exception
    at.selectbox(key="decoding.rule").set_value("early").run()
    assert not at.exception
    assert at.query_params["strategy"] == "beam-3-1-early"
    begun = t("decoding.rules_same", lang="en", rule="narrowing beam").partition("(")[0]
    assert any(words_of(each).startswith(begun) for each in at.caption)
    at.slider(key="decoding.width").set_value(2).run()
    assert at.query_params["strategy"] == "beam-2-1-early"


def test_a_rule_that_is_not_known_is_refused(open_page: Open) -> None:
    at = open_page("decoding", strategy="beam-3-1-sooner")
    assert not at.exception
    assert any("beam-3-1-sooner" in str(each.value).replace("&#45;", "-") for each in at.warning)
