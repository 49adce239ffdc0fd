"""A card: what a model tells of itself, and which of its author's files are read and how."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from explorer.analysis.card import MOST_CHARS, card_words, facts, front_matter
from explorer.library import open_model


def test_a_shipped_model():
    found = facts(open_model("masked-en"))
    assert found.kind == "filler"
    assert found.layers == {"encoder": 3}
    assert found.parameters == 880_384
    assert found.dtypes == ("F16",)
    assert found.bytes_stored == pytest.approx(2 * 880_384, rel=0.01)  # and the header
    assert found.marks["mask"] == "<mask>"
    assert set(found.written_in) == {"en"}
    assert found.without_piece == 0


def test_ids_that_the_tokenizer_has_no_token_for_are_counted(tiny):
    loaded = tiny()
    size = loaded.tokenizer.vocab_size
    wider = replace(loaded, config=replace(loaded.config, vocab_size=size + 3))
    assert facts(wider).without_piece == 3


def test_a_file_with_everything_in_it(tiny, tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF" * 25)
    found = facts(replace(tiny(), folder=tmp_path / "m.gguf"))
    assert (found.bytes_stored, found.dtypes) == (100, ("GGUF",))


@pytest.mark.parametrize(
    ("changes", "kind", "layers"),
    [
        ({}, "translator", {"encoder": 3, "decoder": 2}),
        ({"family": "decoder-only"}, "writer", {"decoder": 2}),
        ({"family": "encoder-only", "lm_head": False}, "reader", {"encoder": 2}),
    ],
)
def test_each_family(tiny, tmp_path, changes, kind, layers):
    loaded = replace(tiny(**changes), folder=tmp_path)
    found = facts(loaded)
    assert (found.kind, found.layers) == (kind, layers)
    assert (found.bytes_stored, found.dtypes) == (0, ())
    assert set(found.written_in) == {"en", "zh"}
    assert sum(found.written_in.values()) < loaded.tokenizer.vocab_size


def test_shards_are_added_up_and_a_file_that_is_none_has_no_type(tiny, tmp_path):
    save_file({"a": torch.zeros(4)}, tmp_path / "model-1.safetensors")
    save_file({"b": torch.zeros(4, dtype=torch.bfloat16)}, tmp_path / "model-2.safetensors")
    (tmp_path / "notes.safetensors").write_text("no tensors")
    found = facts(replace(tiny(), folder=tmp_path))
    assert found.dtypes == ("BF16", "F32")
    assert found.bytes_stored == sum(path.stat().st_size for path in tmp_path.iterdir())


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


def test_the_card_in_the_visitors_language_comes_first(tmp_path):
    (tmp_path / "CARD.md").write_text("The card.", encoding="utf-8")
    (tmp_path / "CARD.zh.md").write_text("说明卡。", encoding="utf-8")
    (tmp_path / "README.md").write_text("Not this.", encoding="utf-8")
    found = [card_words(tmp_path, lang) for lang in ("en", "zh")]
    assert [(each.markdown, each.lang) for each in found] == [
        ("The card.", "en"),
        ("说明卡。", "zh"),
    ]


@pytest.mark.parametrize("name", ["README.zh.md", "README_zh.md", "CARD_zh.md"])
def test_other_libraries_name_it_otherwise(tmp_path, name):
    (tmp_path / "README.md").write_text("The card.", encoding="utf-8")
    (tmp_path / name).write_text("说明卡。", encoding="utf-8")
    assert card_words(tmp_path, "zh").markdown == "说明卡。"
    assert card_words(tmp_path, "en").markdown == "The card."


def test_a_card_in_one_language_says_which(tmp_path):
    (tmp_path / "README.md").write_text("这是一张只有中文的说明卡。", encoding="utf-8")
    assert card_words(tmp_path, "en").lang == "zh"
    (tmp_path / "README.md").write_text("42", encoding="utf-8")
    assert card_words(tmp_path, "en").lang is None


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_without_words_there_is_no_card(tmp_path, content):
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


def test_licence_and_languages_are_those_of_the_front_matter(tmp_path):
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
def test_front_matter_may_be_broken(text, values, words):
    assert front_matter(text) == (values, words)


def test_its_values_are_few_and_short():
    values, _ = front_matter(f"---\nlicense: {'a' * 999}\nlanguage: [{'en, ' * 99}]\n---\n")
    assert [len(values["license"][0]), len(values["language"])] == [60, 12]


def test_a_long_card_is_cut_and_one_in_another_encoding_read(tmp_path):
    (tmp_path / "CARD.md").write_bytes(b"\xff\xfea" + b"b" * MOST_CHARS)
    found = card_words(tmp_path, "en")
    assert found.is_cut
    assert found.markdown == "\ufffd\ufffda" + "b" * (MOST_CHARS - 3)
    (tmp_path / "CARD.md").write_bytes("\ufeff你好".encode())
    found = card_words(tmp_path, "en")
    assert (found.markdown, found.is_cut) == ("你好", False)
