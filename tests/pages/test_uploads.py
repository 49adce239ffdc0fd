"""The page of models: the uploader and who sees an upload, what was found, how one is opened."""

import os
import re
import threading
from pathlib import Path

import pytest
from foreign import Golden, zipped
from shown import models_page, words_of
from streamlit.runtime.caching import clear_session_resource_cache
from streamlit.testing.v1 import AppTest

from explorer import uploads as zips
from explorer.engine import caching
from explorer.exhibits.block import plain
from explorer.exhibits.saying import message
from explorer.problems import InputProblem
from explorer.text import LANGUAGES, t
from explorer.ui import session, uploads
from models.foreign.finding import VARIABLE
from models.refusals import Refusal


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> bytes:
    folder = Golden.load("llama").write(tmp_path_factory.mktemp("zipped") / "mine", "own")
    return zipped(folder).getvalue()


@pytest.fixture
def store() -> caching.Store:
    """Of its own: what it keeps is counted here."""
    return caching.Store(caching.budget())


@pytest.fixture(autouse=True)
def visited(monkeypatch) -> list[str]:
    monkeypatch.setattr(uploads, "PATIENCE", 0)
    monkeypatch.setattr(uploads, "_LEAVING", {})
    clear_session_resource_cache("test session id")
    pages: list[str] = []
    monkeypatch.setenv(zips.VARIABLE, "1")
    monkeypatch.setattr(session, "visit", pages.append)
    return pages


def uploaded(data: bytes, lang: str = "en", name: str = "mine.zip") -> AppTest:
    at = models_page(lang=lang)
    at.file_uploader(key="shelf.upload").set_value((name, data, "application/zip")).run()
    return at


def test_no_uploader_where_it_is_not_allowed_and_how_to_name_a_folder(monkeypatch):
    monkeypatch.delenv(zips.VARIABLE)
    at = models_page()
    assert "shelf.upload" not in {each.key for each in at.get("file_uploader")}
    assert t("shelf.uploaded", lang="en") not in [each.value for each in at.subheader]
    monkeypatch.delenv(VARIABLE, raising=False)
    assert any(VARIABLE in each.value for each in models_page(model="gone").info)


def test_an_upload_opens_and_is_on_the_menu(data, visited):
    at = uploaded(data)
    assert visited == ["heads"]
    name = str(at.query_params["model"])
    assert name.startswith("mine~")
    at = models_page_of(at)
    assert "**mine**" in [words_of(each) for each in at.markdown]
    menu = at.selectbox(key="sidebar.model")
    assert menu.value == name
    assert "mine" in menu.options  # under its own name alone


def models_page_of(at: AppTest) -> AppTest:
    """The same visitor, once more without the file."""
    at.file_uploader(key="shelf.upload").set_value(()).run()
    return at


def test_another_visitor_with_its_link_lacks_it_and_sees_the_rest(data, open_page):
    name = str(uploaded(data).query_params["model"])
    at = open_page("heads", model=name, text="We went to the park.")
    (said,) = [str(each.value) for each in at.warning]
    assert "mine" in said
    assert "again; the link has" in said
    assert name.partition("~")[2] not in said
    assert at.main.get("bidi_component")  # the sentence in a model that is there
    assert name not in at.selectbox(key="sidebar.model").options
    beside = open_page("heads", **{"with": name, "text": "We went to the park."})
    assert "mine" in "".join(str(each.value) for each in beside.warning)
    assert "versus.swap" not in {each.key for each in beside.button}


def test_it_counts_among_what_is_kept_and_goes_with_its_session_or_by_its_owner(data):
    before = caching.STORE.n_bytes
    name = str(uploaded(data).query_params["model"])
    assert any(name in repr(key) for key in caching.STORE._kept)
    leave()
    assert not [key for key in caching.STORE._kept if name in repr(key)]
    assert caching.STORE.n_bytes <= before + 100_000
    at = models_page_of(uploaded(data))
    name = str(at.query_params["model"])
    at.button(key=f"shelf.remove.{name}").click().run()
    assert "model" not in at.query_params
    assert "**mine**" not in [words_of(each) for each in at.markdown]
    assert not [key for key in caching.STORE._kept if name in repr(key)]


def leave() -> None:
    """What Streamlit does when nobody is connected to a session any more, and a while later."""
    clear_session_resource_cache("test session id")
    for thread in threading.enumerate():  # one that has begun to forget is not among those leaving
        if isinstance(thread, threading.Timer) and thread.function is uploads._forget:
            thread.join(10)


