"""Tokens of other libraries' tokenizers: what is shown for them, and the marks around a text."""

import json
import re

import pytest
import tokenizers
from foreign import Golden, byte_level, dropping, metaspace, unigram, without_unknown, word_pieces
from tokenizers import models, pre_tokenizers, processors

from explorer import trace
from explorer.labels import SpecialToken, str_tokens
from explorer.library import open_model
from explorer.problems import InputProblem
from explorer.text import problem
from models.foreign.prompts import Template, template_of
from models.foreign.tokens import ForeignTokenizer, byte_alphabet, marks_of
from models.marks import library_of
from models.refusals import Refusal


def shown(raw: tokenizers.Tokenizer, text: str) -> list[str]:
    tokenizer = ForeignTokenizer(raw)
    return str_tokens(tokenizer, tokenizer.encode(text))


def test_the_byte_alphabet_is_that_of_the_library():
    alphabet = byte_alphabet()
    assert set(alphabet) == set(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    assert sorted(alphabet.values()) == list(range(256))
    assert alphabet["Ġ"] == ord(" ")


def test_a_character_cut_into_several_tokens_is_marked_as_shared():
    assert shown(byte_level(), "我爱 the") == ["我₁", "我₂", "我₃", "爱₁", "爱₂", "爱₃", "the"]
    assert shown(metaspace(), "我") == ["␣", "我₁", "我₂", "我₃"]


def test_a_token_that_ends_one_character_and_begins_another_shows_both():
    bytes_of = {byte: char for char, byte in byte_alphabet().items()}
    first, second = "我".encode(), "你".encode()
    joined = bytes_of[first[2]] + bytes_of[second[0]]
    raw = byte_level(joined)
    ids = [raw.token_to_id(bytes_of[byte]) for byte in first[:2]]
    ids += [raw.token_to_id(joined), *(raw.token_to_id(bytes_of[byte]) for byte in second[1:])]
    assert str_tokens(ForeignTokenizer(raw), ids) == ["我₁", "我₂", "我₃你₁", "你₂", "你₃"]


def test_bytes_that_make_no_character_are_shown_as_numbers_and_never_as_a_replacement():
    raw = byte_level()
    (first, *_) = raw.encode("我").ids
    assert str_tokens(ForeignTokenizer(raw), [first, 5000]) == ["<E6>", "<5000>"]
    ids = raw.encode("the 我 我").ids
    assert ForeignTokenizer(raw).decode(ids) == "the 我 我"
    assert ForeignTokenizer(raw).decode([*ids[:-1], raw.token_to_id("<|endoftext|>")]) == (
        "the 我 <E6><88>"
    )


def test_pieces_inside_a_word_and_blanks():
    assert shown(byte_level(), "the then") == ["t", "·he", "the", "·n"]
    assert shown(metaspace(), "the then.") == ["the", "the", "·n", "."]
    assert shown(word_pieces(), "She loves 你") == ["she", "love", "·s", "你"]
    assert shown(unigram(), "I love 你") == ["I", "love", "␣", "你"]


@pytest.mark.parametrize("text", ["We</s>went to the park", "</s>", "a<unk> b <pad", "(</s>)"])
def test_a_special_token_that_is_typed_is_text_for_a_unigram_model(text):
    """With the characters that the text has."""
    raw = unigram()
    vocabulary = json.loads(raw.to_str())["model"]["vocab"] + [(each, -9.0) for each in "</>()"]
    raw.model = models.Unigram(list(map(tuple, vocabulary)), unk_id=2)
    tokenizer = ForeignTokenizer(library_of(raw.to_str()))
    ids = tokenizer.encode(text)
    assert not any(map(tokenizer.is_special, ids)), ids
    assert "".join(map(tokenizer.piece, ids)) == "▁" + text.replace(" ", "▁")


def test_a_mask_is_typed_as_one_and_the_word_behind_it_keeps_its_blank():
    raw = byte_level()
    raw.add_special_tokens(["<mask>"])
    tokenizer = ForeignTokenizer(raw)
    mask = raw.token_to_id("<mask>")
    ids = tokenizer.encode("in [MASK] the [MASK]")
    assert ids == [*raw.encode("in").ids, mask, *raw.encode(" the").ids, mask]
    assert ForeignTokenizer(word_pieces()).encode("[MASK] you")[0] == 4
    assert tokenizer.encode("in <mask> the <mask>") == ids, "as the tokenizer calls it"
    assert tokenizer.has_mask("in <mask> the")
    assert not tokenizer.has_mask("in <MASK> the")
    assert not ForeignTokenizer(byte_level()).has_mask("in <mask> [MASK] the")


def test_marks_come_from_the_names_in_the_folder_then_from_the_ids_of_the_config():
    raw = metaspace()
    named = marks_of(raw, {"eos_token": "</s>", "pad_token": "<unk>"}, {"eos_token_id": 7})
    assert (named.end, named.pad) == (2, 0)
    assert marks_of(raw, {}, {"eos_token_id": [2, 5], "pad_token_id": 10**6}).end == 2
    assert marks_of(raw, {}, {"pad_token_id": 10**6}).pad is None
    several = marks_of(raw, {"eos_token": "</s>"}, {"eos_token_id": [1, 2, 0, 5, None, 10**6]})
    assert (several.end, several.further_ends) == (2, (1, 0, 5))
    assert [token for token in range(9) if several.ends(token)] == [0, 1, 2, 5]
    assert 2 in several
    assert 5 not in several, "an ordinary word that ends an output"
    assert marks_of(raw, {}, {}).start == 1


def test_prompt_marks_are_tokens_where_the_model_has_them_and_text_elsewhere():
    raw = byte_level()
    raw.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer = ForeignTokenizer(
        raw, template=Template("{{ '<|im_start|>' + role + '<|im_end|>' }}")
    )
    text = "<|im_start|>user\nthe 我<|im_end|>\n<|im_start|>assistant\n"
    ids = tokenizer.encode(text)
    whole = tokenizers.Tokenizer.from_str(raw.to_str())
    whole.encode_special_tokens = False
    assert ids == whole.encode(text, add_special_tokens=False).ids
    assert ids == tokenizer.encode(text.replace("\n", "↵")), "as in links of earlier versions"
    labels = str_tokens(tokenizer, ids)
    assert [label for label in labels if isinstance(label, SpecialToken)] == [
        *("<|im_start|>", "<|im_end|>", "<|im_start|>")
    ]
    assert labels[5:14] == ["↵", "t", "·he", "␣", "我₁", "我₂", "我₃", "<|im_end|>", "↵"]
    assert len(ForeignTokenizer(raw).encode(text)) > len(ids)  # spelled out, letter by letter
    assert tokenizer.encode("<|endoftext|>") == ForeignTokenizer(raw).encode("<|endoftext|>")


FAILS = "{{ 1 // 0 }}"
SEVERAL = [{"name": "tool", "template": "?"}, {"name": "default", "template": FAILS}]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chat_template.jinja", FAILS),
        ("tokenizer_config.json", json.dumps({"chat_template": FAILS})),
        ("tokenizer_config.json", json.dumps({"chat_template": SEVERAL})),
    ],
)
def test_the_template_of_a_folder_is_read_and_not_run(tmp_path, name, content):
    assert template_of(tmp_path, {}) is None
    (tmp_path / name).write_text(content, encoding="utf-8")
    template = template_of(tmp_path, {"eos_token": "</s>"})
    assert template == Template(FAILS, {"eos_token": "</s>"})


