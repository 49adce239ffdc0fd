"""GGUF files of the Llama and Qwen families: the numbers of the folders they were made from."""

import builtins
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign import CORPUS, Golden, byte_level, change_config, metaspace, refused, write_gguf
from tokenizers import Tokenizer

import explorer as hl
from explorer.labels import str_tokens
from models import CheckpointError
from models.foreign import found, gguf_header, look, open_folder
from models.foreign.gguf_file import GGUF
from models.foreign.gguf_header import header
from models.rows import Rows
from models.transformer import Model

TEXTS = ("We went to the park, 我 too.", "the  then 1984", CORPUS[0])


def logits_of(model: Model, golden: Golden) -> np.ndarray:
    return model.read(Rows(torch.tensor(golden.arrays["first.tgt"])[None]))[0].numpy()


def assert_logits(model: Model, golden: Golden, like: Model | None = None) -> None:
    """Those of `transformers`, or of another model."""
    expected = golden.arrays["first/hook_logits"] if like is None else logits_of(like, golden)
    tolerance = 1e-4 if like is None else 1e-5
    assert np.abs(logits_of(model, golden) - expected).max() <= tolerance * np.abs(expected).max()


def words_of(raw: Tokenizer) -> list[str]:
    return [raw.id_to_token(i) for i in range(raw.get_vocab_size())]


def byte_level_inside(*more: str, **said: Any) -> dict[str, Any]:
    """What a file says of the tokenizer of GPT-2, which has `more` words."""
    listed = words_of(byte_level())
    words = [*listed, *more]
    kinds = [3 if word.startswith("<|") else 1 for word in words]
    usual = {"words": words, "vocab": len(words), "token_type": kinds}
    usual |= {"merges": ["Ġ t", "h e", "Ġt he"], "eos_token_id": len(listed) - 1}
    return usual | said


LINEAR: dict[str, Any] = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}


@pytest.mark.parametrize(
    ("name", "fields"), [("qwen2", {}), ("qwen3", {}), ("llama-tied", {}), ("llama-linear", LINEAR)]
)
def test_the_numbers_are_those_of_the_folder(name, fields, tmp_path):
    golden = Golden.load(name)
    path = write_gguf(golden, tmp_path / "tiny.gguf", **fields)
    assert_logits(open_folder(path).model, golden)


@pytest.mark.parametrize("name", ["gemma", "gemma2", "gemma3_text"])
def test_gemma_adds_one_to_its_norms_before_it_is_written(name, tmp_path):
    """Its scores are divided by √d_head, as the file cannot say otherwise; 27B has its own."""
    golden = Golden.load(name)
    plain = replace(golden, config=golden.config | {"query_pre_attn_scalar": 10})
    if name == "gemma3_text":  # the pattern of all files: every sixth layer sees all
        plain.config["layer_types"] = ["sliding_attention"] * 2
    folder = open_folder(plain.write(tmp_path / "folder"))
    file = open_folder(write_gguf(plain, tmp_path / "tiny.gguf"))
    assert replace(file.config, norm_eps=1e-6) == folder.config  # the file has float32
    assert_logits(file.model, golden, folder.model)


def test_the_largest_gemma_divides_scores_by_the_usual_width():
    for kind, family, layers in (("gemma2", "gemma2", 46), ("gemma3", "gemma3_text", 62)):
        for n, divided in ((layers, 6), (layers - 1, 10)):
            file = object.__new__(GGUF)
            file.kind, file.shapes = kind, {}
            sizes = {"embedding_length": 24, "attention.head_count": 4, "block_count": n}
            said = file._rotation(sizes | {"attention.key_length": 10})
            assert said["query_pre_attn_scalar"] == divided, family


def test_factors_of_the_angles_are_those_of_llama_3(tmp_path):
    """A converter writes a factor for each pair instead of the settings that they follow from."""
    golden = Golden.load("llama3")
    scaling = open_folder(golden.write(tmp_path / "folder")).config.rope_scaling
    assert max(scaling.divisors) > 2
    path = write_gguf(golden, tmp_path / "tiny.gguf", factors=scaling.divisors)
    model = open_folder(path).model
    assert_logits(model, golden)
    assert model.config.cacheable == np.inf


