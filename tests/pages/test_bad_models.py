"""A model that is not there, one that is broken, and a shelf without any."""

import shutil
from pathlib import Path

import pytest
import torch
from shown import Open
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.shelf import survey
from explorer.text import LANGUAGES, t
from models.foreign.placing import DEVICE_VARIABLE


def messages(at: AppTest) -> str:
    return "\n".join(str(each.value) for each in at.warning)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_unknown_model_in_a_link_leaves_the_usual_one(open_page: Open, lang: str) -> None:
    at = open_page("heads", model="../../etc", lang=lang)
    assert not at.exception
    said = messages(at).replace("&#45;", "-").replace("&#44;", ",")
    assert "en-zh, headless, reader, writer" in said
    assert at.main.get("bidi_component")
    menu = at.selectbox(key="sidebar.model")
    assert menu.value is None, "what is shown instead is another model"
    menu.select("reader").run()
    assert not at.exception
    assert at.query_params["model"] == "reader"


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
def test_a_device_that_is_not_there_is_said_by_the_app_too(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, lang: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv(DEVICE_VARIABLE, "cuda")
    at = open_page("heads", lang=lang)
    assert not at.exception
    said = {"en": "torch finds no CUDA GPU here", "zh": "torch 在这里找不到 CUDA GPU"}[lang]
    assert said in messages(at)
    assert {str(each.problem) for each in survey(library.CHECKPOINTS)} == {
        "device is 'cuda', but torch finds no CUDA GPU here"
    }


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


@pytest.mark.parametrize(
    ("page", "parameter"),
    [
        ("heads", "model"),
        ("heads", "with"),
        ("alignment", "back"),
        ("atlas", "against"),
        ("machine", "sizes"),
    ],
)
@pytest.mark.parametrize("length", [300, 1000])
def test_a_name_longer_than_any_file_has_is_no_error(
    open_page: Open, page: str, parameter: str, length: int
) -> None:
    at = open_page(page, **{parameter: "x" * length})
    assert not at.exception
    if parameter == "model":
        assert f"no model “{'x' * 100}" in messages(at)
