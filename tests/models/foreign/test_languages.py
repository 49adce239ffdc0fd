"""Translators of many languages: which tokens stand around the texts of a pair of them."""

import pytest
from foreign import CODES, change_config, of_many

from explorer.library import open_model
from explorer.problems import InputProblem
from explorer.runs.trace import trace
from models.foreign import open_folder
from models.foreign.languages import split_languages


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
