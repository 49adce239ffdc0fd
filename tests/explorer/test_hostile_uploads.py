"""Zips of models that want to hold the server: by their tokenizer, their texts, their sizes."""

import gc
import io
import json
import struct
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from foreign import Golden, zipped

from explorer.labels import str_tokens
from explorer.library import LoadedModel, open_model
from explorer.problems import InputProblem
from explorer.sandbox import tokenizing
from explorer.sandbox.apart import Apart
from explorer.uploads import open_zip
from models.refusals import Refusal

Change = Callable[[dict[str, Any]], None]
OWN = 1.0
"""Seconds of its own that this process may take for such a zip: it took 11, and all waited."""


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, bytes]:
    folder = Golden.load("llama").write(tmp_path_factory.mktemp("zipped") / "mine", "own")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def changed(files: dict[str, bytes], change: Change) -> io.BytesIO:
    tokenizer = json.loads(files["tokenizer.json"])
    change(tokenizer)
    return zipped(files | {"tokenizer.json": json.dumps(tokenizer).encode()})


def refusal(file: io.BytesIO) -> str:
    """What is said of a zip that is refused, by a process that spent few seconds on it."""
    begun = time.process_time()
    with pytest.raises(InputProblem) as caught:
        open_zip("a.zip", file)
    assert time.process_time() - begun < OWN
    return str(caught.value)


def served(loaded: LoadedModel) -> Apart:
    library: Any = loaded.tokenizer._tokenizer
    assert isinstance(library, tokenizing.LibraryApart)
    return library._served._process


def many_tokens(tokenizer: dict[str, Any], most: int = 21_000) -> None:
    token = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    tokenizer["added_tokens"] += [
        {"id": 1000 + n, "content": f"<x{n}>", "special": False, **token} for n in range(most)
    ]


def split_by(pattern: str, tokenizer: dict[str, Any]) -> None:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    tokenizer["pre_tokenizer"] = {**split, "invert": False}


def replacing(part: str, tokenizer: dict[str, Any]) -> None:
    one = {"type": "Replace", "pattern": {"Regex": "."}, "content": "a" * 16}
    tokenizer[part] = {"type": "Sequence", f"{part}s": [one] * 8}


def test_tokenizers_that_are_long_panic_cut_or_write_for_long_are_refused(files, monkeypatch):
    assert "more than 20,000 added tokens" in refusal(changed(files, many_tokens))
    monkeypatch.setattr(tokenizing, "READING", 0)  # and up to one more: it takes two
    hostile = changed(files, partial(many_tokens, most=400_000))
    assert "reading it takes more than 0 seconds or" in refusal(hostile)
    assert "tokenizer.json" in refusal(zipped(files | {"tokenizer.json": b"[" * 1_000_000}))
    assert "tokenizer.json" in refusal(zipped(files | {"tokenizer.json": b"\xff"}))
    assert refusal(changed(files, partial(replacing, "normalizer"))).startswith("heavy_tokenizer")
    loaded = open_zip("a.zip", changed(files, partial(replacing, "decoder")))
    with pytest.raises(InputProblem, match="heavy_tokenizer"):
        loaded.tokenizer.decode(loaded.tokenizer.encode("We went"))


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$"])
def test_a_text_that_is_cut_for_long_is_refused_and_others_are_not(files, pattern):
    away: list[str] = []

    @contextmanager
    def elsewhere() -> Any:
        away.append("left")
        yield
        away.append("came back")

    loaded = open_zip("a.zip", changed(files, partial(split_by, pattern)), elsewhere)
    away.clear()
    begun = time.process_time()
    # The library gives up by itself after ten million attempts at one place.
    with pytest.raises((InputProblem, Refusal), match=r"heavy_tokenizer|retry-limit"):
        loaded.tokenizer.encode("a" * 40 + "!")
    assert time.process_time() - begun < 1
    assert away[:2] == ["left", "came back"]  # others computed meanwhile
    assert loaded.tokenizer.encode("b"), "another text is cut by a new process"


def test_failures_are_told_in_the_librarys_words_and_few_processes_kept(files):
    """As of a vocabulary whose unknown token is missing."""

    def without_unknown(tokenizer: dict[str, Any]) -> None:
        tokenizer["model"] = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "<gone>"}
        tokenizer["added_tokens"], tokenizer["pre_tokenizer"] = [], None
        tokenizer["normalizer"] = tokenizer["post_processor"] = tokenizer["decoder"] = None

    loaded = open_zip("a.zip", changed(files, without_unknown))
    assert loaded.tokenizer.encode("a") == [0]
    with pytest.raises(Refusal, match=r"Missing|no token for these characters.*: b"):
        loaded.tokenizer.encode("b")
    assert loaded.tokenizer.encode("a") == [0]
    loaded = [open_zip("a.zip", zipped(files)) for _ in range(tokenizing.MOST_PROCESSES + 2)]
    kept = [served(each) for each in loaded]
    assert sum(each.is_there for each in kept) <= tokenizing.MOST_PROCESSES
    cut = {tuple(each.tokenizer.encode("We went to the park.")) for each in loaded}
    assert len(cut) == 1
    assert sum(each.is_there for each in kept) <= tokenizing.MOST_PROCESSES
    del loaded
    gc.collect()
    assert not any(each.is_there for each in kept), "a process outlives its model"


def test_white_space_and_endless_lists_are_no_way_to_fill_memory(files):
    for name, size in (("config.json", 2), ("tokenizer.json", 65), ("README.md", 2)):
        said = refusal(zipped(files | {name: b" " * size * 1_000_000 + files.get(name, b"")}))
        assert said.startswith("upload_file"), said
        assert name in said
    listed = {
        f"t{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(100_000)
    }
    header = json.dumps(listed).encode()
    weights = struct.pack("<Q", len(header)) + header
    assert refusal(zipped(files | {"model.safetensors": weights})).startswith("upload_tensors")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux alone")
def test_memory_for_a_text_is_bounded_by_the_kernel(files):
    loaded = open_zip("a.zip", zipped(files))
    process = served(loaded)._process
    limits = Path(f"/proc/{process.pid}/limits").read_text().splitlines()
    data = next(line for line in limits if line.startswith("Max data size"))
    assert int(data.split()[3]) < 1.5 * tokenizing.ROOM


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert", "marian", "t5"])
def test_it_cuts_and_writes_as_the_library_does_here(tmp_path, kind):
    folder = Golden.load(kind).write(tmp_path / kind, "own")
    here = open_model(folder).tokenizer
    apart = open_zip("a.zip", zipped(folder)).tokenizer
    assert type(apart) is type(here)
    assert (apart.marks, apart.vocab_size) == (here.marks, here.vocab_size)
    for text in ("We went to the park.", "我们去了公园 </s> [MASK]", "", "\x00 é 你好👍"):
        ids = here.encode(text)
        assert apart.encode(text) == ids
        assert apart.decode(ids) == here.decode(ids)
        assert apart.unknown(text) == here.unknown(text)
        assert str_tokens(apart, ids) == str_tokens(here, ids)
    assert apart.around() == here.around()
    named = ("do_lower_case", "add_prefix_space", "legacy_behaviour")
    (folder / "tokenizer_config.json").write_text(json.dumps(dict.fromkeys(named, 3)))
    with pytest.raises(ValueError, match=r"= 3, but tokenizer\.json was written with"):
        open_zip("a.zip", zipped(folder))
    for token in range(here.vocab_size):
        assert apart.piece(token) == here.piece(token)
        assert apart.bytes_of(token) == here.bytes_of(token)
        assert apart.is_special(token) == here.is_special(token)
