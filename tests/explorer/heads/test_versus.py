"""Two models on the Heads page: what is compared, what is said where nothing is, the link."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from shown import Open, code_on, everything, formulas, link, panels, payload
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.analysis.heads.versus import versus
from explorer.components.heads_payload import HeadsSelection
from explorer.exhibits.heads.verdict import LEAST
from explorer.render import drawing
from explorer.runs.trace import trace
from explorer.text import t

TEXT = "She reads a book."


@pytest.fixture(scope="module")
def shelf(shelf, tmp_path_factory) -> Path:
    """The small shelf, and `tuned`: its translator with one matrix of queries changed."""
    folder = tmp_path_factory.mktemp("two") / "shelf"
    shutil.copytree(shelf, folder)
    shutil.copytree(shelf / "en-zh", folder / "tuned")
    weights = load_file(folder / "tuned" / "model.safetensors")
    name = "decoder.blocks.1.cross_attn.w_q.weight"
    weights[name] = -weights[name]
    save_file(weights, folder / "tuned" / "model.safetensors")
    return folder


def sent(at: AppTest, name: str) -> dict[str, Any]:
    """What the picture of one of the two models was sent."""
    return payload(at, f"heads.{name}")[0]


def compared(open_page: Open, other: str = "tuned", **params: str) -> AppTest:
    return open_page("heads", **{"text": TEXT, "with": other, **params})


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_model_and_its_tuned_version_side_by_side(open_page, lang):
    at = compared(open_page, lang=lang, measure="differs", by_measure="1", layer="2", head="1")
    assert not at.warning
    one = trace(library.open_model("en-zh", library.CHECKPOINTS), TEXT)
    other = trace(library.open_model("tuned", library.CHECKPOINTS), TEXT, one.output)
    found = versus(one, other, "cross")
    layer, head = found.ranked()[0]
    assert layer == 1  # where the queries were changed
    np.testing.assert_allclose(found.difference[0], 0, atol=1e-6)
    for picture in (sent(at, "view"), sent(at, "beside")):
        assert picture["measure"]["order"][0] == 4 * layer + head
        assert picture["chosen"]["opened"] == 4
        assert picture["chosen"]["by_measure"]
    said = everything(at)
    bits = f"{found.difference[layer, head]:.2f}"
    assert all(words in said for words in (f"L{layer + 1}·H{head + 1}", bits))
    assert t("heads.versus.measure", lang=lang) in said
    assert "tuned" in said
    (drawn,) = panels(at, "heads.versus")
    assert drawn["scale"]["palette"] == "diverging"


def test_the_control_chooses_a_model_and_orders_by_difference(open_page):
    at = open_page("heads", text=TEXT)
    menu = at.selectbox(key="heads.with")
    assert menu.value == ""
    assert menu.options[1] == "tuned"  # it reads the same tokens
    menu.select("tuned").run()
    assert link(at)["with"] == "tuned"
    assert link(at)["measure"] == "differs"
    assert link(at)["by_measure"] == "1"
    at.selectbox(key="heads.with").select("").run()
    assert {"with", "measure"}.isdisjoint(link(at))
    itself = compared(open_page, "en-zh", model="en-zh")
    assert not itself.warning
    assert not [each for each in itself.button if each.key == "heads.versus.swap"]


def test_the_two_are_swapped_and_an_equal_model_differs_nowhere(open_page, shelf):
    if not (shelf / "same").exists():
        shutil.copytree(shelf / "en-zh", shelf / "same")
    said = everything(compared(open_page, "same"))
    assert t("heads.versus.same_heads", lang="en", count=8, limit=LEAST) in said
    n = len(trace(library.open_model("en-zh", library.CHECKPOINTS), TEXT).tgt_tokens)
    assert t("heads.versus.same_predictions", lang="en", total=n) in said
    at = compared(open_page, layer="2", head="3")
    assert [sent(at, name)["chosen"]["opened"] for name in ("view", "beside")] == [6, 6]
    at.button(key="heads.versus.swap").click().run()
    assert (link(at)["model"], link(at)["with"]) == ("tuned", "en-zh")
    assert (link(at)["layer"], link(at)["head"]) == ("2", "3")


@pytest.mark.parametrize(
    ("model", "other", "site", "key"),
    [
        ("en-zh", "writer", "cross", "no_counterpart"),
        ("en-zh", "writer", "encoder", "incomparable.other_task"),
        ("writer", "reader", "decoder", "incomparable.other_predictions"),
        ("reader", "headless", "encoder", "incomparable.no_predictions"),
        ("writer", "en-zh", "decoder", "shapes_differ"),
    ],
)
def test_what_cannot_be_compared_is_said(open_page, model, other, site, key):
    at = compared(open_page, other, model=model, site=site, text="We went to the park.")
    said = everything(at)
    template = t(f"heads.versus.{key}", lang="en", **dict.fromkeys(VALUES, "\0")).split("\0")
    assert all(part in said for part in template), key
    assert sent(at, "view") != sent(at, "beside")  # both pictures are there all the same


VALUES = ("one", "other", "kind", "layers", "heads", "their_layers", "their_heads")


def test_heads_without_numbers_in_common_open_beside_their_most_similar_with_its_code(open_page):
    at = compared(open_page, "en-zh", model="writer", site="decoder", text="We went to the park.")
    nearest = sent(at, "beside")["chosen"]["opened"]
    assert "differs least from" in everything(at)
    at = compared(open_page, "en-zh", model="writer", site="decoder", text=TEXT, with_head="3.4")
    assert sent(at, "beside")["chosen"]["opened"] == 11
    assert nearest is not None
    at = compared(open_page)
    at.segmented_control(key="heads.more").set_value("more").run()
    assert "JS" in formulas(at)
    assert "def divergence(" in code_on(at)
    name = t("heads.measures.differs", lang="en")
    (differences,) = (each.value[name] for each in at.dataframe if name in each.value)
    assert len(differences) == 8
    assert list(differences) == sorted(differences, reverse=True)


@pytest.mark.parametrize(
    ("model", "other", "opened", "said"),
    [
        ("en-zh", "tuned", (0, 3), {"layer": "1", "head": "4", "row": "2"}),
        ("writer", "en-zh", (2, 1), {"with_head": "3.2"}),
    ],
)
def test_a_click_in_the_other_picture_is_taken(open_page, monkeypatch, model, other, opened, said):
    """By number it opens the head in both models, otherwise in the other one alone."""
    clicks, heads_view = [HeadsSelection(opened, query=2)], drawing.heads_view

    def clicked(*given: Any, key: str, on_picked: Callable[[], None], **options: Any) -> None:
        heads_view(*given, key=key, on_picked=on_picked, **options)
        if key == "heads.beside":
            on_picked()

    monkeypatch.setattr(drawing, "sent_selection", lambda *_: clicks.pop() if clicks else None)
    monkeypatch.setattr(drawing, "heads_view", clicked)
    at = compared(open_page, other, model=model, layer="2", head="1").run()
    assert said.items() <= link(at).items()
    place = 4 * opened[0] + opened[1]
    first = place if "layer" in said else 4
    assert [sent(at, name)["chosen"]["opened"] for name in ("view", "beside")] == [first, place]
