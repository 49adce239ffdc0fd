import pickle
import time
from contextlib import suppress

import pytest
import torch
from hypothesis import given, strategies as st
from tables import drawn

from explorer.problems import InputProblem
from explorer.runs.edits import (
    MOST_EDITS,
    SIZE_PARTS,
    USUAL_MASKS,
    CellEdit,
    HeadOff,
    KeyHidden,
    MaskSize,
    MaskSwitch,
    format_edits,
    paint,
    parse_edits,
)
from explorer.runs.sentences import (
    MAX_CHARS,
    MAX_FILE_BYTES,
    MAX_LINES,
    MAX_SENTENCES,
    clean_text,
    dropped,
    header_in,
    pairs_in,
    sentences_from_file,
)
from models.masks import block_mask, causal_mask, prefix_mask, window_mask

sites = st.from_regex(r"(encoder\.|decoder\.)?blocks\.[0-9]{1,2}\.(cross_)?attn", fullmatch=True)
small = st.integers(0, 9999)
edits = st.lists(
    st.one_of(
        st.builds(MaskSwitch, st.sampled_from(sorted(USUAL_MASKS)), st.booleans()),
        st.builds(MaskSize, st.sampled_from(SIZE_PARTS), st.integers(1, 9999)),
        st.builds(HeadOff, sites, small),
        st.builds(KeyHidden, st.sampled_from(["src", "tgt"]), small),
        st.builds(CellEdit, sites, st.none() | small, small, small, st.booleans()),
    ),
    max_size=6,
).map(tuple)


@given(edits)
def test_edits_come_back_from_a_link(these):
    written = format_edits(these)
    assert parse_edits(written) == these
    assert all(char.isascii() and (char.isalnum() or char in "-._~") for char in written)


BAD = """
    causal causal-of casual-off causal-off~ window-0 window-on prefix--1
    head-decoder.blocks.0.attn head-decoder.blocks.0.attn--1 head-x-١
    cell-x-all-1-2 cell-x-all-1-2-ajar cell-x-all-1-12345-open
    cells-decoder-all-open cells-decoder-all-open-1.2.3 cells-decoder-all-open-1.2-
    cells-decoder-all-ajar-1.2
"""


@pytest.mark.parametrize("text", BAD.split())
def test_a_bad_edit_is_named(text):
    with pytest.raises(InputProblem) as caught:
        parse_edits(text)
    assert caught.value.key == "bad_edit"
    assert caught.value.values["edit"] in text


def test_the_link_text_is_short_readable_and_not_endless():
    these = (MaskSwitch("causal", False), CellEdit("decoder.blocks.0.attn", None, 2, 3, True))
    assert format_edits(these) == "causal-off~cells-decoder.blocks.0.attn-all-open-2.3"
    assert format_edits(()) == ""
    assert parse_edits("") == ()
    painted = [CellEdit("decoder", None, 1, key, False) for key in (0, 1)]
    painted += [CellEdit("decoder", 2, 1, 0, True)]
    text = "causal-off~cells-decoder-all-shut-1.0-1.1~cells-decoder-2-open-1.0"
    assert format_edits((MaskSwitch("causal", False), *painted)) == text
    assert parse_edits("cell-decoder-all-1-0-shut") == (painted[0],)  # as old links say it
    many = "cells-decoder-all-open" + "-1.2" * (MOST_EDITS + 1)
    with pytest.raises(InputProblem):
        parse_edits(many)


def test_a_problem_survives_pickling():
    problem = pickle.loads(pickle.dumps(InputProblem("too_long_chars", limit=3, length=5)))
    assert (problem.key, problem.values) == ("too_long_chars", {"limit": 3, "length": 5})


def test_a_stroke_and_its_opposite_leave_nothing_behind():
    before = (MaskSwitch("causal", False),)
    shut = paint(before, "decoder", None, [(1, 0), (1, 1)], open=False)
    assert shut == (*before, *(CellEdit("decoder", None, 1, key, False) for key in (0, 1)))
    assert paint(shut, "decoder", None, [(1, 1), (1, 0)], open=True) == before
    # Another scope is painted over, not taken back.
    assert len(paint(shut, "decoder", 2, [(1, 0)], open=True)) == 4


def same(mask, expected):
    assert mask.dtype == torch.bool
    assert mask.shape == expected.shape
    assert torch.equal(mask, expected)


def test_masks_of_prefixes_packed_texts_and_windows():
    same(prefix_mask(4, 2), drawn("xx..", "xx..", "xxx.", "xxxx"))
    same(prefix_mask(3, 0), causal_mask(3))
    mask = block_mask(torch.tensor([[0, 0, 1, 1, 1], [7, 7, 7, 7, 3]]))
    assert mask.shape == (2, 1, 5, 5)
    same(mask[0, 0], drawn("xx...", "xx...", "..xxx", "..xxx", "..xxx"))
    same(mask[1, 0], drawn("xxxx.", "xxxx.", "xxxx.", "xxxx.", "....x"))
    same(window_mask(4, window=2), drawn("xx..", "xxx.", ".xxx", "..xx"))
    same(window_mask(2, 5, offset=3, window=2), drawn("..xxx", "...xx"))
    same(window_mask(3, window=1), torch.eye(3, dtype=torch.bool))
    with pytest.raises(ValueError, match="window must be at least 1, not 0"):
        window_mask(3, window=0)


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
def test_what_cleaning_does(typed, cleaned):
    assert clean_text(typed) == cleaned
    assert set(dropped(typed)) == set(typed) - set(cleaned)


