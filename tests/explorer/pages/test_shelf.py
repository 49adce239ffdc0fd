"""The page of models, what was found and how one is opened; and models of one session alone."""

import os
import re
import threading
from pathlib import Path

import pytest
from foreign import Golden
from shown import code_on, has_picture, messages, models_page, words_of
from streamlit.runtime.caching import clear_session_resource_cache
from streamlit.testing.v1 import AppTest

from explorer.engine import caching
from explorer.exhibits.block import plain
from explorer.exhibits.saying import message
from explorer.problems import InputProblem
from explorer.text import LANGUAGES
from explorer.ui import session, trained
from models.foreign.finding import VARIABLE
from models.refusals import Refusal


def keeping() -> None:
    """A page that keeps a model, and lists the models of its session."""
    import streamlit as st

    from explorer.library import open_model
    from explorer.ui import trained

    if "kept" not in st.session_state:
        st.session_state["kept"] = trained.keep(open_model("copy"))
    st.session_state["own"] = trained.own()


@pytest.fixture
def visitor(app, monkeypatch) -> AppTest:
    monkeypatch.setattr(trained, "PATIENCE", 0)
    monkeypatch.setattr(trained, "_LEAVING", {})
    clear_session_resource_cache("test session id")
    return AppTest.from_function(keeping).run()


def leave() -> None:
    """What Streamlit does when nobody is connected to a session any more, and a while later."""
    clear_session_resource_cache("test session id")
    for thread in threading.enumerate():  # one that has begun to forget is not among those leaving
        if isinstance(thread, threading.Timer) and thread.function is trained._forget:
            thread.join(60)


def test_another_visitor_with_its_link_lacks_it_and_sees_the_rest(visitor, open_page):
    name = visitor.session_state["kept"]
    at = open_page("heads", model=name, text="We went to the park.")
    said = messages(at)
    assert "“copy” existed only in the session" in said
    assert name.partition("~")[2] not in said
    assert has_picture(at)  # the sentence in a model that is there
    assert name not in at.selectbox(key="sidebar.model").options
    beside = open_page("heads", **{"with": name, "text": "We went to the park."})
    assert "copy" in "".join(str(each.value) for each in beside.warning)
    assert "heads.versus.swap" not in {each.key for each in beside.button}


def test_it_goes_with_its_session_unless_that_comes_back(visitor, monkeypatch):
    name = visitor.session_state["kept"]
    assert visitor.session_state["own"] == (name,)
    assert any(name in repr(key) for key in caching.STORE._kept)
    monkeypatch.setattr(trained, "PATIENCE", 600)
    clear_session_resource_cache("test session id")
    (timer,) = trained._LEAVING.values()
    assert visitor.run().session_state["own"] == (name,)
    timer.join(60)  # it was called off
    assert not timer.is_alive()
    assert not trained._LEAVING
    monkeypatch.setattr(trained, "PATIENCE", 0)
    leave()
    assert not [key for key in caching.STORE._kept if name in repr(key)]
    assert visitor.run().session_state["own"] == ()


@pytest.fixture
def own(app, tmp_path, monkeypatch) -> Path:
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
    assert "weights_only=True" in code_on(at)
    assert {each.key for each in at.button} >= {"shelf.open.mine", "shelf.open.en-zh"}
    assert "shelf.open.pickled" not in {each.key for each in at.button}


def test_a_tokenizer_of_few_tokens_and_a_folder_that_is_not_there_are_named(own, monkeypatch):
    monkeypatch.setenv(VARIABLE, f"{own}{os.pathsep}{own / 'private' / 'gone'}")
    at = models_page()
    assert "gone" in messages(at)
    assert "private" not in messages(at)
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
