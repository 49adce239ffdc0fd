"""The uploader on the page of models, and who sees what was uploaded."""

import io
import json
import threading
import zipfile

import pytest
from foreign import Golden, zipped
from shown import models_page, words_of
from streamlit.runtime.caching import clear_session_resource_cache
from streamlit.testing.v1 import AppTest

from explorer import uploads as zips
from explorer.engine import caching
from explorer.text import t
from explorer.ui import session, uploads


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


def test_no_uploader_where_the_owner_does_not_allow_it(monkeypatch):
    monkeypatch.delenv(zips.VARIABLE)
    at = models_page()
    assert "shelf.upload" not in {each.key for each in at.get("file_uploader")}
    assert t("shelf.uploaded", lang="en") not in [each.value for each in at.subheader]


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
    assert "upload it again" in said
    assert name.partition("~")[2] not in said
    assert at.main.get("bidi_component")  # the sentence in a model that is there
    assert name not in at.selectbox(key="sidebar.model").options
    beside = open_page("heads", **{"with": name, "text": "We went to the park."})
    assert "mine" in "".join(str(each.value) for each in beside.warning)
    assert "versus.swap" not in {each.key for each in beside.button}
    compared = open_page("atlas", model="reader", part="compare", against=name)
    assert "mine" in "".join(str(each.value) for each in compared.warning)
    assert not compared.get("plotly_chart")


def test_it_counts_among_what_is_kept_and_goes_with_its_session(data):
    before = caching.STORE.n_bytes
    name = str(uploaded(data).query_params["model"])
    assert any(name in repr(key) for key in caching.STORE._kept)
    leave()
    assert not [key for key in caching.STORE._kept if name in repr(key)]
    assert caching.STORE.n_bytes <= before + 100_000


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


def test_its_owner_can_remove_it(data):
    at = models_page_of(uploaded(data))
    name = str(at.query_params["model"])
    at.button(key=f"shelf.remove.{name}").click().run()
    assert "model" not in at.query_params
    assert "**mine**" not in [words_of(each) for each in at.markdown]
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


@pytest.mark.parametrize("page", ["card", "masks"])
def test_pages_open_for_an_upload(data, page, open_page, monkeypatch):
    name = str(uploaded(data).query_params["model"])
    monkeypatch.setattr(uploads, "own", lambda: (name,))
    at = open_page(page, model=name, text="We went to the park.")
    assert not at.warning


@pytest.mark.parametrize("page", ["heads", "decoding"])
def test_a_text_that_its_tokenizer_cuts_for_long_is_refused_in_words(
    data, page, open_page, monkeypatch
):
    name = str(uploaded(slow(data)).query_params["model"])
    monkeypatch.setattr(uploads, "own", lambda: (name,))
    at = open_page(page, model=name, text="a" * 30 + "!")
    heavy = t("problems.heavy_tokenizer", lang="en", limit=1, megabytes=0).partition("0 MB")[0]
    broken = t("problems.no_tokens", lang="en", reason="\0").partition("\0")[0]
    assert any(each in str(said.value) for said in at.warning for each in (heavy, broken))


def slow(data: bytes) -> bytes:
    """The zip with a tokenizer whose expression takes twice as long for each letter."""
    with zipfile.ZipFile(io.BytesIO(data)) as given:
        files = {name: given.read(name) for name in given.namelist()}
    tokenizer = json.loads(files["tokenizer.json"])
    split = {"type": "Split", "pattern": {"Regex": "(a|a)*$"}, "behavior": "Isolated"}
    tokenizer["pre_tokenizer"] = {**split, "invert": False}
    return zipped(files | {"tokenizer.json": json.dumps(tokenizer).encode()}).getvalue()
