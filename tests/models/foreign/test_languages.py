"""Translators of many languages, and Marian's two SentencePiece models."""

import json
import shutil
from pathlib import Path

import pytest
from foreign import CODES, GOLDEN, Golden, change_config, of_many, refused

from explorer.library import open_model
from explorer.problems import InputProblem
from explorer.runs.trace import trace
from models.foreign import open_folder
from models.foreign.languages import split_languages
from models.foreign.sentencepieces import read_unigram
from models.rows import Rows


def test_nllb_names_the_source_before_a_text_and_the_target_at_the_start(tmp_path):
    folder, raw = of_many(tmp_path / "nllb", "eng_Latn $A </s>", decoder_start_token_id=1)
    ids = {code: raw.token_to_id(code) for code in CODES}
    loaded = open_model(folder)
    assert tuple(loaded.languages) == CODES
    assert loaded.pair == ("eng_Latn", "zho_Hans"), "the tokenizer's own, and a large one"
    assert loaded.model.with_marks("src", [9]) == (ids["eng_Latn"], 9, 1)
    assert loaded.model.with_marks("tgt", [9]) == (1, ids["zho_Hans"], 9)
    other = loaded.speaking("fra_Latn", "deu_Latn")
    assert other.name == "nllb@fra_Latn-deu_Latn"
    assert other.pair == ("fra_Latn", "deu_Latn")
    assert other.model.with_marks("src", [9]) == (ids["fra_Latn"], 9, 1)
    assert loaded.pair == ("eng_Latn", "zho_Hans"), "the shared model is as before"
    assert other.model.encoder is loaded.model.encoder, "the weights are the same"
    traced = trace(other, "I like you.")
    assert traced.src_tokens[0] == ids["fra_Latn"]
    assert traced.tgt_tokens[:2] == (1, ids["deu_Latn"])
    logits = [trace(each, "I like you.").src_tokens for each in (loaded, other)]
    assert logits[0] != logits[1]
    with pytest.raises(InputProblem):
        loaded.speaking("fra_Latn", "xxx_Latn")


def test_mbart_names_the_source_behind_a_text_and_begins_with_the_target(tmp_path):
    codes = ("en_XX", "ro_RO", "zh_CN")
    folder, raw = of_many(tmp_path / "mbart", "$A </s> en_XX", codes, "mbart")
    ids = {code: raw.token_to_id(code) for code in codes}
    change_config(folder, decoder_start_token_id=ids["ro_RO"])
    loaded = open_model(folder)
    assert loaded.pair == ("en_XX", "ro_RO")
    assert loaded.model.with_marks("src", [9]) == (9, 1, ids["en_XX"])
    assert loaded.model.with_marks("tgt", [9]) == (ids["ro_RO"], 9)
    other = loaded.speaking("zh_CN", "en_XX").model
    assert other.with_marks("src", [9]) == (9, 1, ids["zh_CN"])
    assert other.with_marks("tgt", [9]) == (ids["en_XX"], 9)


def test_a_source_has_its_own_start_where_the_decoder_has_another(tmp_path):
    """BART: `<s>` and `</s>` around a source, and `</s>` before what is written."""
    folder, raw = of_many(tmp_path / "bart", "<s> $A </s>", (), "bart", decoder_start_token_id=1)
    model = open_folder(folder).model
    assert model.with_marks("src", [9]) == (raw.token_to_id("<s>"), 9, 1)
    assert model.with_marks("tgt", [9]) == (1, 9)
    assert open_model(folder).languages == {}


def test_a_pair_is_part_of_a_name():
    assert split_languages("a/b@eng_Latn-zho_Hans") == ("a/b", ("eng_Latn", "zho_Hans"))
    assert split_languages("m2m@__en__-__zh__") == ("m2m", ("__en__", "__zh__"))
    assert split_languages("mbart@en_XX-ro_RO") == ("mbart", ("en_XX", "ro_RO"))
    for name in ("reverse@40", "mine@3", "nllb@eng_Latn", "nllb", "x@y-z"):
        assert split_languages(name) == (name, None)


# Marian's two SentencePiece models, read without `sentencepiece`, cut texts as it does.
CUT = json.loads((GOLDEN / "pieces.json").read_text(encoding="utf-8"))