def test_an_added_token_of_a_byte_level_vocabulary_stands_for_its_own_text():
    """Their letters are in the alphabet of bytes too, where "đ" is the byte 0x11."""
    raw = byte_level()
    raw.add_tokens(["đem", "čas", "hello"])
    tokenizer = ForeignTokenizer(raw)
    text = "the đem, čas hello 我"
    ids = tokenizer.encode(text)
    assert [raw.token_to_id(each) in ids for each in ("đem", "čas", "hello")] == [True] * 3
    assert tokenizer.decode(ids) == text
    labels = str_tokens(tokenizer, ids)
    assert {"đem", "čas", "hello", "我₁"} <= set(labels)


def test_a_tokenizer_whose_unknown_token_is_null_refuses_and_names_the_characters():
    tokenizer = ForeignTokenizer(without_unknown())
    assert tokenizer.decode(tokenizer.encode("the cat")) == "the cat"
    with pytest.raises(Refusal, match=r"no token for these characters.*: é ö\. Remove them"):
        tokenizer.encode("the café sö")
    assert tokenizer.encoded("the café") == []
    assert tokenizer.unknown("the cat") == []


def test_characters_that_a_tokenizer_drops_are_named():
    raw = dropping()
    tokenizer = ForeignTokenizer(raw)
    assert tokenizer.unknown("the dog sat") == ["d", "o", "g"]
    assert tokenizer.drops("d")
    assert tokenizer.unknown("the cat") == []
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()  # then a blank is left of "d"
    assert ForeignTokenizer(raw).unknown("the dog") == ["d", "o", "g"]
    raw.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.NFD(), tokenizers.normalizers.StripAccents()]
    )
    assert ForeignTokenizer(raw).unknown("thé the\u0301 ö") == ["ö"], "an accent is no loss"


def test_what_is_unknown_is_named_as_the_tokenizer_knows_it_under_any_name():
    words = {"[UNK]": 0, "hello": 1, "a": 2}
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = ForeignTokenizer(raw)
    assert tokenizer.unknown("hello world a") == ["world"], "hello needs no letters of its own"
    assert not tokenizer.drops("world")
    assert ForeignTokenizer(word_pieces()).unknown("she ① 我") == ["①"]
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0, "a": 1}, unk_token="?"))
    assert ForeignTokenizer(raw).marks.unknown == 0
    pieces = [("a", -1.0), ("what", -2.0), ("<unk>", -3.0)]
    raw = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=1))
    assert ForeignTokenizer(raw).unknown("aé") == ["é"], "though there is an <unk>"


