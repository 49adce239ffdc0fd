"""A translator of many languages: the sidebar offers a pair of them, and the link keeps it."""

from pathlib import Path

import pytest
from foreign import of_many
from shown import Open

from explorer.ui.sidebar.languages import language_name
from models.foreign.finding import VARIABLE


@pytest.fixture
def nllb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder, _ = of_many(tmp_path / "nllb", "eng_Latn $A </s>", decoder_start_token_id=1)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return folder


@pytest.mark.usefixtures("nllb")
def test_a_pair_of_languages_is_chosen_in_the_sidebar(open_page: Open) -> None:
    at = open_page("heads", model="nllb", text="I like you.")
    assert not at.exception
    assert at.selectbox(key="sidebar.source_language").value == "eng_Latn"
    target = at.selectbox(key="sidebar.target_language")
    assert target.options == [
        "Chinese (zho_Hans)",
        "English (eng_Latn)",
        "French (fra_Latn)",
        "German (deu_Latn)",
    ]
    at = target.set_value("fra_Latn").run()
    assert not at.exception
    assert [each.value for each in at.error] == []
    assert at.query_params["model"] == "nllb@eng_Latn-fra_Latn"
    assert at.selectbox(key="sidebar.model").value == "nllb"
    assert at.selectbox(key="sidebar.target_language").value == "fra_Latn"


@pytest.mark.usefixtures("nllb")
@pytest.mark.parametrize("pair", ["eng_Latn-xxx_Latn", "eng_Latn-", "en-zh"])
def test_a_language_that_the_model_lacks_is_named(open_page: Open, pair: str) -> None:
    at = open_page("heads", model=f"nllb@{pair}", text="I like you.")
    assert not at.exception


def test_a_language_is_named_in_the_visitor_s_words() -> None:
    assert language_name("zho_Hans", "zh") == "中文（zho_Hans）"
    assert language_name("__fr__", "en") == "French (__fr__)"
    assert language_name("ro_RO", "en") == "Romanian (ro_RO)"
    assert language_name("ayr_Latn", "en") == "ayr_Latn"
