"""Every page for every family of models, in both languages, with what explains it."""

import pytest
from shown import WHOLE, Open, everything, has_picture
from streamlit.testing.v1 import AppTest

from explorer.pages import LESSONS, PAGES
from explorer.text import LANGUAGES, t

SOURCES = {
    "start": "def flow(",
    "path": "def look(",
    "heads": "def attend(",
    "masks": "def causal_mask(",
    "positions": "def moved(",
    "causes": "def why(",
    "patching": "def patch_map(",
    "blocks": "def layer_norm_forward(",
    "clinic": "demonstrate",
    "machine": "def count(",
    "claims": "def variance(",
    "cell": "def attend(",
    "certificate": "def future_leak(",
    "decoding": "class Greedy(",
    "alignment": "def read(",
    "circuits": "def behaviour(",
    "atlas": "def name_of(",
    "workshop": "def grade(",
    "training": "def backward(",
}


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("page", [page.name for page in LESSONS])
@pytest.mark.parametrize("model", ["en-zh", "writer"])
def test_each_page_is_drawn(open_page: Open, page: str, lang: str, model: str) -> None:
    """Its heading, what it is about, a picture, no message; once its formula, code and numbers."""
    at = open_page(page, lang=lang, model=model, **WHOLE.get(page, {}))
    assert not at.exception
    assert not at.warning
    assert [title.value for title in at.title] == [t(f"{page}.title", lang=lang)]
    assert t(f"{page}.lead", lang=lang) in everything(at)
    assert has_picture(at)
    if lang == "zh":
        assert t(f"{page}.lead", lang="en") not in everything(at)
    elif model == "en-zh":
        check_explained(at, page)


def check_explained(at: AppTest, page: str) -> None:
    """Formula, code and numbers are there when asked for."""
    assert not at.latex
    shown = len(at.code)
    more = f"{page}.more"
    at.segmented_control(key=more).set_value("formula").run()
    assert not at.exception
    assert at.latex
    at.segmented_control(key=more).set_value("code").run()
    assert not at.exception
    assert len(at.code) > shown
    assert any(SOURCES[page] in each.value for each in at.code[shown:])
    at.segmented_control(key=more).set_value("numbers").run()
    assert not at.exception
    assert len(at.dataframe[-1].value) > 1


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("page", [page.name for page in PAGES if page not in LESSONS])
def test_a_page_that_teaches_nothing_has_its_name_as_heading(
    open_page: Open, page: str, lang: str
) -> None:
    at = open_page(page, lang=lang)
    assert not at.exception
    assert [title.value for title in at.title] == [t(f"{page}.title", lang=lang)]


@pytest.mark.parametrize("model", ["reader", "headless"])
@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_each_page_opens_for_an_encoder(open_page: Open, page: str, model: str) -> None:
    """One that fills in masked words, and one without a head."""
    at = open_page(page, model=model, text="She reads a [MASK] every morning.")
    assert not at.exception
    assert [each.value for each in at.error] == [], "an encoder is refused nothing as it opens"
