"""Formula, code and numbers of every page."""

import pytest
from shown import WHOLE, Open

from explorer.pages import LESSONS

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


@pytest.mark.parametrize("page", [page.name for page in LESSONS])
def test_formula_code_and_numbers_are_there_when_asked_for(open_page: Open, page: str) -> None:
    at = open_page(page, **WHOLE.get(page, {}))
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
