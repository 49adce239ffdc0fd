"""Every page for models of other libraries: one of each kind, with its own kind of tokenizer."""

from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from foreign import OWN, Golden
from streamlit.testing.v1 import AppTest

from explorer.exhibits.escape import escape
from explorer.pages import PAGES
from explorer.text import t
from models.foreign.finding import VARIABLE
from models.foreign.placing import DTYPE_VARIABLE

Open = Callable[..., AppTest]
sweep = pytest.mark.sweep
TEXT = "We went to the park, 我 too."


@pytest.fixture(autouse=True)
def _add_own(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(own))


def opened() -> list[ParameterSet]:
    """Every page of every kind; all but one kind of each page, in turn, only in the sweep."""
    return [
        pytest.param(page.name, kind, marks=() if at % len(OWN) == turn else sweep)
        for at, page in enumerate(PAGES)
        for turn, kind in enumerate(OWN)
    ]


@pytest.mark.parametrize(("page", "model"), opened())
def test_each_page_opens(open_page: Open, page: str, model: str) -> None:
    masks = Golden.load(model).config["model_type"] == "bert"
    text = TEXT.replace("park", "[MASK]") if masks else TEXT
    at = open_page(page, model=f"my-{model}", text=text)
    assert not at.exception
    assert [each.value for each in at.error] == []


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page.name, marks=() if page.name in ("alignment", "atlas") else sweep)
        for page in PAGES
    ],
)
def test_each_page_opens_for_a_translator_without_an_output(open_page: Open, page: str) -> None:
    """Its decoder reads the text itself, since there is no translation."""
    at = open_page(page, model="my-marian-headless", text=TEXT)
    assert not at.exception
    assert [each.value for each in at.error] == []


@pytest.mark.parametrize("page", ["heads", "cell", "masks", "certificate", "blocks", "machine"])
def test_each_page_opens_in_half_precision(
    open_page: Open, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No page reads a weight or a tensor without asking for it in float32."""
    monkeypatch.setenv(DTYPE_VARIABLE, "bfloat16")
    at = open_page(page, model="my-marian", text=TEXT)
    assert not at.exception
    assert [each.value for each in at.error] == []


def test_the_menu_offers_them(open_page: Open) -> None:
    at = open_page("heads", model="my-gpt2", text=TEXT)
    menu = at.selectbox(key="sidebar.model")
    assert {f"my-{name}" for name in OWN} <= set(menu.options)
    assert menu.value == "my-gpt2"


def test_a_model_that_learned_to_chat_offers_its_marks(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Golden.load("qwen3").write(tmp_path / "chat", "own")
    template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}\n{% endfor %}"
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    at = open_page("card", model="chat", text="Hi")
    at.button(key="sidebar.prompt").click().run()
    assert at.text_area(key="sidebar.text").value == "<|im_start|>user\nHi\n"
    assert "sidebar.prompt" not in [each.key for each in at.button]
    assert not at.exception


def test_a_chat_template_that_fails_leaves_the_text_and_says_why(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Golden.load("qwen3").write(tmp_path / "chat", "own")
    (folder / "chat_template.jinja").write_text("{{ raise_exception('no *users*') }}")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    at = open_page("card", model="chat", text="Hi")
    at.button(key="sidebar.prompt").click().run()
    assert at.text_area(key="sidebar.text").value == "Hi"
    reason = escape("TemplateError: no *users*")
    assert t("problems.template_fails", lang="en", reason=reason) in [w.value for w in at.warning]
    assert not at.exception
