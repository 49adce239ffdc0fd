"""Every aside of the Attention cell page, for every family."""

from collections.abc import Callable

import pytest
from shown import everything
from streamlit.testing.v1 import AppTest

from explorer.exhibits.cell.choices import ASIDES
from explorer.text import LANGUAGES, t

Open = Callable[..., AppTest]


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("aside", ASIDES)
@pytest.mark.parametrize("model", ["en-zh", "writer"])
def test_every_aside_is_drawn_for_every_family(
    open_page: Open, lang: str, aside: str, model: str
) -> None:
    at = open_page("cell", lang=lang, model=model, aside=aside, layer="1", head="1", row="2")
    assert not at.exception
    assert not at.warning
    other = {
        "split": "split_not" if model == "en-zh" else "split_lead",
        "backward": "backward_formula",
        "dropout": "dropout_zero",  # their configs say so
    }
    if aside == "backward":
        at.segmented_control(key="cell.more").set_value("formula").run()
    root = t("cell.backward_root", lang=lang)
    key = other.get(aside, f"{aside}_lead")
    assert t(f"cell.{key}", lang=lang, d_in=24, divisor=root) in everything(at)
