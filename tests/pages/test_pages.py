"""Every page in both languages, and what its widgets do to what is shown."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from payloads import unpack
from streamlit.testing.v1 import AppTest

from explorer.analysis.claims import CLAIMS
from explorer.analysis.clinic import PITFALLS
from explorer.library import open_model
from explorer.pages import PAGES
from explorer.pages.clinic.formulas import FORMULAS
from explorer.runs.edits import MaskSize
from explorer.runs.trace import trace
from explorer.text import LANGUAGES, t

Open = Callable[..., AppTest]


def everything(at: AppTest) -> str:
    """All words on the page that came through Markdown."""
    return "\n".join(
        str(each.value) for kind in (at.markdown, at.caption, at.warning, at.info) for each in kind
    )


def reading(at: AppTest, needle: str) -> str:
    """The one Markdown text that contains `needle`."""
    found = [str(each.value) for each in at.markdown if needle in str(each.value)]
    assert len(found) == 1, found
    return found[0]


def figure(at: AppTest, index: int = 0) -> dict[str, Any]:
    return json.loads(at.get("plotly_chart")[index].proto.spec)


WHOLE = {"certificate": {"tested": "1"}, "claims": {"guess": "true"}}
"""What a page's link needs besides, for the page to show everything that it has."""


def link(at: AppTest) -> dict[str, str]:
    """The parameters of the page's address."""
    return {name: str(at.query_params[name]) for name in at.query_params}


def has_picture(at: AppTest) -> bool:
    return bool(at.get("plotly_chart") or at.get("bidi_component"))


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("page", [page.name for page in PAGES])
@pytest.mark.parametrize("model", ["en-zh", "writer"])
def test_each_page_is_drawn_in_each_language_for_each_family(
    open_page: Open, page: str, lang: str, model: str
) -> None:
    at = open_page(page, lang=lang, model=model, **WHOLE.get(page, {}))
    assert not at.exception
    assert not at.warning
    assert t(f"{page}.lead", lang=lang, count=len(CLAIMS)) in everything(at)
    assert has_picture(at)
    if lang == "zh":
        assert t(f"{page}.lead", lang="en", count=len(CLAIMS)) not in everything(at)


@pytest.mark.parametrize("page", [page.name for page in PAGES])
@pytest.mark.parametrize("part", ["formula", "code", "numbers"])
def test_formula_code_and_numbers_are_there_when_asked_for(
    open_page: Open, page: str, part: str
) -> None:
    at = open_page(page, **WHOLE.get(page, {}))
    assert not at.latex
    shown = len(at.code)
    at.segmented_control(key=f"{page}.more").set_value(part).run()
    assert not at.exception
    if part == "formula":
        assert at.latex
    elif part == "code":
        source = {"heads": "def attend(", "masks": "def causal_mask(", "positions": "def moved("}
        source["blocks"] = "class LayerNorm("
        source["clinic"] = "demonstrate"
        source["machine"] = "def count("
        source["claims"] = "def variance("
        source["cell"] = "def attend("
        source["certificate"] = "def future_leak("
        assert len(at.code) > shown
        assert any(source.get(page, "class Greedy(") in each.value for each in at.code[shown:])
    else:
        assert len(at.dataframe[-1].value) > 1


def _nothing_changed(why: str) -> str:
    """What is said of it, without the rounding that was measured."""
    return t(f"masks.nothing_changed_{why}", lang="en", exact="").partition("). ")[2]


def test_padding_changes_nothing_while_the_masks_are_right(open_page: Open) -> None:
    at = open_page("masks", pads="0")
    for pads in (1, 8):
        at.slider(key="masks.pads").set_value(pads).run()
        assert _nothing_changed("pads") in everything(at)
        assert at.query_params["pads"] == str(pads)


def test_that_nothing_changes_is_explained_by_what_was_done(open_page: Open) -> None:
    """A change that affects no real token is not evidence that the masks are correct."""
    at = open_page("masks", pads="0")
    assert _nothing_changed("same") in everything(at)
    at = open_page("masks", pads="3", edits="pad_queries-on", beside="She reads.")
    assert _nothing_changed("edits") in everything(at)
    assert "With your changes to the model, too" in everything(at)


