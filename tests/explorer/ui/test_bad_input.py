"""Links that fit neither model nor sentence, files and models that cannot be read: named, and the
rest holds.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from cores import every
from foreign import Golden, dropping, without_unknown
from shown import charts, everything, has_picture, messages, panels, payload, reading, words_of
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.exhibits.block import escape
from explorer.pages import LESSONS
from explorer.shelf import survey
from explorer.text import LANGUAGES, t
from models.foreign.finding import VARIABLE
from models.foreign.placing import DEVICE_VARIABLE


def test_a_head_or_layer_that_the_model_lacks_is_named_with_its_range(open_page):
    at = open_page("heads", layer="9", head="77")
    for name, value, high in (("layer", 9, 2), ("head", 77, 4)):
        said = t("problems.bad_number", lang="en", name=name, value=value, low=1, high=high)
        assert said in messages(at)


@pytest.mark.parametrize(
    ("lang", "name", "value"), [("en", "pins", "1.1_1.1"), ("zh", "scaling", "√")]
)
def test_a_bad_value_in_a_link_is_reported_and_left_out(open_page, lang, name, value):
    """`test_link` has the values that are refused."""
    at = open_page("heads", lang=lang, text="I like you.", **{name: value})
    assert f"“{name} = " in messages(at)
    assert name not in at.query_params
    assert "I like you" in everything(at)  # the rest of the link holds
    at.selectbox(key="heads.measure").select("entropy").run()
    assert not at.warning


REMOVED = [
    ("model", {"further": "history"}),
    ("exercises", {"part": "paper"}),
    ("positions", {"part": "length", "story": "Once."}),
    ("decoding", {"part": "speculation", "draft": "writer", "ahead": "2"}),
    ("alignment", {"part": "without"}),
    ("score", {"aside": "engines"}),
    ("atlas", {"part": "compare", "against": "writer", "shortest": "4"}),
    ("circuits", {"part": "composition", "composed": "q"}),
    ("alignment", {"part": "file"}),
    ("patching", {"part": "flow", "written": "2", "edge_share": "2", "how": "replace"}),
    ("patching", {"part": "paths", "sender": "decoder-1-3"}),
    ("cases", {"part": "bugs", "case": "unpacked_batch"}),
    ("cases", {"part": "claims", "claim": "tied_logits", "guessed": "1" + 32 * "-" + "0"}),
]
"""Links of earlier versions, and the page on which each opens the nearest view."""


@pytest.mark.parametrize("number", range(len(REMOVED)))
def test_a_link_to_a_removed_view_opens_the_nearest_and_says_so(open_page, number):
    (page, link), lang = REMOVED[number], LANGUAGES[number % 2]
    at = open_page(page, **link, lang=lang)
    assert [each.value for each in at.info].count(t("shell.gone", lang=lang)) == 1
    assert not at.warning


@pytest.mark.parametrize(
    ("lang", "name", "data", "key"),
    [
        ("zh", "a.pdf", b"%PDF-1.7", "file_type"),
        ("en", "a.txt", b"I like you.\n" * 1001, "too_many_sentences"),
    ],
)
def test_a_bad_upload_is_explained(open_page, lang, name, data, key):
    at = open_page("heads", lang=lang)
    at.file_uploader(key="sidebar.file").set_value((name, data, "text/plain")).run()
    # The sentence around the values is that of this refusal, in this language.
    values = dict.fromkeys(("name", "allowed", "limit", "size", "reason"), "\0")
    assert all(p in messages(at) for p in t(f"problems.{key}", lang=lang, **values).split("\0"))
    assert has_picture(at)


def test_the_first_sentence_of_a_long_text_is_one_click_away(open_page):
    at = open_page("heads", text="Dr. Li likes you. " * 400)
    at.button(key="shell.first_sentence").click().run()
    assert not at.warning
    assert at.query_params["text"] == "Dr. Li likes you."


def test_a_sentence_of_an_uploaded_table_is_read(open_page):
    at = open_page("heads")
    table = 'text,zh\n"We went\r\n to the park.",我们\nI like you.,我\n'.encode()
    at.file_uploader(key="sidebar.file").set_value(("a.csv", table, "text/csv")).run()
    assert t("sidebar.file_header", lang="en", names="text, zh") in [c.value for c in at.caption]
    assert "We went" in reading(at, "→")  # the first, at once
    assert at.button(key="sidebar.file_before").disabled
    at.button(key="sidebar.file_after").click().run()
    assert not at.warning
    assert "I like you" in reading(at, "→")
    assert at.button(key="sidebar.file_after").disabled
    folded = t("sidebar.line_ends", lang="en")
    assert folded not in [each.value for each in at.caption]
    at.multiselect(key="sidebar.pick_beside").select("We went\r\n to the park.").run()
    assert at.text_area(key="sidebar.beside").value == "We went  to the park."
    assert folded in [each.value for each in at.caption]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_unknown_model_in_a_link_leaves_the_usual_one(open_page, lang):
    at = open_page("heads", model="../../etc", lang=lang)
    said = messages(at).replace("&#45;", "-").replace("&#44;", ",")
    assert re.search("en-zh, .*headless, reader, writer", said)
    assert has_picture(at)
    menu = at.selectbox(key="sidebar.model")
    assert menu.value is None, "what is shown instead is another model"
    menu.select("reader").run()
    assert at.query_params["model"] == "reader"
    long = messages(open_page("heads", model="x" * 300, lang=lang))
    assert "x" * 100 in long
    assert "x" * 200 not in long


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
def test_an_empty_shelf_says_what_to_do(open_page, shelf, tmp_path, monkeypatch, lang):
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path)
    at = open_page("heads", lang=lang)
    assert t("shell.nothing", lang=lang) in [each.value for each in at.info]
    assert t("shell.first_instead", lang=lang) not in [each.value for each in at.caption]
    shutil.copytree(shelf / "en-zh", tmp_path / "en-zh")
    (tmp_path / "en-zh" / "model.safetensors").write_bytes(b"nonsense")
    at = open_page("heads", lang=lang)
    broken = t("problems.broken_model", lang=lang, name="en&#45;zh", reason="\0").partition("\0")[0]
    assert broken in messages(at)
    assert t("shell.nothing", lang=lang) in [each.value for each in at.info]


def type_text(at: AppTest, text: str) -> AppTest:
    return at.text_area(key="sidebar.text").set_value(text).run()


def opened(at: AppTest) -> dict[str, Any]:
    """What the picture of all heads was sent, arrays aside."""
    return payload(at, "heads.view")[0]


@pytest.mark.parametrize(
    ("lang", "text", "key", "values"),
    [
        ("en", "", "empty", {}),
        ("zh", "a" * 6001, "too_long_chars", {"limit": "6,000", "length": "6,001"}),
        ("en", "you are kind " * 40, "too_many_tokens", {"limit": "64", "length": "121"}),
    ],
)
def test_a_refused_sentence_keeps_the_last_good_picture(open_page, lang, text, key, values):
    at = type_text(open_page("heads", lang=lang), "We went to the park.")
    picture, link = opened(at), dict(at.query_params)
    type_text(at, text)
    assert messages(at) == t(f"problems.{key}", lang=lang, **values)
    assert opened(at) == picture
    assert dict(at.query_params) == link  # the address still leads to what is shown
    named = t("shell.last_good", lang=lang, text="We went to the park&#46;")
    assert [words_of(each) for each in at.caption].count(named) == 1
    type_text(at, "I like you.")
    assert not at.warning
    assert "I like you" in everything(at)


EVERY_FOURTH = every(4, (page.name for page in LESSONS))


@pytest.mark.parametrize("page", EVERY_FOURTH)
def test_a_refused_sentence_in_a_link_leaves_an_example(open_page, page):
    at = open_page(page, text=" ", lang="zh", tested="1", guess="true")
    assert messages(at) == t("problems.whitespace_only", lang="zh")
    assert has_picture(at) or page == "patching"  # it has one where a patch changes something


def test_an_example_goes_into_the_link_and_an_own_translation_is_read_instead(open_page):
    at = open_page("heads")
    at.pills(key="sidebar.example.first").select("We went to the park yesterday.").run()
    assert "We went to the park yesterday" in reading(at, "→")
    assert at.text_area(key="sidebar.text").value == "We went to the park yesterday."
    assert at.query_params["text"] == "We went to the park yesterday."
    at.text_area(key="sidebar.target").set_value("我喜欢你").run()
    assert ":orange[我喜欢你]" in reading(at, "→")
    assert "(given)" in reading(at, "→")
    assert at.query_params["target"] == "我喜欢你"
    before = opened(type_text(at, ""))  # controls still work on the last good picture
    at.selectbox(key="heads.measure").select("entropy").run()
    assert opened(at) != before


def test_typed_markup_is_shown_and_never_obeyed_in_a_text_and_its_continuation(open_page):
    at = open_page("heads", model="writer", text="the fox", target="likes *the* dog")
    assert at.text_area(key="sidebar.target").label == t("sidebar.continuation", lang="en")
    line = reading(at, ":green[the fox]")
    assert line.startswith(":green[the fox] **:orange[likes &#42;the&#42; dog]** (")
    assert ":orange" not in reading(open_page("heads", model="writer", text="the fox"), "the fox")
    typed = "**you** $x$ <script>alert(1)</script> [a](http://b) :red[c] `d`"
    at = open_page("heads", text=typed)
    line = next(words_of(each) for each in at.markdown if "→" in words_of(each))
    for mark in ("**you", "$x", "<script", "](http", ":red[", "`d"):
        assert mark not in line
    assert "&#60;script&#62;" in line


BOTH_WAYS = "I 🐱 you 👩‍👩‍👧. Ωμέγα ÅÄÖ אני אוהב אותך \u202eabc def"


@pytest.mark.parametrize("page", [page.name for page in LESSONS])
def test_emoji_right_to_left_and_unknown_letters_are_read(open_page, page):
    at = open_page(page, text=BOTH_WAYS, tested="1", guess="true")
    assert not at.warning
    offered = t("patching.none_offered", lang="en") not in [each.value for each in at.info]
    assert has_picture(at) or not offered


@pytest.mark.parametrize(("model", "token"), [("en-zh", "<unk>"), ("my-bert", "[UNK]")])
def test_unknown_characters_are_named(open_page, add_own, model, token):
    """The unknown token has the name that the tokenizer gives it."""
    at = type_text(open_page("heads", model=model), "I like 🐱.")
    said = "\n".join(words_of(each) for each in at.caption)
    assert t("place.unknown", lang="en", token=escape(token), characters="🐱") in said


@pytest.mark.parametrize(
    ("model", "text", "notes"),
    [
        ("en-zh", "The cat sat.", ()),
        ("en-zh", "The cat\n  sat. ", ("folded",)),
        ("en-zh", "The\u202e cat\x07 sat.", ("invisible",)),
        ("en-zh", "The cat [SEP] sat.", ()),
        ("my-bert", "we love [SEP] you", ("paired",)),
    ],
)
def test_what_is_read_other_than_typed_is_said(open_page, add_own, model, text, notes):
    at = open_page("heads", model=model, text=text)
    first = text.partition(" [SEP]")[0] if "paired" in notes else text
    assert at.text_area(key="sidebar.text").value == first
    assert at.query_params["text"] == text
    said = "\n".join(words_of(each) for each in at.caption)
    values = {"characters": "U+202E U+0007", "pair": "[SEP]"}
    for name in ("folded", "invisible", "paired"):
        assert (t(f"place.{name}", lang="en", **values) in said) == (name in notes)


OUTSIDE = re.compile("[\u0590-\u08ff]")
ARABIC = "ذهب الولد إلى المدرسة. הילד"
SAID = {"heads", "score", "masks", "attribution", "decoding", "positions"} | {
    *("tour", "model", "patching", "cases", "mask_tests")
}
"""Pages whose sentences name tokens."""


@pytest.fixture(scope="module")
def right_to_left(tmp_path_factory, save_small) -> Path:
    """A writer whose vocabulary has Arabic and Hebrew letters."""
    folder = tmp_path_factory.mktemp("right-to-left")
    words = save_small.__globals__
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(words, "CORPUS", (*words["CORPUS"], ARABIC))
        save_small(folder / "writer", family="decoder-only", norm_placement="pre", final_norm=True)
    return folder


def outside_isolates(text: str) -> str:
    """What of a text runs from right to left and is not isolated from what follows."""
    bare = re.sub("\u2068[^\u2068\u2069]*\u2069", "", text)
    return bare if OUTSIDE.search(bare) else ""


@pytest.mark.parametrize("page", EVERY_FOURTH)
def test_right_to_left_tokens_are_isolated_in_every_sentence(
    open_page, right_to_left, monkeypatch, page
):
    monkeypatch.setattr(library, "CHECKPOINTS", right_to_left)
    at = open_page(page, model="writer", text=ARABIC, tested="1", guess="true")
    said = [words_of(each) for kind in (at.markdown, at.caption, at.info) for each in kind]
    assert any("\u2068" in words for words in said) == (page in SAID)
    assert [found for words in said if (found := outside_isolates(words))] == []
    drawn = [json.dumps(each, ensure_ascii=False) for each in charts(at)]
    drawn += [text for each in panels(at) for text in (*each["texts"], *each["written"])]
    assert [found for each in drawn if (found := outside_isolates(each))] == []


# Tokenizers of learners, which cannot encode every text: said in words, and the app goes on.
@pytest.fixture
def learners(tmp_path, monkeypatch) -> None:
    """What is computed is kept by a model's name."""
    for name, make in (("Unigram", without_unknown), ("BPE", dropping)):
        folder = Golden.load("gpt2").write(tmp_path / name)
        make().save(str(folder / "tokenizer.json"))
    monkeypatch.setenv(VARIABLE, str(tmp_path))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_letters_without_a_token_are_refused_or_named_as_dropped(open_page, learners, lang):
    at = open_page("heads", model="BPE", text="the dog sat", lang=lang)
    assert not at.warning
    said = [words_of(each) for each in at.caption]
    assert t("place.dropped", lang=lang, characters="d o g") in said
    at = open_page("heads", model="Unigram", text="the café", lang=lang)
    assert "é" in messages(at)
    assert messages(at).startswith(t("problems.no_tokens", lang=lang, reason="")[:6])
    assert "Unigram" in at.selectbox(key="sidebar.model").options
    at.text_area(key="sidebar.text").set_value("the cat").run()
    assert not at.warning


@pytest.mark.parametrize(
    "page", ["tour", "circuits", "attribution", "decoding", "mask_tests", "card"]
)
def test_every_page_survives_a_tokenizer_that_fails_on_all_examples(open_page, learners, page):
    at = open_page(page, model="Unigram", text="the cat")
    assert not at.error