def test_a_session_whose_line_broke_finds_its_model_again(data, monkeypatch):
    monkeypatch.setattr(uploads, "PATIENCE", 600)
    at = uploaded(data)
    name = str(at.query_params["model"])
    clear_session_resource_cache("test session id")
    (timer,) = uploads._LEAVING.values()
    models_page_of(at)
    timer.join(10)  # it was called off
    assert not timer.is_alive()
    assert name in at.selectbox(key="sidebar.model").value
    assert not uploads._LEAVING
    monkeypatch.setattr(uploads, "PATIENCE", 0)
    leave()  # it goes when the session does, all the same
    assert not [key for key in caching.STORE._kept if name in repr(key)]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("content", "key"),
    [(b"nothing of the kind", "upload_no_zip"), (zipped({}).getvalue(), "upload_nothing")],
)
def test_a_refusal_is_said_and_nothing_opens(lang, content, key, visited):
    at = uploaded(content, lang, "odd_name.zip")
    before, _, behind = t(f"problems.{key}", lang=lang, name="\0").partition("\0")
    assert any(before in each.value and behind in each.value for each in at.warning)
    assert visited == []


# What was found, why something cannot be opened, and how one is opened.
@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    Golden.load("llama").write(tmp_path / "mine", "own")
    broken = Golden.load("gpt2").write(tmp_path / "pickled")
    (broken / "model.safetensors").rename(broken / "pytorch_model.bin")
    odd = Golden.load("gpt2").write(tmp_path / "odd")
    (odd / "config.json").write_text('{"model_type": "<b>:red[a]"}')
    return tmp_path


@pytest.mark.parametrize(
    ("button", "page", "link"),
    [
        ("card.mine", "card", {"model": "mine"}),
        ("open.mine", "heads", {"model": "mine"}),
        ("compare.mine", "heads", {"model": "writer", "with": "mine"}),
    ],
)
def test_a_button_opens_a_model_its_card_or_one_beside_the_open_one(
    own, monkeypatch, button, page, link
):
    visited: list[str] = []
    monkeypatch.setattr(session, "visit", visited.append)
    at = models_page(lang="en", model="writer")
    assert "shelf.compare.writer" not in {each.key for each in at.button}
    at.button(key=f"shelf.{button}").click().run()
    assert visited == [page]
    assert {name: at.query_params[name] for name in link} == link


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_was_found_and_what_to_do(own, lang):
    at = models_page(lang=lang)
    said = [words_of(each) for each in at.markdown]
    assert "**mine**" in said
    assert "**pickled**" in said
    assert any("pickle" in each.value for each in at.error)
    never = {"en": "never", "zh": "从不"}[lang]
    assert any(never in each.value for each in at.error), "the reason is in the reader's language"
    assert not any("<b>" in each.value or ":red[" in each.value for each in at.error)
    assert any("<b>:red[a]" in plain(each.value) for each in at.error)
    assert any("weights_only=True" in each.value for each in at.code)
    assert {each.key for each in at.button} >= {"shelf.open.mine", "shelf.open.en-zh"}
    assert "shelf.open.pickled" not in {each.key for each in at.button}


def test_a_tokenizer_of_few_tokens_and_a_folder_that_is_not_there_are_named(own, monkeypatch):
    monkeypatch.setenv(VARIABLE, f"{own}{os.pathsep}{own / 'private' / 'gone'}")
    at = models_page()
    (said,) = (each.value for each in at.warning)
    assert "gone" in said
    assert "private" not in said
    assert "**mine**" in [words_of(each) for each in at.markdown]
    folder = Golden.load("gpt2").write(own / "large", "own")
    theirs = Golden.load("bert").write(own / "other", "own")
    (theirs / "tokenizer.json").replace(folder / "tokenizer.json")
    (folder / "tokenizer_config.json").unlink(missing_ok=True)  # which would contradict it
    at = models_page(lang="en", model="large")
    said = "The tokenizer has 97 tokens, the model 260"
    assert sum(said in each.value for each in at.main.warning) == 1
    assert sum(said in each.value for each in at.sidebar.warning) == 1
    assert not models_page(lang="en", model="mine").sidebar.warning


def test_names_out_of_a_strangers_files_are_shown_and_never_obeyed(tmp_path):
    """Of a tensor, a family and a folder, on this page and in the refusal of every other one."""
    inner = Refusal("lacks", file="w", tensor="<b>:red[a]$x$")
    refused = Refusal("within", file="**folder**", reason=inner)
    problem = InputProblem("broken_model", name="mine", reason=refused)
    for lang in LANGUAGES:
        said = message(problem, lang)
        assert not re.search(r"<b>|:red\[|\$x\$|\*\*", said)
        assert "<b>:red[a]$x$" in plain(said)