def test_a_window_is_computed_as_its_help_says(open_page: Open, shelf: Path) -> None:
    at = open_page("masks", pads="0", edits="window-1")
    slider = at.slider(key="masks.window")
    assert "the whole matrix is computed and then masked" in slider.help
    loaded = open_model("en-zh", shelf)
    found = trace(loaded, "I like you because you are kind.", edits=(MaskSize("window", 1),))
    site = loaded.sites[0]
    scores, pattern = (found.activations[site.hook(name)] for name in ("scores", "pattern"))
    assert scores.shape == pattern.shape
    outside = ~np.eye(scores.shape[-1], dtype=bool)
    assert (scores[:, outside] != 0).all()
    assert (pattern[:, outside] == 0).all()


def test_seen_padding_changes_weights_and_says_by_how_much(open_page: Open) -> None:
    at = open_page("masks", pads="5")
    at.toggle(key="masks.pad_keys").set_value(False).run()
    assert "Largest change of any weight between real tokens: **0**" not in everything(at)
    largest = reading(at, "Largest change")
    points = float(largest.split("**")[1].split()[0])
    assert 0.005 < points <= 100
    assert at.query_params["edits"] == "pad_keys-off"


def test_without_the_causal_mask_the_shown_translation_is_another(open_page: Open) -> None:
    at = open_page("masks", pads="0", text="I like you because you are kind.")
    before = reading(at, "→")
    at.toggle(key="masks.causal").set_value(False).run()
    assert reading(at, "→") != before
    assert "-background[" in everything(at)
    at.toggle(key="masks.causal").set_value(True).run()
    assert reading(at, "→") == before
    assert "edits" not in at.query_params


def test_masks_can_be_seen_as_a_difference(open_page: Open) -> None:
    at = open_page("masks", edits="cross_pad-off", pads="3")
    assert len(at.get("plotly_chart")) == 3  # before, after, losses
    at.segmented_control(key="masks.picture").set_value("difference").run()
    assert len(at.get("plotly_chart")) == 2
    assert figure(at)["data"][0]["zmin"] == -figure(at)["data"][0]["zmax"]
    at.segmented_control(key="masks.picture").set_value("scores").run()
    assert at.query_params["picture"] == "scores"
    at = open_page("masks", **link(at))
    whole, masked = figure(at), figure(at, 1)
    assert whole["data"][0]["zmax"] == masked["data"][0]["zmax"] > 0
    assert not whole["layout"].get("images")


def test_an_example_is_translated_at_once_and_goes_into_the_link(open_page: Open) -> None:
    at = open_page("heads")
    at.button(key="sidebar.example.first.1").click().run()
    assert "We went to the park yesterday" in reading(at, "→")
    assert at.text_area(key="sidebar.text").value == "We went to the park yesterday."
    assert at.query_params["text"] == "We went to the park yesterday."


def test_an_own_translation_is_read_instead(open_page: Open) -> None:
    at = open_page("heads")
    at.text_area(key="sidebar.target").set_value("我喜欢你").run()
    assert ":orange[我喜欢你]" in reading(at, "→")
    assert "(your translation, read with teacher forcing)" in reading(at, "→")
    assert at.query_params["target"] == "我喜欢你"


def test_a_story_teller_is_given_a_continuation_and_a_translator_a_translation(
    open_page: Open,
) -> None:
    for model, words in (("translator", "target"), ("writer", "continuation")):
        area = open_page("heads", model=model).text_area(key="sidebar.target")
        assert area.label == t(f"sidebar.{words}", lang="en")
        assert area.placeholder == t(f"sidebar.{words}_hint", lang="en")
        assert area.help == t(f"sidebar.{words}_help", lang="en")


def test_an_own_continuation_stands_behind_the_text_with_its_marks_escaped(
    open_page: Open,
) -> None:
    at = open_page("heads", model="writer", text="the fox", target="likes *the* dog")
    line = reading(at, ":green[the fox]")
    assert line.startswith(":green[the fox] **:orange[likes &#42;the&#42; dog]** (")
    assert ":orange" not in reading(open_page("heads", model="writer", text="the fox"), "the fox")