@pytest.fixture
def folder(tmp_path) -> Path:
    """A Marian model as people have it: no tokenizer.json, but two models and a table of ids."""
    names = [piece for side in CUT.values() for text in side.values() for piece in text]
    ids = {name: i for i, name in enumerate(dict.fromkeys(["</s>", "<unk>", ">>zho<<", *names]))}
    ids["<pad>"] = len(ids)
    folder = tmp_path / "tiny"
    Golden.load("marian").write(folder, vocab=len(ids))
    (folder / "tokenizer.json").unlink()
    pad = ids["<pad>"]
    change_config(folder, eos_token_id=0, pad_token_id=pad, decoder_start_token_id=pad)
    for name in ("source.spm", "target.spm"):
        shutil.copy(GOLDEN / name, folder / name)
    (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    return folder


@pytest.mark.parametrize("side", CUT)
def test_texts_are_cut_as_sentencepiece_cuts_them(side):
    model = read_unigram(GOLDEN / f"{side}.spm")
    for text, pieces in CUT[side].items():
        assert model.encode(text).tokens == pieces, text


def test_a_text_is_read_by_one_model_and_written_by_the_other(folder):
    loaded = open_folder(folder)
    tokenizer, text = loaded.tokenizer.of("src"), "We loved the parks, 我 too."
    written = loaded.tokenizer.encode(text)
    ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    assert tokenizer.encode(text) == [ids[piece] for piece in CUT["source"][text]]
    assert written == [ids[piece] for piece in CUT["target"][text]] != tokenizer.encode(text)
    assert tokenizer.encode(f">>zho<< {text}") == [ids[">>zho<<"], *tokenizer.encode(text)]
    assert tokenizer.encode("ж")[-1] == tokenizer.marks.unknown
    assert tokenizer.decode(tokenizer.encode("I love you.")) == "I love you."
    assert loaded.tokenizer.marks.start == tokenizer.marks.pad == ids["<pad>"]
    assert loaded.model.with_marks("src", [7]) == (7, 0)
    assert loaded.model.with_marks("tgt", [7]) == (ids["<pad>"], 7)


def test_each_language_may_have_a_table_of_its_own(folder):
    ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    first, *rest = ids
    turned = dict(zip([first, *reversed(rest)], ids.values(), strict=True))
    (folder / "target_vocab.json").write_text(json.dumps(turned), encoding="utf-8")
    text = "We loved the parks, 我 too."
    shared = open_folder(folder).tokenizer  # one matrix, two tables
    assert shared.of("tgt").encode(text) == [turned[piece] for piece in CUT["target"][text]]
    Golden.load("marian-apart").write(weights := folder.parent / "weights", vocab=len(ids))
    shutil.copy(weights / "model.safetensors", folder / "model.safetensors")
    change_config(folder, share_encoder_decoder_embeddings=False, decoder_vocab_size=len(ids))
    found = open_folder(folder)
    written, read = (found.tokenizer.of(side) for side in ("tgt", "src"))
    assert read.encode(text) == [ids[piece] for piece in CUT["source"][text]]
    assert written.encode(text) == [turned[piece] for piece in CUT["target"][text]]
    assert written.decode(written.encode("我")) == "我"
    assert found.config.src_vocab_size == found.config.vocab_size == len(ids)
    rows = Rows.of([[5, 6], [5]], [[7], [7, 8]], found.tokenizer.marks)
    assert (rows.tokens("src")[0, 1], rows.tgt[1, 1]) == (ids["<pad>"], turned["<pad>"])
    assert ids["<pad>"] != turned["<pad>"]
    shutil.copy(weights / "tokenizer_config.json", folder / "tokenizer.json")
    (folder / "target_vocab.json").unlink()
    refused(folder, "target_vocab.json is missing")  # one tokenizer cannot stand for two


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("source.spm", b"\x0a\xff", "source.spm is not a SentencePiece model"),
        ("target.spm", b"", "target.spm is not a SentencePiece model"),
        ("vocab.json", b"{", "vocab.json"),
        ("vocab.json", b'{"a": 0, "b": 5}', "its ids are not 0, 1, 2"),
        ("vocab.json", b"[]", "vocab.json"),
    ],
)
def test_what_is_broken_is_named(folder, name, content, said):
    (folder / name).write_bytes(content)
    refused(folder, said)
    (folder / name).unlink()
    refused(folder, name if name != "source.spm" else "tokenizer.json")
