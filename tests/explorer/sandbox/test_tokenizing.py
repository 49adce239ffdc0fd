"""A stranger's tokenizer, asked in a process of its own, says what the library's own would say."""

import json
from pathlib import Path

import pytest
import tokenizers
from foreign import TOKENIZERS, unigram
from tokenizers import models, normalizers, pre_tokenizers

from explorer.labels import str_tokens
from explorer.sandbox.tokenizing import read_apart
from models.foreign.tokens import ForeignTokenizer
from models.marks import library_of
from models.refusals import Refusal

TEXT = "We went to the park yesterday, 我 ① too."


@pytest.mark.parametrize("kind", ["byte_level", "metaspace", "word_pieces", "unigram"])
def test_every_answer_is_the_same(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "tokenizer.json"
    TOKENIZERS[kind]().save(str(path))
    here, apart = ForeignTokenizer(TOKENIZERS[kind]()), ForeignTokenizer(read_apart(path))  # type: ignore[arg-type]
    assert apart.marks == here.marks
    assert apart.around() == here.around()
    assert apart.encode(TEXT) == here.encode(TEXT)
    assert apart.decode(here.encode(TEXT)) == here.decode(here.encode(TEXT))
    assert apart.unknown(TEXT) == here.unknown(TEXT)
    assert str_tokens(apart, here.encode(TEXT)) == str_tokens(here, here.encode(TEXT))


@pytest.mark.parametrize("text", ["We</s>went to the park", "</s>", "a<unk> b <pad", "(</s>)"])
def test_a_special_token_that_is_typed_is_text_for_a_unigram_model(
    tmp_path: Path, text: str
) -> None:
    """Here and there, with the characters that the text has."""
    raw = unigram()
    vocabulary = json.loads(raw.to_str())["model"]["vocab"] + [(each, -9.0) for each in "</>()"]
    raw.model = models.Unigram(list(map(tuple, vocabulary)), unk_id=2)
    raw.save(str(path := tmp_path / "tokenizer.json"))
    for library in (library_of(path.read_text()), read_apart(path)):
        tokenizer = ForeignTokenizer(library)  # type: ignore[arg-type]
        ids = tokenizer.encode(text)
        assert not any(map(tokenizer.is_special, ids)), ids
        assert "".join(map(tokenizer.piece, ids)) == "▁" + text.replace(" ", "▁")


def test_what_the_library_raises_there_is_a_refusal_here(tmp_path: Path) -> None:
    raw = tokenizers.Tokenizer(models.Unigram([("a", -1.0), ("b", -1.0)], unk_id=None))
    raw.save(str(tmp_path / "tokenizer.json"))
    tokenizer = ForeignTokenizer(read_apart(tmp_path / "tokenizer.json"))  # type: ignore[arg-type]
    with pytest.raises(Refusal, match=r"no token for these characters.*: é"):
        tokenizer.encode("abé")
    assert tokenizer.encode("ab") == [0, 1], "the process goes on"


def test_dropped_letters_are_named_there_too(tmp_path: Path) -> None:
    raw = tokenizers.Tokenizer(models.BPE({c: i for i, c in enumerate("theca")}, []))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.normalizer = normalizers.Lowercase()
    raw.save(str(tmp_path / "tokenizer.json"))
    tokenizer = ForeignTokenizer(read_apart(tmp_path / "tokenizer.json"))  # type: ignore[arg-type]
    assert tokenizer.unknown("THE dog") == ["d", "o", "g"]
