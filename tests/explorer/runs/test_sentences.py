import pytest
from hypothesis import given, strategies as st

from explorer.problems import InputProblem
from explorer.runs.sentences import (
    FILE_TYPES,
    MAX_CHARS,
    MAX_FILE_BYTES,
    MAX_SENTENCES,
    clean_text,
    dropped,
    header_in,
    pairs_in,
    sentences_from_file,
)

anything = st.text(st.characters(), max_size=60)  # lone surrogates and all


def refused(key: str, name: str, data: bytes) -> dict[str, str | int | float]:
    with pytest.raises(InputProblem) as caught:
        sentences_from_file(name, data)
    assert caught.value.key == key
    return caught.value.values


@pytest.mark.parametrize(
    ("typed", "cleaned"),
    [
        ("  I love\r\n\tyou.\u2028 ", "  I love\r\n\tyou.\u2028 "),
        ("bell\x07 and\x00 null\x1b[0m", "bell and null[0m"),
        ("\ufeffmark", "mark"),
        ("abc\u202edcba", "abcdcba"),
        ("שלום \u200fעולם", "שלום \u200fעולם"),
        ("👩\u200d👩\u200d👧 ok 🇨🇳", "👩\u200d👩\u200d👧 ok 🇨🇳"),
        ("我\u3000爱\x1f你", "我\u3000爱你"),
        ("a\ud800b", "ab"),
    ],
)
def test_what_cleaning_does(typed, cleaned) -> None:
    assert clean_text(typed) == cleaned
    assert set(dropped(typed)) == set(typed) - set(cleaned)


@given(anything)
def test_cleaning_twice_changes_nothing_more(text) -> None:
    problem = None
    try:
        cleaned = clean_text(text)
    except InputProblem as caught:
        problem = caught.key
    if problem is None:
        assert clean_text(cleaned) == cleaned
        cleaned.encode()  # no lone surrogate is left
    else:
        assert problem in ("empty", "whitespace_only", "nothing_left")


@pytest.mark.parametrize(
    ("text", "key"),
    [("", "empty"), (" \n\t\u3000", "whitespace_only"), ("\x00\x07", "nothing_left")],
)
def test_text_without_text_is_refused(text, key) -> None:
    with pytest.raises(InputProblem) as caught:
        clean_text(text)
    assert caught.value.key == key


def test_the_limit_of_characters_is_exact() -> None:
    assert len(clean_text("a" * (MAX_CHARS - 2) + " \n")) == MAX_CHARS
    with pytest.raises(InputProblem) as caught:
        clean_text("a" * (MAX_CHARS + 1))
    assert caught.value.values == {"limit": MAX_CHARS, "length": MAX_CHARS + 1}


@given(
    st.sampled_from([*FILE_TYPES, ".pdf", ""]),
    st.binary(max_size=80) | anything.map(lambda text: text.encode("utf-8", "surrogatepass")),
)
def test_any_file_is_sentences_or_a_problem(suffix, data) -> None:
    try:
        sentences = sentences_from_file(f"file{suffix}", data)
    except InputProblem:
        return
    assert sentences
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
def test_chinese_text_in_every_encoding_that_is_taken(encoding) -> None:
    data = "我爱你。\r\n\r\n今天天气很好，我们去公园吧。\n".encode(encoding)
    assert sentences_from_file("a.TXT", data) == ("我爱你。", "今天天气很好，我们去公园吧。")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Le café est très agréable, garçon !", "latin-1"),
        ("Привет, как твои дела сегодня?", "koi8-r"),
        ("今日はとても良い天気ですね。", "shift-jis"),
        ("今日はとても良い天気ですね。", "euc-jp"),  # 1 in 14 of what GB18030 makes of it is common
        ("안녕하세요 오늘 날씨가 좋네요", "euc-kr"),
    ],
)
def test_another_old_encoding_is_refused_and_not_shown_as_gibberish(text, encoding) -> None:
    assert refused("file_encoding", "a.txt", text.encode(encoding))["name"] == "a.txt"


def test_tables() -> None:
    named = b'id,Source,target\n1,"Hello, you","ni, hao"\n2,Bye,\n3\n'
    assert sentences_from_file("a.csv", named) == ("Hello, you", "Bye")
    unnamed = b"1,Hello,x\n2,Bye,y\n"
    assert sentences_from_file("a.csv", unnamed) == ("Hello", "Bye")
    semicolons = b"1;Ja, gut;ok\n2;Nein;ok\n"
    assert sentences_from_file("a.csv", semicolons) == ("Ja, gut", "Nein")
    bare_quotes = b'"Hi," he said.\tx\n"quoted ""so"""\ty\n'
    assert sentences_from_file("a.tsv", bare_quotes) == ('"Hi," he said.', 'quoted "so"')
    header_only_in_first_row = b"Hello\ntext\n"
    assert sentences_from_file("a.csv", header_only_in_first_row) == ("Hello", "text")


@pytest.mark.parametrize(
    ("name", "table", "sentences", "pair"),
    [
        ("a.csv", "label,review\n1,A fine film.\n0,Too long.\n", ("A fine film.", "Too long."), ""),
        ("a.csv", "User,Comment Text\nann,Well said.\n", ("Well said.",), ""),
        ("a.tsv", "en\tzh\nWe left.\t我们走了。\n", ("We left.",), "我们走了。"),
        ("a.csv", "English,Chinese\nWe left.,我们走了。\n", ("We left.",), "我们走了。"),
        ("a.csv", "A good review,1\nA bad text,0\n", ("A good review", "A bad text"), "1"),
    ],
)
def test_a_header_is_recognised_and_skipped(name, table, sentences, pair) -> None:
    assert sentences_from_file(name, table.encode()) == sentences
    assert pairs_in(name, table.encode())[0] == (sentences[0], pair)
    first = table.partition("\n")[0].replace("\t", ",").split(",")
    assert header_in(name, table.encode()) == ([] if sentences[0] in first else first)


def test_file_limits_and_their_values() -> None:
    assert refused("file_type", "a.docx", b"x")["allowed"] == ".txt, .csv, .tsv"
    too_large = refused("file_too_large", "a.txt", b"a" * (MAX_FILE_BYTES + 1))
    assert (too_large["limit"], too_large["size"]) == (MAX_FILE_BYTES, MAX_FILE_BYTES + 1)
    assert len(sentences_from_file("a.txt", b"a\n" * MAX_SENTENCES)) == MAX_SENTENCES
    assert refused("too_many_sentences", "a.txt", b"a\n" * (MAX_SENTENCES + 1))["limit"] == 1000
    refused("file_empty", "a.txt", b"\xef\xbb\xbf \n\n")
    refused("file_empty", "a.csv", b"1,2\n3,4\n")
    refused("file_table", "a.csv", b'"' + b"x" * 200_000)