@pytest.mark.parametrize(("kind", "name"), [("llama", "llama-tied"), ("qwen2", "qwen2")])
def test_part_of_each_head_may_be_turned(kind, name, tmp_path):
    golden = Golden.load(name)
    folder = golden.write(tmp_path / "folder")
    change_config(folder, **{"rope.dimension_count": 4})
    part = open_folder(folder)
    file = open_folder(write_gguf(golden, tmp_path / "tiny.gguf", turned=4))
    assert part.config.rotary_dim == file.config.rotary_dim == 4
    assert_logits(file.model, golden, part.model)
    whole = golden.arrays["first/hook_logits"]
    assert np.abs(whole - logits_of(part.model, golden)).max() > 0.1


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("rope.scaling.type", "yarn", "non-linearly scaled rotation angles"),
        ("expert_count", 8, "experts and non-linearly scaled"),
        ("attention.clamp_kqv", 8.0, "attention.clamp_kqv is 8.0, which is not supported"),
        ("attention.sliding_window", 4, "attention.sliding_window is 4"),
        ("attention.causal", False, "attention.causal is False"),
        ("logit_scale", 0.5, "logit_scale is 0.5"),
    ],
)
def test_a_setting_that_is_not_honoured_is_refused(key, value, said, tmp_path):
    path = write_gguf(Golden.load("qwen2"), tmp_path / "t.gguf", **{f"qwen2.{key}": value})
    refused(path, said)


def test_blocks_of_fewer_bits_become_floats(tmp_path):
    golden = Golden.load("qwen2")
    model = open_folder(write_gguf(golden, tmp_path / "tiny.gguf", quantised=True)).model
    stored = golden.tensors()["model.embed_tokens.weight"]
    assert torch.equal(model.get_parameter("embed.weight"), stored.half().float())


def test_a_byte_level_tokenizer_is_inside(tmp_path):
    raw, golden = byte_level(), Golden.load("qwen2")
    path = write_gguf(golden, tmp_path / "tiny.gguf", **byte_level_inside())
    tokenizer = open_folder(path).tokenizer
    for text in TEXTS:
        assert tokenizer.encode(text) == raw.encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.marks.end == raw.get_vocab_size() - 1
    assert tokenizer.is_special(tokenizer.marks.end)
    assert tokenizer.marks.start is None
    path = write_gguf(golden, tmp_path / "cut.gguf", **byte_level_inside(pre="qwen2"))
    cut = open_folder(path).tokenizer
    assert str_tokens(cut, cut.encode("19 the")) == ["1", "9", "the"]
    path = write_gguf(golden, tmp_path / "other.gguf", **byte_level_inside(pre="falcon"))
    refused(path, "its tokenizer splits words in the style of 'falcon'")


@pytest.mark.parametrize("pre", ["llama-bpe", "llama3", "llama-v3", "tekken", "qwen2"])
def test_a_word_of_the_vocabulary_is_taken_whole_by_some(pre, tmp_path):
    """No merges build the token " zebra". The tokenizers of Llama 3 and Mistral's tekken take it
    whole, and begin a text with the start mark; Qwen's does neither, but composes accents."""
    zebra = byte_level().get_vocab_size()
    merges = ["Ġ t", "h e", "Ġt he", "Ã ©"]
    fields = byte_level_inside("Ġzebra", "Ã©", merges=merges, bos_token_id=zebra - 1, pre=pre)
    path = write_gguf(Golden.load("qwen2"), tmp_path / "tiny.gguf", **fields)
    opened = open_folder(path)
    ids = opened.tokenizer.encode("the zebra")
    if pre == "qwen2":
        assert len(ids) == len(["t", "he"]) + len(" zebra")
        assert opened.tokenizer.encode("e\u0301") == [zebra + 1]
        assert opened.model.with_marks("tgt", [9]) == (9,)
    else:
        assert ids[-1] == zebra
        assert len(opened.tokenizer.encode("e\u0301")) == 3
        assert opened.model.with_marks("tgt", [9]) == (zebra - 1, 9)
    text = "aB 1234 Cd"
    cuts = {"qwen2": [1, 1, 1, 1], "tekken": [1, 1, 1, 1]}.get(pre, [3, 1])
    cutting = opened.tokenizer._tokenizer.pre_tokenizer
    pieces = [piece for piece, _ in cutting.pre_tokenize_str(text)]
    assert [len(piece) for piece in pieces if piece.isdecimal()] == cuts
    assert pieces[0] == ("a" if pre == "tekken" else "aB")


def test_a_tokenizer_of_sentencepiece_is_inside(tmp_path):
    """It has scores in place of merges, and the start mark stands before a text."""
    raw = metaspace()
    words = words_of(raw)
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


