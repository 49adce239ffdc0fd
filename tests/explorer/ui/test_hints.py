"""Which sentences a model can read, and what a sentence in capitals is usually written like."""

from functools import cache

import pytest

from explorer import library, text
from explorer.exhibits.view import default_model, first_sentence
from explorer.library import CHECKPOINTS, list_models
from explorer.ui.hints import can_read, is_shouted, lowered, reading_language

open_model = cache(library.open_model)  # opened once, and only read


@pytest.mark.parametrize(
    ("sentence", "language"),
    [
        ("She reads.", "en"),
        ("她看书。", "zh"),
        ("我喜欢 Tom。", "zh"),
        ("The sign says 北京.", "en"),
        ("123 !?", None),
        ("", None),
    ],
)
def test_the_language_of_a_text_is_that_of_most_of_its_words(sentence, language) -> None:
    assert text.script(sentence) == language


def test_every_shipped_model_reads_its_own_examples_and_has_one_language() -> None:
    reads = {name: reading_language(name) for name in list_models(CHECKPOINTS)}
    assert reads["en-zh"] == reads["stories"] == reads["twin-right"] == "en"
    assert reads["zh-en"] == "zh"
    assert reads["copy"] is reads["sort"] is reads["reader"] is None
    assert reading_language("twin-right@200") == "en"
    assert reading_language("somebody-elses") is None
    for name in ("en-zh", "zh-en", "stories", "masked-en", "copy", "twin-right"):
        assert can_read(open_model(name), first_sentence(name)), name


def test_a_model_cannot_read_another_language_strange_letters_or_a_text_too_long() -> None:
    assert not can_read(open_model("zh-en"), "She reads a book.")
    assert not can_read(open_model("stories"), "她看书。")
    assert not can_read(open_model("copy"), "She reads a book.")
    assert not can_read(open_model("twin-right"), "a book " * 60)
    assert can_read(open_model("stories"), "She reads a book.")


@pytest.mark.parametrize(
    ("shouted", "usual"),
    [
        ("I LOVE YOU.", "I love you."),
        ("“WHERE AM I?”", "“Where am I?”"),
        ("I HAVE NEVER [MASK] TO BOSTON.", "I have never [MASK] to boston."),
    ],
)
def test_capitals_are_noticed_and_lowered(shouted, usual) -> None:
    assert is_shouted(shouted)
    assert lowered(shouted) == usual
    assert not is_shouted(usual)


@pytest.mark.parametrize("sentence", ["I", "USA", "I am here.", "[MASK]", "我爱你。", ""])
def test_one_word_in_capitals_is_no_shouting(sentence) -> None:
    assert not is_shouted(sentence)


def test_each_language_opens_with_its_readers_translator_and_lists_it_first() -> None:
    names = list_models(CHECKPOINTS)
    assert default_model(names, "en") == text.in_order(names, lang="en")[0] == "en-zh"
    assert default_model(names, "zh") == text.in_order(names, lang="zh")[0] == "zh-en"
    assert default_model(()) == "en-zh"
    assert text.in_order(("zzz", "sort", "mine"), lang="en") == ("sort", "mine", "zzz")
    for lang in text.LANGUAGES:
        assert sorted(text.in_order(names, lang=lang)) == sorted(names)
