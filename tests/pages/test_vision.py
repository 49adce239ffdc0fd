"""Every page with models that read pictures, shipped and foreign."""

import re
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from foreign import Golden
from shown import Open, everything, link

from explorer import library
from explorer.pages import PAGES
from models.foreign.finding import VARIABLE

KINDS = ("labels/vit", "dinov2_with_registers", "siglip_vision_model", "reader")
SHELF = library.CHECKPOINTS
OF_TEXTS = {"training", "path", "workshop", "claims", "card"}
"""Pages that show other models' texts, too."""
PARTS = [(page.name, part) for page in PAGES for part in getattr(page.choices, "parts", ("",))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("vision")
    for kind in KINDS[:-1]:
        Golden.load(kind).write(made / kind.replace("/", "-"))
    return made


@pytest.fixture(autouse=True)
def _found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(folder))
    monkeypatch.setattr(library, "CHECKPOINTS", SHELF)


def visits() -> list[ParameterSet]:
    """The first part of every page with a kind in turn; all others only in the sweep."""
    firsts = {page: part for page, part in reversed(PARTS)}
    return [
        pytest.param(
            page,
            part,
            kind.replace("/", "-"),
            marks=()
            if firsts[page] == part and list(firsts).index(page) % len(KINDS) == at
            else pytest.mark.sweep,
        )
        for page, part in PARTS
        for at, kind in enumerate(KINDS)
    ]


@pytest.mark.parametrize(("page", "part", "model"), visits())
def test_each_page_opens(open_page: Open, page: str, part: str, model: str) -> None:
    asked = {"part": part} if part else {}
    at = open_page(page, model=model, text="a @serif", **asked)
    assert not at.exception
    assert [each.value for each in at.error] == []
    if page in ("circuits", "atlas") and model != "reader":
        assert "reads only pictures" in everything(at)
    if page not in OF_TEXTS:
        shown = [everything(at), *(tab for pick in at.button_group for tab in pick.options)]
        assert (
            re.findall(r".*(?:[Ss]entence|[Ww]ord order|[Tt]ranslation).*", "\n".join(shown)) == []
        )


def test_the_class_is_shown_and_a_word_is_drawn(open_page: Open) -> None:
    """A hidden patch is counted behind the class token, and the classes are named."""
    at = open_page("heads", model="labels-vit", edits="hide-tgt-3")
    assert not at.exception
    said = everything(at)
    assert "hidden" in said
    assert any(f"**{label} " in said for label in ("bad", "so-so", "good"))
    at.text_input(key="heads.word").set_value("b").run()
    assert link(at)["text"] == "b @sans"
