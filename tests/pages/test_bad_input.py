"""Links that fit neither model nor sentence, files and models that cannot be read: named, and the
rest holds."""

import shutil

import pytest
import torch
from shown import everything, messages, reading

from explorer import library
from explorer.shelf import survey
from explorer.text import LANGUAGES, t
from models.foreign.placing import DEVICE_VARIABLE


def test_a_head_or_layer_that_the_model_lacks_is_named_with_its_range(open_page):
    at = open_page("heads", layer="9", head="77")
    layer, head = (str(each.value) for each in at.warning)
    assert layer == t("problems.bad_number", lang="en", name="layer", value=9, low=1, high=2)
    assert head == t("problems.bad_number", lang="en", name="head", value=77, low=1, high=4)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize(("name", "value"), [("pins", "1.1_1.1"), ("scaling", "√")])
def test_a_bad_value_in_a_link_is_reported_and_left_out(open_page, lang, name, value):
    """`test_link` has the values that are refused."""
    at = open_page("heads", lang=lang, text="I like you.", **{name: value})
    assert len(at.warning) == 1
    assert f"“{name} = " in messages(at)
    assert name not in at.query_params
    assert "I like you" in everything(at)  # the rest of the link holds
    at.selectbox(key="heads.measure").select("entropy").run()
    assert not at.warning


def test_a_bad_language_falls_back(open_page):
    at = open_page("heads", lang="xx")
    assert "lang = xx" in messages(at)
    assert t("heads.lead", lang="en") in everything(at)


REMOVED = [
    ("model", {"further": "history"}),
    ("exercises", {"part": "paper"}),
    ("positions", {"part": "length", "story": "Once."}),
    ("decoding", {"part": "speculation", "draft": "writer", "ahead": "2"}),
    ("alignment", {"part": "without"}),
    ("alignment", {"part": "file"}),
    ("patching", {"part": "flow", "written": "2", "edge_share": "2", "how": "replace"}),
]
"""Links of earlier versions, and the page on which each opens the nearest view."""


@pytest.mark.parametrize("number", range(len(REMOVED)))
def test_a_link_to_a_removed_view_opens_the_nearest_and_says_so(open_page, number):
    (page, link), lang = REMOVED[number], LANGUAGES[number % 2]
    at = open_page(page, **link, lang=lang)
    assert [each.value for each in at.info].count(t("shell.gone", lang=lang)) == 1
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
def test_a_bad_upload_is_explained(open_page, lang, name, data, key):
    at = open_page("heads", lang=lang)
    at.file_uploader(key="sidebar.file").set_value((name, data, "text/plain")).run()
    assert len(at.warning) == 1
    # The sentence around the values is that of this refusal, in this language.
    values = dict.fromkeys(("name", "allowed", "limit", "size", "reason"), "\0")
    assert all(p in messages(at) for p in t(f"problems.{key}", lang=lang, **values).split("\0"))
    assert at.main.get("bidi_component")


def test_a_sentence_of_an_uploaded_table_is_read(open_page):
    at = open_page("heads")
    table = "text,zh\nWe went to the park.,我们\nI like you.,我\n".encode()
    at.file_uploader(key="sidebar.file").set_value(("a.csv", table, "text/csv")).run()
    assert t("sidebar.file_header", lang="en", names="text, zh") in [c.value for c in at.caption]
    at.selectbox(key="sidebar.pick").select("I like you.").run()
    assert not at.warning
    assert "I like you" in reading(at, "→")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_unknown_model_in_a_link_leaves_the_usual_one(open_page, lang):
    at = open_page("heads", model="../../etc", lang=lang)
    said = messages(at).replace("&#45;", "-").replace("&#44;", ",")
    assert "en-zh, headless, reader, writer" in said
    assert at.main.get("bidi_component")
    menu = at.selectbox(key="sidebar.model")
    assert menu.value is None, "what is shown instead is another model"
    menu.select("reader").run()
    assert at.query_params["model"] == "reader"


def test_a_broken_checkpoint_is_explained(open_page, shelf, tmp_path, monkeypatch):
    shutil.copytree(shelf / "en-zh", tmp_path / "en-zh")
    (tmp_path / "en-zh" / "model.safetensors").write_bytes(b"nonsense")
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path)
    at = open_page("heads")
    assert "cannot be opened" in messages(at)
    assert t("shell.nothing", lang="en") in [each.value for each in at.info]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_device_that_is_not_there_is_said_by_the_app_too(open_page, monkeypatch, lang):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv(DEVICE_VARIABLE, "cuda")
    at = open_page("heads", lang=lang)
    said = {"en": "torch finds no CUDA GPU here", "zh": "torch 在这里找不到 CUDA GPU"}[lang]
    assert said in messages(at)
    problems = {str(each.problem) for each in survey(library.CHECKPOINTS)}
    assert problems == {"device is 'cuda', but torch finds no CUDA GPU here"}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_empty_shelf_says_what_to_do(open_page, tmp_path, monkeypatch, lang):
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path)
    at = open_page("heads", lang=lang)
    assert len(at.warning) == 1
    assert t("shell.nothing", lang=lang) in [each.value for each in at.info]
    assert t("shell.first_instead", lang=lang) not in [each.value for each in at.caption]


@pytest.mark.parametrize("page_name", ["heads.model", "heads.with", "alignment.back",
                                       "atlas.against", "model.sizes"])  # fmt: skip
def test_a_name_longer_than_any_file_has_is_no_error(open_page, page_name):
    page, name = page_name.split(".")
    at = open_page(page, **{name: "x" * 300})
    if name == "model":
        assert f"no model “{'x' * 100}" in messages(at)
