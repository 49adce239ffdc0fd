"""The tokenizer: what goes in comes out, and what is shown is readable in both scripts."""

import unicodedata

import pytest
import tokenizers
from hypothesis import given, strategies as st

from explorer.labels import str_tokens
from models.marks import OUR_MARKS, Marks
from models.tokenizer import SPECIAL_TOKENS, Tokenizer
from models.training.vocabulary import train_tokenizer

ENGLISH = ["The quick brown fox jumps over the lazy dog.", "Don't pay 250 dollars, Tom!"]
CHINESE = ["我喜欢你。", "你好吗？我很好，谢谢。", "他们喜欢这只狗。"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer((ENGLISH + CHINESE) * 3, vocab_size=200)


def test_texts_of_the_corpus_come_back(tokenizer):
    for text in ENGLISH + CHINESE:
        ids = tokenizer.encode(text)
        assert tokenizer.marks.unknown not in ids
        assert tokenizer.decode(ids) == text


def test_neither_place_nor_white_space_changes_a_word_and_digits_stand_alone(tokenizer):
    fox, both = tokenizer.encode("fox"), tokenizer.encode("the fox")
    assert both[-len(fox) :] == fox
    assert tokenizer.encode("  the \n fox ") == both
    assert str_tokens(tokenizer, tokenizer.encode("250")) == ["2", "5", "0"]


def test_texts_of_one_word_lose_no_character():
    """The blank that is put before each took the place of one of them."""
    words = [*"1234", "ab"] * 2
    learned = train_tokenizer(words, 40)
    assert [learned.decode(learned.encode(each)) for each in words] == words


def test_special_tokens_are_text_when_typed_and_shown_but_not_decoded(tokenizer):
    marks = tokenizer.marks
    for token in SPECIAL_TOKENS:
        typed = tokenizer.encode(f"the {token} dog")
        assert not {marks.pad, marks.start, marks.end} & set(typed)
    ids = [marks.start, *tokenizer.encode("我喜欢"), marks.end, marks.pad]
    shown = str_tokens(tokenizer, ids)
    assert (shown[0], *shown[-2:]) == ("<s>", "</s>", "<pad>")
    assert "".join(shown[1:-2]) == "我喜欢"
    assert tokenizer.decode(ids) == "我喜欢"


def test_a_piece_inside_a_word_is_marked_and_a_chinese_one_is_not(tokenizer):
    shown = str_tokens(tokenizer, tokenizer.encode("foxdog"))
    assert len(shown) > 1
    assert not shown[0].startswith("·")
    assert all(s.startswith("·") for s in shown[1:])
    assert not any("·" in s for s in str_tokens(tokenizer, tokenizer.encode("你好吗我很好")))


def test_unknown_characters_are_named_once_each(tokenizer):
    assert tokenizer.unknown("我 😀 fox 😀 龘") == ["😀", "龘"]
    assert tokenizer.marks.unknown in tokenizer.encode("😀")


@given(st.text(max_size=40))
def test_any_text_can_be_encoded_and_shown(tokenizer, text):
    ids = tokenizer.encode(text)
    shown = str_tokens(tokenizer, ids)
    assert len(shown) == len(ids)
    assert all(s and "�" not in s for s in shown if "�" not in text)
    if not tokenizer.unknown(unicodedata.normalize("NFC", text)):
        # Blanks apart, nothing is lost.
        kept = "".join(unicodedata.normalize("NFC", text).split())
        assert "".join(tokenizer.decode(ids).split()) == kept


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"version": "1.0"}'])
def test_a_file_that_is_no_tokenizer_is_refused(content, tmp_path):
    (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="not a usable tokenizer"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def words_only(*special: str) -> tokenizers.Tokenizer:
    """A tokenizer of whole words that knows "the" and "cat" and these special tokens."""
    vocabulary = {token: i for i, token in enumerate((*special, "the", "cat"))}
    unknown = "[UNK]" if "[UNK]" in special else "<unk>"
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=unknown))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.add_special_tokens(list(special))
    return made


@pytest.mark.parametrize(
    ("special", "marks"),
    [
        (("<|endoftext|>",), Marks(start=0, end=0)),  # GPT-2
        (
            ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),  # BERT
            Marks(pad=0, unknown=1, start=2, end=3, separator=3, mask=4),
        ),
        ((), Marks()),
        (SPECIAL_TOKENS, OUR_MARKS),
    ],
)
def test_marks_are_found_by_their_usual_names(special, marks):
    tokenizer = Tokenizer(words_only(*special))
    assert tokenizer.marks == marks
    n = len(special)
    assert [tokenizer.is_special(i) for i in range(n + 2)] == [True] * n + [False] * 2
    assert tokenizer.encode("the cat") == [n, n + 1]


def test_given_marks_win_and_are_special():
    tokenizer = Tokenizer(words_only("a", "b"), Marks(pad=1, start=1, end=0))
    assert (tokenizer.marks.pad, tokenizer.marks.start) == (1, 1)
    assert None not in tokenizer.marks
    assert 1 in tokenizer.marks
    assert not tokenizer.unknown("x"), "a tokenizer without a mark for it knows nothing of unknowns"


def test_a_mask_can_be_typed_and_only_where_there_is_one(tokenizer):
    bert = Tokenizer(words_only("[MASK]"))
    assert bert.encode("the [MASK] cat") == [1, 0, 2]
    assert bert.encode("[MASK][MASK]") == [0, 0]
    with_unknown = Tokenizer(words_only("[MASK]", "[UNK]"))
    assert with_unknown.unknown("[MASK] x") == ["x"], "a mask is not read as characters"
    assert bert.encode("[MASK] cat") == [0, 2]
    assert tokenizer.marks.mask is None
    typed = set(tokenizer.encode("the [MASK] dog"))
    assert typed.isdisjoint({tokenizer.marks.pad, tokenizer.marks.start, tokenizer.marks.end})
    assert len(typed) > 3, "its letters and brackets are text"


def test_a_letter_and_its_accent_may_be_one_token():
    """Neither of the two characters is unknown, since the normalizer joins them."""
    vocab = {"<unk>": 0, "é": 1, "a": 2}
    raw = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, [], unk_token="<unk>"))
    raw.normalizer = tokenizers.normalizers.NFC()
    tokenizer = Tokenizer(raw)
    assert tokenizer.unknown("ae\u0301") == []
    assert tokenizer.unknown("ae\u0301 z") == ["z"]
