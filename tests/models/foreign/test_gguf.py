"""GGUF files of the Llama and Qwen families: the numbers of the folders they were made from."""

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign import CORPUS, Golden, byte_level, metaspace, write_gguf

from explorer.labels import str_tokens
from models import CheckpointError
from models.foreign import found, look, open_folder
from models.foreign.folds import halves, neighbours
from models.foreign.gguf_file import GGUF
from models.rows import Rows

TEXTS = ("We went to the park, 我 too.", "the  then 1984", CORPUS[0])


@pytest.mark.parametrize("name", ["qwen2", "qwen3", "llama-tied"])
def test_the_numbers_are_those_of_the_folder(name: str, tmp_path: Path) -> None:
    golden = Golden.load(name)
    model = open_folder(write_gguf(golden, tmp_path / "tiny.gguf")).model
    logits = model.read(Rows(torch.tensor(golden.arrays["first.tgt"])[None]))[0].numpy()
    expected = golden.arrays["first/hook_logits"]
    assert np.abs(logits - expected).max() <= 1e-4 * np.abs(expected).max()


def test_halves_undo_neighbours() -> None:
    weight = torch.randn(12, 5)
    assert torch.equal(halves(3)(neighbours(3)(weight)), weight)


def test_blocks_of_fewer_bits_become_floats(tmp_path: Path) -> None:
    golden = Golden.load("qwen2")
    model = open_folder(write_gguf(golden, tmp_path / "tiny.gguf", quantised=True)).model
    stored = golden.tensors()["model.embed_tokens.weight"]
    assert torch.equal(model.get_parameter("embed.weight"), stored.half().float())


def test_a_byte_level_tokenizer_is_inside(tmp_path: Path) -> None:
    raw = byte_level()
    words = [raw.id_to_token(i) for i in range(raw.get_vocab_size())]
    fields: Any = {
        "words": words,
        "merges": ["Ġ t", "h e", "Ġt he"],
        "token_type": [3 if word.startswith("<|") else 1 for word in words],
        "eos_token_id": len(words) - 1,
    }
    golden = Golden.load("qwen2")
    path = write_gguf(golden, tmp_path / "tiny.gguf", vocab=len(words), **fields)
    tokenizer = open_folder(path).tokenizer
    for text in TEXTS:
        assert tokenizer.encode(text) == raw.encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.marks.end == len(words) - 1
    assert tokenizer.is_special(len(words) - 1)
    assert tokenizer.marks.start is None
    path = write_gguf(golden, tmp_path / "cut.gguf", vocab=len(words), **{**fields, "pre": "qwen2"})
    cut = open_folder(path).tokenizer
    assert str_tokens(cut, cut.encode("19 the")) == ["1", "9", "the"]
    path = write_gguf(
        golden, tmp_path / "other.gguf", vocab=len(words), **{**fields, "pre": "falcon"}
    )
    with pytest.raises(CheckpointError, match=r"other\.gguf: its tokenizer cuts words as 'falcon'"):
        open_folder(path)


def test_a_tokenizer_of_sentencepiece_is_inside(tmp_path: Path) -> None:
    """It has scores in place of merges, and the start mark stands before a text."""
    raw = metaspace()
    words = [raw.id_to_token(i) for i in range(raw.get_vocab_size())]
    kinds = [2, 3, 3, *[6] * 256, *[1] * (len(words) - 259)]
    fields: Any = {
        "words": words,
        "model": "llama",
        "scores": [-float(i) for i in range(len(words))],
        "token_type": kinds,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
    }
    path = write_gguf(Golden.load("llama-tied"), tmp_path / "tiny.gguf", vocab=len(words), **fields)
    loaded = open_folder(path)
    for text in TEXTS:
        assert loaded.tokenizer.encode(text) == raw.encode(text, add_special_tokens=False).ids
    assert loaded.model.with_marks("tgt", [9]) == (1, 9)
    assert loaded.tokenizer.marks.end == 2


def test_files_and_folders_with_one_are_found(tmp_path: Path) -> None:
    golden = Golden.load("qwen2")
    path = write_gguf(golden, tmp_path / "Tiny.Q8.gguf")
    assert found([tmp_path]) == {"Tiny.Q8": path}
    assert open_folder(tmp_path).config == open_folder(path).config


def test_the_header_alone_says_how_large_it_is(tmp_path: Path) -> None:
    path = write_gguf(Golden.load("qwen2"), tmp_path / "tiny.gguf")
    seen, model, stored = look(path), open_folder(path).model, GGUF(path)
    sizes = model.config.n_layers, model.config.n_heads, model.config.d_model
    assert (seen.n_layers, seen.n_heads, seen.d_model) == sizes
    assert seen.family == "qwen2 (GGUF)"
    assert seen.parameters == sum(stored.read(name).numel() for name in stored.shapes)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1000])
    for reads in (look, open_folder):
        with pytest.raises(CheckpointError, match="file: it ends too early"):
            reads(path)
    for broken in (whole[:40], whole[:8] + b"\xff" * 16 + whole[24:], whole[:8] + b"\xff" * 8):
        path.write_bytes(broken)
        with pytest.raises(CheckpointError, match=r"tiny\.gguf is not a readable GGUF file"):
            look(path)


def test_what_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_gguf(Golden.load("qwen2"), tmp_path / "tiny.gguf")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=r"tiny\.gguf"):
        open_folder(path)
    path.write_bytes(b"GGML" + whole[4:])
    with pytest.raises(CheckpointError, match=r"tiny\.gguf is not a readable GGUF file"):
        open_folder(path)
    for name in (b"output_norm.weight", b"blk.1.attn_q.bias"):
        path.write_bytes(whole.replace(name, b"?" + name[1:]))
        with pytest.raises(CheckpointError, match=rf"tiny\.gguf (lacks|has) .{name[1:].decode()}"):
            open_folder(path)
    path.write_bytes(whole.replace(b"qwen2", b"mamba"))
    with pytest.raises(CheckpointError, match="architecture is 'mamba'; these can be opened"):
        open_folder(path)
    path.write_bytes(whole)
    before = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "gguf":
            raise ImportError(name)
        return before(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CheckpointError, match=r"pip install 'headlight\[gguf\]'"):
        open_folder(path)
