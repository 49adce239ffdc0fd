"""Tokenizers of learners, which cannot encode every text: said in words, and the app goes on."""

from collections.abc import Callable

import pytest
import tokenizers
from foreign import Golden
from shown import words_of
from tokenizers import decoders, models, pre_tokenizers

from explorer.text import LANGUAGES, t
from models.foreign.finding import VARIABLE

REST = [(f"<{number}>", -9.0) for number in range(40)]
"""Most of a vocabulary of 61 tokens: the app says where a tokenizer has few."""


def without_unknown() -> tokenizers.Tokenizer:
    """A Unigram model whose unknown token is null: the library fails on any other letter."""
    pieces = [*REST, ("▁the", -1.0), ("▁", -2.0), *((letter, -3.0) for letter in "thecafs")]
    raw = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=None))
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    raw.decoder = decoders.Metaspace()
    return raw


def dropping() -> tokenizers.Tokenizer:
    """A BPE model without an unknown token: the library leaves out any other letter."""
    vocabulary = {piece: i for i, piece in enumerate([*dict(REST), *"thecas"])}
    raw = tokenizers.Tokenizer(models.BPE(vocabulary, []))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    return raw


@pytest.fixture
def model(tmp_path, monkeypatch) -> Callable[..., str]:
    def made(raw: tokenizers.Tokenizer) -> str:
        name = type(raw.model).__name__  # what is computed is kept by a model's name
        folder = Golden.load("gpt2").write(tmp_path / name)
        raw.save(str(folder / "tokenizer.json"))
        monkeypatch.setenv(VARIABLE, str(tmp_path))
        return name

    return made


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_text_that_the_tokenizer_fails_on_is_refused_and_the_menu_stays(open_page, model, lang):
    at = open_page("heads", model=model(without_unknown()), text="the café", lang=lang)
    (said,) = [str(each.value) for each in at.warning]
    assert "é" in said
    assert said.startswith(t("problems.no_tokens", lang=lang, reason="")[:6])
    assert "Unigram" in at.selectbox(key="sidebar.model").options
    at.text_area(key="sidebar.text").set_value("the cat").run()
    assert not at.warning


@pytest.mark.parametrize(
    "page", ["tour", "circuits", "attribution", "decoding", "mask_tests", "card"]
)
def test_every_page_survives_a_tokenizer_that_fails_on_all_examples(open_page, model, page):
    at = open_page(page, model=model(without_unknown()), text="the cat")
    assert [str(each.value) for each in at.error] == []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_dropped_letters_are_named(open_page, model, lang):
    at = open_page("heads", model=model(dropping()), text="the dog sat", lang=lang)
    assert not at.warning
    said = [words_of(each) for each in at.caption]
    assert t("place.dropped", lang=lang, characters="d o g") in said