@given(anything)
def test_cleaning_twice_changes_nothing_more(text):
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
    ("text", "key", "values"),
    [
        ("", "empty", {}),
        (" \n\t\u3000", "whitespace_only", {}),
        ("\x00\x07", "nothing_left", {}),
        ("a" * (MAX_CHARS + 1), "too_long_chars", {"limit": MAX_CHARS, "length": MAX_CHARS + 1}),
    ],
)
def test_text_without_text_and_too_much_of_it_are_refused(text, key, values):
    with pytest.raises(InputProblem) as caught:
        clean_text(text)
    assert (caught.value.key, caught.value.values) == (key, values)
    assert len(clean_text("a" * (MAX_CHARS - 2) + " \n")) == MAX_CHARS


def test_a_paragraph_is_cut_into_sentences():
    assert sentences_from_file("a.txt", "Mr. Li sings! Why? 我不知道。他走了。".encode()) == (
        *("Mr. Li sings!", "Why?", "我不知道。", "他走了。"),
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
def test_chinese_text_in_every_encoding_that_is_taken(encoding):
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
def test_another_old_encoding_is_refused_and_not_shown_as_gibberish(text, encoding):
    assert refused("file_encoding", "a.txt", text.encode(encoding))["name"] == "a.txt"


def test_tables():
    named = b'id,Source,target\n1,"Hello, you","ni, hao"\n2,Bye,\n3\n'
    assert sentences_from_file("a.csv", named) == ("Hello, you", "Bye")
    unnamed = b"1,Hello,x\n2,Bye,y\n"
    assert sentences_from_file("a.csv", unnamed) == ("Hello", "Bye")
    semicolons = b"1;Ja, gut;ok\n2;Nein;ok\n"
    assert sentences_from_file("a.csv", semicolons) == ("Ja, gut", "Nein")
    bare_quotes = b'"Hi," he said.\tx\n"quoted ""so"""\ty\n'
    assert sentences_from_file("a.tsv", bare_quotes) == ('"Hi," he said.', 'quoted "so"')
    assert sentences_from_file("a.txt", b"def f(x):\n    if x:  \n \n") == (
        "def f(x):",
        "    if x:  ",
    )
    assert sentences_from_file("a.csv", b'1, Hello,"two\n  lines"\n') == (" Hello",)
    assert pairs_in("a.csv", b' Hello,"two\n  lines"\n') == ((" Hello", "two\n  lines"),)
    header_only_in_first_row = b"Hello\ntext\n"
    assert sentences_from_file("a.csv", header_only_in_first_row) == ("Hello", "text")


@pytest.mark.parametrize(
    ("name", "table", "sentences", "pair"),
    [
        ("a.csv", "label,review\n1,A fine film.\n0,Too long.\n", ("A fine film.", "Too long."), ""),
        ("a.csv", 'text,review\nA fine film.,good,"a third, unnamed"\n', ("A fine film.",), ""),
        ("a.csv", "User,Comment Text\nann,Well said.\n", ("Well said.",), ""),
        ("a.tsv", "en\tzh\nWe left.\t我们走了。\n", ("We left.",), "我们走了。"),
        ("a.csv", "English,Chinese\nWe left.,我们走了。\n", ("We left.",), "我们走了。"),
        ("a.csv", "A good review,1\nA bad text,0\n", ("A good review", "A bad text"), "1"),
    ],
)
def test_a_header_is_recognised_and_skipped(name, table, sentences, pair):
    assert sentences_from_file(name, table.encode()) == sentences
    assert pairs_in(name, table.encode())[0] == (sentences[0], pair)
    first = table.partition("\n")[0].replace("\t", ",").split(",")
    assert header_in(name, table.encode()) == ([] if sentences[0] in first else first)


def test_file_limits_and_their_values():
    assert refused("file_type", "a.docx", b"x")["allowed"] == ".txt, .csv, .tsv"
    too_large = refused("file_too_large", "a.txt", b"a" * (MAX_FILE_BYTES + 1))
    assert (too_large["limit"], too_large["size"]) == (MAX_FILE_BYTES, MAX_FILE_BYTES + 1)
    assert len(sentences_from_file("a.txt", b"a\n" * MAX_SENTENCES)) == MAX_SENTENCES
    assert refused("too_many_sentences", "a.txt", b"a\n" * (MAX_SENTENCES + 1))["limit"] == 1000
    assert sentences_from_file("a.csv", b"n/a,We left.\n1,I left.\n2,You left.\n")[1] == "I left."
    refused("file_empty", "a.txt", b"\xef\xbb\xbf \n\n")
    refused("file_empty", "a.csv", b"1,2\n3,4\n")
    refused("file_table", "a.csv", b'"' + b"x" * 200_000)
    refused("too_many_sentences", "a.csv", b"a,\n" * 5 + b",\n" * MAX_LINES)


@pytest.mark.parametrize(
    "data",
    [
        b"1," * 450_000 + b"\n" + b"1\n" * 999,
        b"a,b\n" * 250_000,
        b"," * MAX_FILE_BYTES,
        b"\n" * MAX_FILE_BYTES,
        b"\x01" * MAX_FILE_BYTES,
        b"\x01" * 100_000 + b"\n" + b"\x01," * 400_000,
    ],
)
def test_no_file_keeps_the_app_busy(data):
    begun = time.thread_time()
    for name in ("a.csv", "a.txt"):
        with suppress(InputProblem):
            sentences_from_file(name, data)
    assert time.thread_time() - begun < 0.3