def test_a_model_of_one_text_has_no_target_in_table_or_axis(open_page: Open) -> None:
    for model, head, axis in (
        ("writer", "batch_text_pads", "text"),
        ("translator", "batch_pads", "src"),
    ):
        words = everything(open_page("masks", model=model, text="a b", beside="a b c"))
        assert t(f"masks.{head}", lang="en") + " |" in words
        hidden = open_page("blocks", model=model, text="a b", part="hidden")
        title = figure(hidden)["layout"]["yaxis"]["title"]["text"]
        assert title == t(f"streams.{axis}", lang="en")


def test_the_certificate_of_one_text_names_no_target(open_page: Open) -> None:
    for model, name in (("writer", "text"), ("translator", "tgt")):
        at = open_page("certificate", model=model, tested="1", text="a b c")
        drawn = [unpack(each.proto.bytes)[0] for each in at.get("bidi_component")]
        titles = {each[side]["title"] for each in drawn for side in ("queries", "keys")}
        named = {
            t(f"certificate.{what}", lang="en", stream=t(f"streams.{stream}", lang="en"))
            for what in ("moved", "changed")
            for stream in ((name,) if name == "text" else ("src", "tgt"))
        }
        assert titles == named


def test_the_certificate_waits_for_a_click_and_then_keeps_up(open_page: Open) -> None:
    at = open_page("certificate")
    assert not at.get("bidi_component")
    assert t("certify.future_leak.title", lang="en") in everything(at)
    at.button(key="certificate.run").click().run()
    assert "All 12 mask properties" in reading(at, "mask properties")
    assert at.query_params["tested"] == "1"
    assert len(at.get("bidi_component")) == 3
    at.button(key="sidebar.example.first.1").click().run()
    assert "All 12 mask properties" in reading(at, "mask properties")


def test_the_certificate_of_changed_masks_says_what_breaks_and_where(open_page: Open) -> None:
    at = open_page("certificate", tested="1", edits="causal-off~head-decoder.blocks.0.attn-1")
    assert "**3** of 11 mask properties" in reading(at, "mask properties")
    assert t("certify.future_mass.broken", lang="en") in everything(at)
    where = next(
        str(each.value) for each in at.caption if "Decoder self-attention · layer" in each.value
    )
    assert "allowed 10⁻⁸" in where
    assert "query “" in where
    at.button(key="certificate.reset").click().run()
    assert "All 12 mask properties" in reading(at, "mask properties")
    assert "edits" not in at.query_params


def test_every_fault_of_the_clinic_is_shown(open_page: Open) -> None:
    at = open_page("clinic", pads="2")
    for pitfall in PITFALLS:
        if at.query_params.get("case", [PITFALLS[0].id]) != [pitfall.id]:
            at.segmented_control(key="clinic.group").set_value(pitfall.group).run()
            at.segmented_control(key="clinic.case").set_value(pitfall.id).run()
        assert not at.exception, pitfall.id
        assert t(pitfall.symptom_key, lang="en") in everything(at)
        assert at.code[0].value == pitfall.wrong_source
        assert t("clinic.own", lang="en") in everything(at) or t(
            "clinic.fixed", lang="en"
        ) in everything(at)


def test_a_planted_fault_shows_in_what_the_model_writes(open_page: Open) -> None:
    at = open_page("clinic", case="inverted_padding")
    loss = reading(at, "teacher forcing)")
    before, after = (float(part.split("**")[0]) for part in loss.split("**")[1::2])
    assert after > before
    unchanged = open_page("clinic", case="left_positions")
    assert t("clinic.unchanged", lang="en") in everything(unchanged)


def test_a_fault_that_is_unknown_is_said_and_left_out(open_page: Open) -> None:
    at = open_page("clinic", case="<b>nothing</b>", lang="zh")
    assert not at.exception
    assert len(at.warning) == 1
    assert "&#60;b&#62;nothing" in str(at.warning[0].value)
    assert t(PITFALLS[0].symptom_key, lang="zh") in everything(at)


