"""The Card page: the open model's own numbers, and its author's words, whatever they are."""

import html
import shutil

import pytest
from shown import everything, words_of
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.text import LANGUAGES, t
from models import load_checkpoint
from models.checkpoint import CARD

SHIPPED = library.CHECKPOINTS
MODELS = library.list_models(SHIPPED)
HOSTILE = """---
license: "<script>alert(1)</script>"
language: ["| x |", ":red[y]"]
broken: [
---
# A <script>alert(1)</script> card

![pixel](https://a.example/pixel.png) <img src="https://a.example/x.png"> $x$ :red[boo]

[click](javascript:alert(1))
"""


def read(at: AppTest) -> str:
    return html.unescape(everything(at)).replace("\u2060", "")


@pytest.fixture
def hostile(shelf, tmp_path, monkeypatch) -> None:
    """The small translator, with a hostile card."""
    shutil.copytree(shelf / "en-zh", tmp_path / "en-zh")
    (tmp_path / "en-zh" / CARD).write_text(HOSTILE)
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path)


@pytest.mark.parametrize(
    ("model", "lang"),
    [
        pytest.param(model, lang, marks=() if (at + turn) % 6 == 0 else pytest.mark.sweep)
        for at, model in enumerate(MODELS)
        for turn, lang in enumerate(LANGUAGES)
    ],
)
def test_a_shipped_model_has_its_numbers_and_its_card(open_page, model, lang, shipped):
    at = open_page("card", model=model, lang=lang)
    assert not at.warning
    checkpoint = load_checkpoint(SHIPPED / model)
    said = read(at)
    count = sum(each.numel() for each in checkpoint.model.parameters())
    assert f"| {t('card.parameters', lang=lang)} | {count:,} |" in said
    assert f"| {t('card.width', lang=lang)} | {checkpoint.config.d_model:,} |" in said
    assert t("card.lead", lang=lang) in said
    assert f"### {model}" in said
    assert t("card.none", lang=lang) not in said


def test_a_snapshot_is_called_one(open_page, shipped):
    at = open_page("card", model="twin-right@200")
    assert f"| Training snapshot | {t('sidebar.moment_step', lang='en', step=200)} |" in read(at)


def test_a_hostile_card_is_read_and_never_obeyed(open_page, hostile):
    at = open_page("card")
    assert not [each for each in at.markdown if each.allow_html]
    raw = "\n".join(words_of(each) for each in at.markdown)
    for acts in ("<script", "<img", "![", "](javascript", ":red[", "$x$", "license:"):
        assert acts not in raw
    said = read(at)
    assert "### A card" in said
    assert "| Licence, by its card | <script>alert(1)</script> |" in said
    assert "| Languages, by its card | | x | · :red[y] |" in said
    assert "click" in said
    assert t("card.left_out", lang="en") in said


def test_the_button_under_the_model_leads_there_and_keeps_the_model(shipped):
    at = AppTest.from_file("../../app.py", default_timeout=60)
    at.query_params["model"] = "copy"
    at.run()
    assert [title.value for title in at.title] == [t("start.title", lang="en")]
    at.button(key="sidebar.card").click().run()
    assert [title.value for title in at.title] == [t("card.title", lang="en")]
    assert at.query_params["model"] == "copy"
    assert "### copy" in read(at)
