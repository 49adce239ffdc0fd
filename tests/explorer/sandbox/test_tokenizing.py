"""A stranger's tokenizer, asked in a process of its own, says what the library's own would say."""

from pathlib import Path

import pytest
import tokenizers
from foreign import TOKENIZERS
from tokenizers import models, normalizers, pre_tokenizers

from explorer.labels import str_tokens
from explorer.sandbox.tokenizing import read_apart
from models.foreign.tokens import ForeignTokenizer
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