def test_every_fault_has_a_formula_of_its_own(open_page: Open) -> None:
    assert set(FORMULAS) == {pitfall.id for pitfall in PITFALLS}
    assert all(wrong != right for wrong, right in FORMULAS.values())
    for case, symbol in (("norm_backward", r"\gamma"), ("no_zero_grad", r"\nabla L")):
        at = open_page("clinic", case=case)
        at.segmented_control(key="clinic.more").set_value("formula").run()
        lines = [str(each.value) for each in at.latex]
        assert all(word in line for word, line in zip(("Wrong", "Right"), lines, strict=True))
        assert all(symbol in line and "m_{ij}" not in line for line in lines)


def test_further_rules_are_numbers_and_stand_in_the_link(open_page: Open) -> None:
    at = open_page("masks", pads="0")
    at.slider(key="masks.window").set_value(1).run()
    assert not at.exception
    assert at.query_params["edits"] == "window-1"
    assert "Sliding window: 1" in everything(at)
    assert "Largest change of any weight between real tokens: **0**" not in everything(at)
    at.toggle(key="masks.causal").set_value(False).run()
    assert at.slider(key="masks.prefix").disabled
    assert at.query_params["edits"] == "window-1~causal-off"
    at.slider(key="masks.window").set_value(0).run()
    assert at.query_params["edits"] == "causal-off"


def test_undo_and_redo_walk_through_the_changes(open_page: Open) -> None:
    at = open_page("masks")
    assert at.button(key="masks.undo").disabled
    at.toggle(key="masks.causal").set_value(False).run()
    at.slider(key="masks.block").set_value(2).run()
    at.button(key="masks.undo").click().run()
    assert at.query_params["edits"] == "causal-off"
    at.button(key="masks.undo").click().run()
    assert "edits" not in at.query_params
    assert at.button(key="masks.undo").disabled
    at.button(key="masks.redo").click().run()
    assert at.query_params["edits"] == "causal-off"
    at.button(key="masks.reset").click().run()
    at.button(key="masks.undo").click().run()
    assert at.query_params["edits"] == "causal-off"
    assert at.button(key="masks.redo").disabled is False


def test_painted_cells_are_counted_and_an_empty_row_is_explained(open_page: Open) -> None:
    cells = "-".join(f"1.{key}" for key in range(2))
    at = open_page("masks", edits=f"cells-decoder-all-shut-{cells}", site="decoder")
    assert not at.exception
    assert "cell (1, 0) blocked" in everything(at)
    assert "can attend to nothing now" in everything(at)
    many = "-".join(f"{query}.0" for query in range(1, 5))
    at = open_page("masks", edits=f"cells-decoder-all-shut-{many}")
    assert t("edits.cells", lang="en", count=4) in everything(at)


def test_changed_masks_are_judged_under_teacher_forcing(open_page: Open) -> None:
    assert t("masks.forced", lang="en") not in everything(open_page("masks"))
    at = open_page("masks", edits="causal-off")
    loss = reading(at, "Loss per token")
    before, after = (float(part.split("**")[0]) for part in loss.split("**")[1::2])
    assert before != after
    step = next(box for box in at.selectbox if box.key.startswith("masks.next."))
    rows = reading(at, t("masks.your_masks", lang="en") + " |")
    step.select(0).run()
    assert reading(at, t("masks.your_masks", lang="en") + " |") != rows


def test_edits_that_do_not_fit_are_named_and_kept(open_page: Open) -> None:
    edits = "causal-off~cells-decoder-all-shut-60.1"
    at = open_page("masks", edits=edits)
    assert "&#45;60&#46;1" in everything(at)
    assert at.query_params["edits"] == edits


def test_sentences_in_one_batch_notice_each_other_only_through_padding(open_page: Open) -> None:
    others = "She reads a book every morning and every day."
    right = open_page("masks", beside=others)
    assert "**0**" in reading(right, t("masks.batch_same", lang="en", exact="").split(":")[0])
    wrong = open_page("masks", beside=others, edits="pad_keys-off")
    assert reading(wrong, t("masks.batch_moved", lang="en", text="", points="").split(":")[0])
    alone = open_page("masks")
    assert t("masks.batch_empty", lang="en") in everything(alone)
