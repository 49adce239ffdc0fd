"""Tokenizer files whose parts do not fit, or were changed: refused in words, or read exactly."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from foreign import TOKENIZERS, Golden, byte_level
from hypothesis import given, settings, strategies as st

from explorer import trace
from explorer.library import open_model
from explorer.problems import InputProblem
from explorer.runs.inputs import given_tokens
from explorer.runs.sentences import clean_text
from explorer.text import problem
from models.foreign import weights
from models.foreign.tokens import NUMBERED
from models.tokenizer import MASK


@pytest.fixture(scope="module")
def shelf(tmp_path_factory) -> Iterator[Path]:
    """A model whose tokenizer changes; its shapes do not, and comparing them takes most time."""
    folder = tmp_path_factory.mktemp("shelf")
    Golden.load("llama").write(folder / "llama")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(weights, "_check_shapes", lambda *_: None)
        yield folder


def test_a_tokenizer_that_gives_no_certain_tokens_is_refused(shelf):
    """It cuts at random, or two tokens have one id, so that labels would be false."""
    for change, said in (
        ({"dropout": 0.1}, r"dropout is 0\.1"),
        ({"vocab": {"a": 0, "b": 1, "c": 1}, "merges": []}, r"share the token id 1"),
    ):
        told = json.loads(byte_level().to_str())
        told["model"] |= change
        (shelf / "llama" / "tokenizer.json").write_text(json.dumps(told))
        with pytest.raises(InputProblem, match="broken_model") as raised:
            open_model("llama", shelf)
        assert re.search(said, problem(raised.value.key, raised.value.values, lang="en"))


def test_a_text_is_read_as_given_with_its_line_ends_and_indentation(tmp_path):
    Golden.load("gpt2").write(tmp_path / "gpt2", "byte_level")
    raw, text = byte_level(), " if x:\r\n\t  y\n"
    read = trace(tmp_path / "gpt2", text)
    assert list(read.tgt_tokens) == raw.encode(text, add_special_tokens=False).ids
    assert read.text == text
    assert open_model(tmp_path / "gpt2").tokenizer.decode(read.tgt_tokens) == text
    folded = trace(tmp_path / "gpt2", " ".join(text.split()))
    assert len(folded.tgt_tokens) < len(read.tgt_tokens)


TEXTS = ("the cat", "Café 我 😀", "<unk> [MASK]", " a\u0301\u200b ", "%s\0")


JUNK = (None, [], {}, 0, -1, 2**32, 0.5, "", "x", "<unk>", "▁", "a" * 5000, True, [["a", "b"]])
REAL = {kind: TOKENIZERS[kind]() for kind in ("byte_level", "metaspace", "word_pieces", "unigram")}
PARTS = {
    "normalizer": (
        {"type": "NFD"},
        {"type": "Lowercase"},
        {"type": "Replace", "pattern": {"String": "a"}, "content": ""},
    ),
    "pre_tokenizer": (
        {"type": "Whitespace"},
        {"type": "Punctuation", "behavior": "Removed"},
        {"type": "Split", "pattern": {"String": ""}, "behavior": "Removed", "invert": False},
    ),
    "decoder": ({"type": "Fuse"}, {"type": "WordPiece", "prefix": "##", "cleanup": True}),
    "post_processor": (),
    "model": (),
}
OPTIONS = {
    "dropout": (0.5, None),
    "unk_token": (None, "the", "nowhere"),
    "unk_id": (None, 4, 10**6),
    "continuing_subword_prefix": ("@@", "##", ""),
    "end_of_word_suffix": ("</w>", "e"),
    "max_input_chars_per_word": (3, 0),
    "fuse_unk": (True, False),
    "byte_fallback": (True, False),
    "ignore_merges": (True, False),
    "type": ("BPE", "WordPiece", "Unigram", "WordLevel", "none"),
}


@st.composite
def changed_tokenizers(draw: st.DrawFn) -> dict[str, Any]:
    """The file of a real tokenizer with entries gone, of another type, or of another tokenizer."""
    files = {kind: json.loads(raw.to_str()) for kind, raw in REAL.items()}
    said = files[draw(st.sampled_from(sorted(files)))]
    other = files[draw(st.sampled_from(sorted(files)))]
    for _ in range(draw(st.integers(1, 3))):
        change = draw(st.sampled_from(["entry", "part", "option", "added", "vocabulary"]))
        model = said.get("model")
        if change == "entry":
            at: Any = said
            while isinstance(at, dict) and at:
                name = draw(st.sampled_from(sorted(at, key=str)[:40]))
                if not isinstance(at[name], dict) or not at[name] or draw(st.booleans()):
                    at[name] = draw(st.sampled_from(JUNK))
                    if draw(st.booleans()):
                        del at[name]
                    break
                at = at[name]
        elif change == "part":
            name = draw(st.sampled_from(sorted(PARTS)))
            said[name] = draw(st.sampled_from([other.get(name), *PARTS[name]]))
        elif change == "option" and isinstance(model, dict):
            name = draw(st.sampled_from(sorted(OPTIONS)))
            model[name] = draw(st.sampled_from(OPTIONS[name]))
        elif change == "added" and isinstance(said.get("added_tokens"), list):
            flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
            text = draw(
                st.sampled_from(["e", "▁the", "a" * 3000, " ", "  ", "我", "đem", "\u0301"])
            )
            token = {"id": draw(st.sampled_from([0, 5, 400, 2**32 - 1])), "content": text}
            said["added_tokens"] += [token | {name: draw(st.booleans()) for name in flags}]
        elif isinstance(model, dict) and isinstance(model.get("vocab"), dict):
            for piece in draw(st.lists(st.sampled_from(sorted(model["vocab"])), max_size=9)):
                model["vocab"].pop(piece, None)
    return said


def reads_or_refuses(said: dict[str, Any], shelf: Path) -> None:
    """Nothing but a refusal may come of opening a tokenizer.json, and of each text; no token may
    change from one time to the next, and no character be lost in silence."""
    (shelf / "llama" / "tokenizer.json").write_text(json.dumps(said))
    try:
        loaded = open_model("llama", shelf)
    except InputProblem as error:
        problem(error.key, error.values, lang="zh")  # raises where there are no words
        return
    tokenizer = loaded.tokenizer
    for text in map(clean_text, TEXTS):
        with suppress(InputProblem):
            ids = given_tokens(loaded, text)
            assert given_tokens(loaded, text) == ids
            assert len(loaded.str_tokens(ids)) == len(ids) > 0
            assert max(ids) < loaded.config.vocab_size
            assert isinstance(tokenizer.decode(ids), str)
            unknown, own = tokenizer.unknown(text), tokenizer.encode(text)
            assert all(each in text for each in unknown)
            if unknown or tokenizer.marks.unknown in own:
                continue
            written = b"".join(map(tokenizer.bytes_of, own)).decode(errors=NUMBERED)
            whole = "".join(tokenizer._normal(text).split()) == "".join(written.split())
            kept = [c for c in text if tokenizer._normal(c).strip() in f"{written}{MASK}"]
            assert whole or len(kept) == len(text), (text, written)


@settings(max_examples=60)
@given(changed_tokenizers())
def test_a_changed_tokenizer_is_refused_in_words_or_reads_every_text(shelf, said):
    reads_or_refuses(said, shelf)


@pytest.mark.sweep
@settings(max_examples=5000, deadline=None)
@given(changed_tokenizers())
def test_five_thousand_changed_tokenizers(shelf, said):
    reads_or_refuses(said, shelf)
