"""What a visitor may do wrong: a message in their language, the last good picture, no traceback."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.pages import PAGES
from explorer.text import LANGUAGES, t

Open = Callable[..., AppTest]


def type_text(at: AppTest, text: str) -> AppTest:
    return at.text_area(key="sidebar.text").set_value(text).run()


def messages(at: AppTest) -> str:
    return "\n".join(str(each.value) for each in at.warning)


def shown(at: AppTest) -> str:
    return "\n".join(str(each.value) for each in at.markdown)


def spec(at: AppTest) -> bytes:
    """What the picture of all heads was sent."""
    data: bytes = at.get("bidi_component")[0].proto.bytes
    return data


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("", "empty", {}),
        (" \n\t ", "whitespace_only", {}),
        ("\x00\x1b\x7f", "nothing_left", {}),
        ("a" * 1001, "too_long_chars", {"limit": "1,000", "length": "1,001"}),
        ("you are kind " * 40, "too_many_tokens", {"limit": "64", "length": "121"}),
    ],
)
def test_a_refused_sentence_keeps_the_last_good_picture(
    open_page: Open, lang: str, text: str, key: str, values: dict[str, str]
) -> None:
    at = type_text(open_page("heads", lang=lang), "We went to the park.")
    picture, link = spec(at), dict(at.query_params)
    type_text(at, text)
    assert not at.exception
    assert messages(at) == t(f"problems.{key}", lang=lang, **values)
    assert spec(at) == picture
    assert dict(at.query_params) == link  # the address still leads to what is shown
    named = t("shell.last_good", lang=lang, text="We went to the park&#46;")
    assert [str(each.value) for each in at.caption].count(named) == 1
    type_text(at, "I like you.")
    assert not at.warning
    assert "I like you" in shown(at)


@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_a_refused_sentence_in_a_link_leaves_an_example(open_page: Open, page: str) -> None:
    at = open_page(page, text=" ", lang="zh", tested="1", guess="true")
    assert not at.exception
    assert messages(at) == t("problems.whitespace_only", lang="zh")
    assert at.get("plotly_chart") or at.get("bidi_component")


def test_controls_still_work_on_the_last_good_picture(open_page: Open) -> None:
    at = type_text(open_page("heads", site="cross", layer="1", head="1"), "")
    before = spec(at)
    at.segmented_control(key="heads.kind").set_value("encoder").run()
    assert not at.exception
    assert spec(at) != before
    assert at.segmented_control(key="heads.kind").value == "encoder"


@pytest.mark.parametrize(
    "text", ["I 🐱 you 👩‍👩‍👧.", "אני אוהב אותך", "Ωμέγα ÅÄÖ", "\u202eabc def"]
)
@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_emoji_right_to_left_and_unknown_letters_are_read(
    open_page: Open, page: str, text: str
) -> None:
    at = open_page(page, text=text, tested="1", guess="true")
    assert not at.exception
    assert not at.warning
    assert at.get("plotly_chart") or at.get("bidi_component")


def test_unknown_characters_are_named(open_page: Open) -> None:
    at = type_text(open_page("heads"), "I like 🐱.")
    said = "\n".join(str(each.value) for each in at.caption)
    assert t("place.unknown", lang="en", characters="🐱") in said


def test_typed_markup_is_shown_and_never_obeyed(open_page: Open) -> None:
    typed = "**you** $x$ <script>alert(1)</script> [a](http://b) :red[c] `d`"
    at = open_page("heads", text=typed)
    assert not at.exception
    line = next(str(each.value) for each in at.markdown if "→" in str(each.value))
    for mark in ("**you", "$x", "<script", "](http", ":red[", "`d"):
        assert mark not in line
    assert "&#60;script&#62;" in line


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


def test_a_head_or_layer_that_the_model_lacks_is_named_with_its_range(open_page: Open) -> None:
    at = open_page("heads", layer="9", head="77")
    assert not at.exception
    layer, head = (str(each.value) for each in at.warning)
    assert layer == t("problems.bad_number", lang="en", name="layer", value=9, low=1, high=2)
    assert head == t("problems.bad_number", lang="en", name="head", value=77, low=1, high=4)


def test_a_bad_language_falls_back(open_page: Open) -> None:
    at = open_page("heads", lang="xx")
    assert not at.exception
    assert "lang = xx" in messages(at)
    assert t("heads.lead", lang="en") in shown(at)


@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_edits_that_fit_nothing_are_counted_and_left_out(open_page: Open, page: str) -> None:
    at = open_page(page, edits="head-decoder.blocks.99.attn-0~cell-nowhere-all-0-0-open")
    assert not at.exception


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_unknown_model_in_a_link_leaves_the_usual_one(open_page: Open, lang: str) -> None:
    at = open_page("heads", model="../../etc", lang=lang)
    assert not at.exception
    said = messages(at).replace("&#45;", "-").replace("&#44;", ",")
    assert "en-zh, headless, reader, writer" in said
    assert at.get("bidi_component")


def test_a_broken_checkpoint_is_explained(
    open_page: Open, shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(shelf / "en-zh", tmp_path / "en-zh")
    (tmp_path / "en-zh" / "model.safetensors").write_bytes(b"nonsense")
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path)
    at = open_page("heads")
    assert not at.exception
    assert "cannot be opened" in messages(at)
    assert t("shell.nothing", lang="en") in [each.value for each in at.info]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_empty_shelf_says_what_to_do(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str
) -> None:
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path)
    at = open_page("heads", lang=lang)
    assert not at.exception
    assert len(at.warning) == 1
    assert t("shell.nothing", lang=lang) in [each.value for each in at.info]
    assert t("shell.first_instead", lang=lang) not in [each.value for each in at.caption]


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
    assert at.get("bidi_component")


def test_a_sentence_of_an_uploaded_table_is_read(open_page: Open) -> None:
    at = open_page("heads")
    table = "text,zh\nWe went to the park.,我们\nI like you.,我\n".encode()
    at.file_uploader(key="sidebar.file").set_value(("a.csv", table, "text/csv")).run()
    at.selectbox(key="sidebar.pick").select("I like you.").run()
    assert not at.warning
    assert "I like you" in next(str(m.value) for m in at.markdown if "→" in str(m.value))
