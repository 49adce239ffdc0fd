"""A value in a link or a file of sentences that cannot be used is named; the rest holds."""

import pytest
from shown import Open, words_of
from streamlit.testing.v1 import AppTest

from explorer.text import LANGUAGES, t


def messages(at: AppTest) -> str:
    return "\n".join(str(each.value) for each in at.warning)


def shown(at: AppTest) -> str:
    return "\n".join(words_of(each) for each in at.markdown)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("site", "everywhere"),
        ("layer", "zero"),
        ("layer", "0"),
        ("head", "-1"),
        ("row", "x"),
        ("instead", "2.5"),
        ("pins", "1.1_1.1"),
        ("pins", "0.1"),
        ("measure", "length"),
        ("by_measure", "2"),
        ("scale", "cubic"),
        ("step", "1e3"),
        ("pads", "99"),
        ("pads", "0" * 9 + "99"),
        ("edits", "causal-maybe"),
        ("strategy", "beam-0-9"),
        ("strategy", "sample-nan-0-1-1"),
        ("base", "1"),
        ("width", "١٢"),
    ],
)
def test_a_bad_value_in_a_link_is_reported_and_left_out(
    open_page: Open, lang: str, name: str, value: str
) -> None:
    at = open_page("heads", lang=lang, text="I like you.", **{name: value})
    assert not at.exception
    assert len(at.warning) == 1
    assert f"{name} = " in messages(at)
    assert name not in at.query_params
    assert "I like you" in shown(at)  # the rest of the link holds
    at.selectbox(key="heads.measure").select("entropy").run()
    assert not at.warning


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize(
    ("name", "data", "key"),
    [
        ("a.pdf", b"%PDF-1.7", "file_type"),
        ("a.txt", b"", "file_empty"),
        ("a.txt", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00", "file_encoding"),
        ("a.csv", b"text\n\n", "file_empty"),
        ("a.txt", b"I like you.\n" * 1001, "too_many_sentences"),
        ("a.txt", b"x" * 1_000_001, "file_too_large"),
    ],
)
def test_a_bad_upload_is_explained(
    open_page: Open, lang: str, name: str, data: bytes, key: str
) -> None:
    at = open_page("heads", lang=lang)
    at.file_uploader(key="sidebar.file").set_value((name, data, "text/plain")).run()
    assert not at.exception
    assert len(at.warning) == 1
    # The sentence around the values is that of this refusal, in this language.
    template = t(
        f"problems.{key}",
        lang=lang,
        **dict.fromkeys(("name", "allowed", "limit", "size", "reason"), "\0"),
    )
    assert all(part in messages(at) for part in template.split("\0"))
    assert at.main.get("bidi_component")


def test_a_sentence_of_an_uploaded_table_is_read(open_page: Open) -> None:
    at = open_page("heads")
    table = "text,zh\nWe went to the park.,我们\nI like you.,我\n".encode()
    at.file_uploader(key="sidebar.file").set_value(("a.csv", table, "text/csv")).run()
    assert t("sidebar.file_header", lang="en", names="text, zh") in [c.value for c in at.caption]
    at.selectbox(key="sidebar.pick").select("I like you.").run()
    assert not at.warning
    assert "I like you" in next(words_of(m) for m in at.markdown if "→" in words_of(m))
