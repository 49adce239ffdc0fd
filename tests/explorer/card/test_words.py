"""A card as its author left it in the folder: which file is read, and what of its front matter."""

from pathlib import Path

import pytest

from explorer.analysis.card.words import MOST_CHARS, card_words, front_matter

FRONT = """---
license: other
license_name: "my-licence"
language:
- en
- zh
tags: [a, 'b']
---
# Title
"""


def test_the_card_in_the_visitors_language_comes_first(tmp_path: Path) -> None:
    (tmp_path / "CARD.md").write_text("The card.", encoding="utf-8")
    (tmp_path / "CARD.zh.md").write_text("说明卡。", encoding="utf-8")
    (tmp_path / "README.md").write_text("Not this.", encoding="utf-8")
    found = [card_words(tmp_path, lang) for lang in ("en", "zh")]
    assert [(each.markdown, each.lang) for each in found] == [
        ("The card.", "en"),
        ("说明卡。", "zh"),
    ]


@pytest.mark.parametrize("name", ["README.zh.md", "README_zh.md", "CARD_zh.md"])
def test_other_libraries_name_it_otherwise(tmp_path: Path, name: str) -> None:
    (tmp_path / "README.md").write_text("The card.", encoding="utf-8")
    (tmp_path / name).write_text("说明卡。", encoding="utf-8")
    assert card_words(tmp_path, "zh").markdown == "说明卡。"
    assert card_words(tmp_path, "en").markdown == "The card."


def test_a_card_in_one_language_says_which(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("这是一张只有中文的说明卡。", encoding="utf-8")
    assert card_words(tmp_path, "en").lang == "zh"
    (tmp_path / "README.md").write_text("42", encoding="utf-8")
    assert card_words(tmp_path, "en").lang is None


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_without_words_there_is_no_card(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "CARD.md").write_text(content, encoding="utf-8")
    found = card_words(tmp_path, "zh")
    assert (found.markdown.strip(), found.lang, found.licence, found.languages) == (
        "",
        None,
        "",
        (),
    )
    assert not found.is_cut


def test_licence_and_languages_are_those_of_the_front_matter(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(FRONT, encoding="utf-8")
    found = card_words(tmp_path, "en")
    assert (found.licence, found.languages) == ("my-licence", ("en", "zh"))
    assert found.markdown == "# Title\n"


@pytest.mark.parametrize(
    ("text", "values", "words"),
    [
        ("---\nlicense: mit\n---\na", {"license": ["mit"]}, "a"),
        ("---\nlanguage: [en, 'zh']\n...\na", {"language": ["en", "zh"]}, "a"),
        ("---\n- a\n: b\n{{{\n\tlicense: mit\n---\nc", {}, "c"),
        ("---\nlanguage:\n  - en\n  nothing\n---\n", {"language": ["en"]}, ""),
        ("---\nlicense: mit\nnever closed", {}, "---\nlicense: mit\nnever closed"),
        ("words\n---\nlicense: mit\n---\n", {}, "words\n---\nlicense: mit\n---\n"),
        ("---\n---\na", {}, "a"),
        ("", {}, ""),
    ],
)
def test_front_matter_may_be_broken(text: str, values: dict[str, list[str]], words: str) -> None:
    assert front_matter(text) == (values, words)


def test_its_values_are_few_and_short() -> None:
    values, _ = front_matter(f"---\nlicense: {'a' * 999}\nlanguage: [{'en, ' * 99}]\n---\n")
    assert [len(values["license"][0]), len(values["language"])] == [60, 12]


def test_a_long_card_is_cut_and_one_in_another_encoding_read(tmp_path: Path) -> None:
    (tmp_path / "CARD.md").write_bytes(b"\xff\xfea" + b"b" * MOST_CHARS)
    found = card_words(tmp_path, "en")
    assert found.is_cut
    assert found.markdown == "\ufffd\ufffda" + "b" * (MOST_CHARS - 3)
    (tmp_path / "CARD.md").write_bytes("\ufeff你好".encode())
    found = card_words(tmp_path, "en")
    assert (found.markdown, found.is_cut) == ("你好", False)
