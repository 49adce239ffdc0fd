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


def test_ids_without_a_token_are_counted_and_a_gguf_file_measured(tiny, tmp_path):
    loaded = tiny()
    (tmp_path / "m.gguf").write_bytes(b"GGUF" * 25)
    config = replace(loaded.config, vocab_size=loaded.tokenizer.vocab_size + 3)
    found = facts(replace(loaded, config=config, folder=tmp_path / "m.gguf"))
    assert found.without_piece == 3
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
EN, ZH = "The card.", "说明卡。"
ONLY_ZH = "这是一张只有中文的说明卡。"
LONG = b"\xff\xfea" + b"b" * MOST_CHARS


@pytest.mark.parametrize(
    ("files", "lang", "told"),
    [
        ({"CARD.md": EN, "CARD.zh.md": ZH, "README.md": "Not this."}, "en", (EN, "en")),
        ({"CARD.md": EN, "CARD.zh.md": ZH, "README.md": "Not this."}, "zh", (ZH, "zh")),
        # Other libraries name it otherwise.
        ({"README.md": EN, "README.zh.md": ZH}, "zh", (ZH, "zh")),
        ({"README.md": EN, "README_zh.md": ZH}, "zh", (ZH, "zh")),
        ({"README.md": EN, "CARD_zh.md": ZH}, "zh", (ZH, "zh")),
        ({"README.md": EN, "CARD_zh.md": ZH}, "en", (EN, "en")),
        # In one language it says which; without words there is none.
        ({"README.md": ONLY_ZH}, "en", (ONLY_ZH, "zh")),
        ({"README.md": "42"}, "en", ("42", None)),
        ({}, "zh", ("", None)),
        ({"CARD.md": ""}, "zh", ("", None)),
        ({"CARD.md": " \n"}, "zh", ("", None)),
        ({"README.md": FRONT}, "en", ("# Title\n", "en", "my-licence", ("en", "zh"))),
        # A long one is cut, one in another encoding read.
        ({"CARD.md": LONG}, "en", ("\ufffd\ufffda" + "b" * (MOST_CHARS - 3), "en")),
        ({"CARD.md": "\ufeff你好".encode()}, "en", ("你好", "zh")),
    ],
)
def test_a_card_is_found_read_and_told_with_its_language(tmp_path, files, lang, told):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    card = card_words(tmp_path, lang)
    found = (card.markdown, card.lang, card.licence, card.languages)
    assert found == (*told, "", ())[:4]
    assert card.is_cut == (files.get("CARD.md") == LONG)


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
        (  # few and short
            f"---\nlicense: {'a' * 999}\nlanguage: [{'en, ' * 99}]\n---\n",
            {"license": ["a" * 60], "language": ["en"] * 12},
            "",
        ),
        ("", {}, ""),
    ],
)
def test_front_matter_may_be_broken(text, values, words):
    assert front_matter(text) == (values, words)