def test_what_marks_the_inside_or_the_end_of_a_word_is_not_shown():
    pieces = ["c", "@@a", "@@t", "[UNK]"]
    vocabulary = {piece: at for at, piece in enumerate(pieces)}
    options = {"unk_token": "[UNK]", "continuing_subword_prefix": "@@"}
    raw = tokenizers.Tokenizer(models.WordPiece(vocabulary, **options))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    assert shown(raw, "cat ca") == ["c", "·a", "·t", "c", "·a"]
    for first, blank in ((pre_tokenizers.Whitespace(), ""), (pre_tokenizers.ByteLevel(False), "Ġ")):
        pieces = ["c", "a", "t</w>", "t", "a</w>", "</w>", "ca", "cat</w>", "Ġ"]
        merges = [("c", "a"), ("ca", "t</w>")]
        vocabulary = {piece: at for at, piece in enumerate(pieces)}
        raw = tokenizers.Tokenizer(models.BPE(vocabulary, merges, end_of_word_suffix="</w>"))
        raw.pre_tokenizer = first
        labels = ["cat", *(["␣"] if blank else []), "c", "a"]
        assert [each.strip("·") for each in shown(raw, "cat ca")] == labels


def test_a_token_beyond_the_model_is_refused_however_it_is_matched():
    """Two blanks, which a normalizer makes one: then each blank is this token."""
    raw = unigram()
    size = raw.get_vocab_size()
    raw.add_tokens([tokenizers.AddedToken("  ", normalized=True)])
    tokenizer = ForeignTokenizer(raw)
    tokenizer.fit(size)
    with pytest.raises(Refusal, match="the text contains"):
        tokenizer.encode("I love")


def test_two_texts_are_read_as_the_library_reads_a_pair():
    """With one special token between them or two; a template with other types is not used."""
    one, other = "I like you", "She reads a book."
    templates = {"[CLS] [SEP] [SEP]:1": 2, "[CLS] [SEP] [SEP] [SEP]": 1, "[CLS] [SEP] [SEP]": 0}
    for template, n_types in templates.items():
        raw, (cls, *middle, sep) = word_pieces(), template.split()
        raw.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair=" ".join((cls, "$A", *middle, "$B:1", sep)) if n_types else "$A [SEP] $B",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
        tokenizer = ForeignTokenizer(raw)
        before, behind = tokenizer.around()
        tokenizer.between = tokenizer.pair(n_types or 1)
        assert (tokenizer.between is None) == (not n_types)
        read = (*before, *tokenizer.encode(f"{one} [SEP] {other}"), *behind)
        assert ("[" in tokenizer.unknown(f"{one} [SEP] {other}")) == (not n_types)
        assert (list(read) == raw.encode(one, other).ids) == bool(n_types)
        if n_types == 1:  # its types are not those of a model with two
            assert tokenizer.pair(2) is None
    assert ForeignTokenizer(byte_level()).pair(1) is None


def test_the_post_processor_is_asked_and_no_text():
    """A vocabulary without the letter of a probe, as of a model that reads genes."""
    vocabulary = {each: i for i, each in enumerate(["[CLS]", "[SEP]", *"ACGT"])}
    raw = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    raw.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))
    assert ForeignTokenizer(raw).around() == ((0,), (1,))
    for single in ("[CLS]", "$A $A"):
        raw.post_processor = tokenizers.processors.TemplateProcessing(
            single=single, pair="$A $B", special_tokens=[("[CLS]", 0)]
        )
        with pytest.raises(Refusal, match="does not keep the text in one piece"):
            ForeignTokenizer(raw).around()


def test_blanks_at_the_ends_are_as_in_the_library_where_a_model_reads_pairs():
    raw = word_pieces()
    raw.normalizer = None
    tokenizer = ForeignTokenizer(raw)
    tokenizer.between = (3,)
    raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    text = " you "
    assert tokenizer.encode(text) == raw.encode(text, add_special_tokens=False).ids
    assert len(tokenizer.encode(text)) > len(tokenizer.encode("you"))


def test_a_tokenizer_that_gives_no_certain_tokens_is_refused(tmp_path):
    """It cuts at random, or two tokens have one id, so that labels would be false."""
    Golden.load("llama").write(tmp_path / "llama")
    for change, said in (
        ({"dropout": 0.1}, r"dropout is 0\.1"),
        ({"vocab": {"a": 0, "b": 1, "c": 1}, "merges": []}, r"share the token id 1"),
    ):
        told = json.loads(byte_level().to_str())
        told["model"] |= change
        (tmp_path / "llama" / "tokenizer.json").write_text(json.dumps(told))
        with pytest.raises(InputProblem, match="broken_model") as raised:
            open_model("llama", tmp_path)
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