def test_files_and_folders_with_one_are_found_and_opened_by_a_notebook(tmp_path, monkeypatch):
    path = write_gguf(Golden.load("qwen2"), tmp_path / "Tiny.Q8.gguf", **byte_level_inside())
    assert found([tmp_path]) == {"Tiny.Q8": path}
    monkeypatch.chdir(tmp_path)
    for name in (path.name, Path(path.name), str(tmp_path)):
        assert hl.open_model(name).config == open_folder(path).config


def test_the_first_heads_need_each_part_of_the_file_once(tmp_path, monkeypatch):
    """Opening, and a trace after it, read the header once and no tensor twice."""
    path = write_gguf(Golden.load("llama-tied"), tmp_path / "tiny.gguf", **byte_level_inside())
    names = [f"read {name}" for name in GGUF(path).shapes]
    read: Counter[str] = Counter()
    for module, name in ((gguf_header, "_header"), (GGUF, "read")):
        original = getattr(module, name)

        def counted(*args: Any, original: Any = original, name: str = name) -> Any:
            read[f"{name} {args[-1] if name == 'read' else args[0].name}"] += 1
            return original(*args)

        monkeypatch.setattr(module, name, counted)
    hl.trace(path, "the then")
    assert read == dict.fromkeys(["_header tiny.gguf", *names], 1)


def test_the_header_alone_says_how_large_it_is(tmp_path):
    path = write_gguf(Golden.load("qwen2"), tmp_path / "tiny.gguf")
    seen, model, stored = look(path), open_folder(path).model, GGUF(path)
    sizes = model.config.n_layers, model.config.n_heads, model.config.d_model
    assert (seen.n_layers, seen.n_heads, seen.d_model) == sizes
    assert seen.family == "qwen2 (GGUF)"
    assert seen.parameters == sum(stored.read(name).numel() for name in stored.shapes)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1000])
    for reads in (look, open_folder):
        with pytest.raises(CheckpointError, match="file: the file ends too early"):
            reads(path)
    damaged = (whole[:40], whole[:8] + b"\xff" * 16 + whole[24:], whole[:8] + b"\xff" * 8)
    for broken in (*damaged, b"GGML" + whole[4:]):
        path.write_bytes(broken)
        with pytest.raises(CheckpointError, match=r"tiny\.gguf is not a readable GGUF file"):
            look(path)


def test_a_model_in_parts_is_one_model_and_a_file_for_pictures_is_none(tmp_path):
    golden = Golden.load("qwen2")
    write_gguf(golden, tmp_path / "tiny.gguf", split=10)
    first, second, *_ = sorted(tmp_path.iterdir())
    (tmp_path / "mmproj-tiny-f16.gguf").write_bytes(b"GGUF")
    assert found([tmp_path]) == {first.stem: first}
    whole = open_folder(write_gguf(golden, tmp_path.parent / f"{tmp_path.name}.gguf"))
    for place in (tmp_path, first, second):
        opened = open_folder(place)
        assert (opened.model.config, opened.tokenizer.vocab_size) == (whole.config, 61)
        assert np.array_equal(logits_of(opened.model, golden), logits_of(whole.model, golden))
    assert look(tmp_path).parameters == look(tmp_path.parent / f"{tmp_path.name}.gguf").parameters
    alone = first.rename(tmp_path / "renamed.gguf")
    refused(alone, " parts of a model")
    refused(second, f"{first.name} is missing")


def test_reading_a_header_takes_no_longer_than_its_words(tmp_path):
    """A quarter of a million words, as Gemma has them, in seconds; gguf's own reader takes 30."""
    golden, words = Golden.load("qwen2"), [f"word {i}" for i in range(250_000)]
    path = write_gguf(golden, tmp_path / "tiny.gguf", vocab=61, words=words)
    before = time.process_time()
    assert len(header(path).values["tokenizer.ggml.tokens"]) == 250_000
    assert time.process_time() - before < 3


def test_what_cannot_be_opened(tmp_path, monkeypatch):
    path = write_gguf(Golden.load("qwen2"), tmp_path / "tiny.gguf")
    whole = path.read_bytes()
    for name, other, said in (
        (b"output_norm.weight", b"?utput_norm.weight", r"(does not contain|contains) .utput_norm"),
        (b"blk.1.attn_q.bias", b"?lk.1.attn_q.bias", r"(does not contain|contains) .lk\.1\.attn_q"),
        (b"qwen2", b"mamba", "architecture is 'mamba'; these can be opened"),
    ):
        path.write_bytes(whole.replace(name, other))
        with pytest.raises(CheckpointError, match=rf"tiny\.gguf.* {said}"):
            open_folder(path)
    path.write_bytes(whole)
    before = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "gguf":
            raise ImportError(name)
        return before(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    refused(path, "pip install 'gguf>=")
