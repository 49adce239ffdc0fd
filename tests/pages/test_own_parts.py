"""Every part of a page, and the words about one cell, for models of other libraries."""

from collections.abc import Callable
from pathlib import Path

import pytest
from shown import words_of
from streamlit.testing.v1 import AppTest

from explorer.pages import PAGES
from models.foreign.finding import VARIABLE

Open = Callable[..., AppTest]
SHORT = "We love you."


@pytest.fixture(autouse=True)
def _add_own(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(own))


@pytest.mark.parametrize(
    ("page", "part"),
    [(page.name, part) for page in PAGES for part in getattr(page.choices, "parts", ())],
)
def test_each_part_opens(open_page: Open, page: str, part: str) -> None:
    """For the design that is furthest from ours."""
    at = open_page(page, model="my-gemma3_text", text=SHORT, part=part)
    assert not at.exception
    assert [each.value for each in at.error] == []


@pytest.mark.parametrize(
    ("model", "link", "said"),
    [
        ("t5", {"stage": "3"}, "÷ 1 is"),  # T5 divides its scores by nothing
        ("gemma2", {"stage": "3"}, "÷ √7 ="),  # Gemma by a number of its own, and caps them
        ("gemma2", {"stage": "5"}, "passes through a norm together with the other cells’ vectors"),
        ("qwen3", {"stage": "1"}, "then normalised, rotated by position (RoPE)."),
        ("gpt_neox", {"stage": "1"}, "rotated by position (RoPE), the first 4 of them."),
        ("llama", {"stage": "1"}, "then rotated by position (RoPE)."),
        ("t5", {"aside": "engines"}, "its heads are always d_model ÷ heads = 6 wide"),
        ("gemma2", {"aside": "engines"}, "it cannot cap the scores"),
        ("gemma2", {"aside": "backward"}, "(dS ∘ (1 − tanh²)) K ÷ √7"),
        ("gpt2", {"aside": "engines"}, "All three compute the same layer"),
        ("llama", {"aside": "dropout"}, "This model was opened without it"),
    ],
)
def test_one_cell_says_what_the_model_does(
    open_page: Open, model: str, link: dict[str, str], said: str
) -> None:
    at = open_page("cell", model=f"my-{model}", text=SHORT, layer="1", head="1", row="2", **link)
    assert not at.exception
    assert said in "\n".join(words_of(each) for each in at.markdown)


def test_an_example_that_is_too_long_for_a_model_stops_nothing(open_page: Open) -> None:
    """One of the sentences by which heads are ranked has 51 of its tokens; it can read 40."""
    at = open_page("alignment", model="my-marian", text=SHORT)
    assert not at.exception
    assert [each.value for each in at.warning] == []
    assert all("and watch TV" not in each.label for each in at.button)  # offered in the sidebar
