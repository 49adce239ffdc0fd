"""The Attribution page: what its sentences say is what is drawn."""

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from shown import charts, everything, filled, link, numbers, panels, reading
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.text import t
from models.foreign.placing import DTYPE_VARIABLE


def test_both_rankings_add_up_to_the_score_and_a_silent_model_says_why(open_page):
    at = open_page("attribution", site="cross", layer="2", head="1")
    score = float(filled(at, "attribution.read_why")["score"].replace("−", "-"))
    for side in ("query", "key"):
        (ranking,) = charts(at, f"attribution.{side}s")
        assert numbers(ranking["data"][0]["x"]).sum() == pytest.approx(score, abs=0.006)
    at = open_page("attribution", model="headless")
    assert "the score is" in reading(at, "contributes most through the query")
    for part in ("writes", "lens"):
        at = open_page("attribution", model="headless", part=part)
        assert t("needs.output", lang="en") in everything(at)
        assert not at.get("plotly_chart")


def test_a_cell_is_chosen_and_compared_and_the_link_says_so(open_page):
    at = open_page("attribution", site="encoder", layer="2", picture="singles")
    at.selectbox(key="attribution.query").set_value(2).run()
    first = at.selectbox(key="attribution.key").value
    other = 3 if first != 3 else 4
    at.selectbox(key="attribution.key").set_value(other).run()
    at.selectbox(key="attribution.against").set_value(0).run()
    assert "minus the score of" in reading(at, "the score of")
    kept = link(at)
    assert (kept["row"], kept["key"], kept["beside_key"]) == ("2", str(other), "0")
    at.selectbox(key="attribution.against").set_value(-1).run()
    assert "beside_key" not in link(at)


def test_a_hidden_key_and_a_head_of_the_encoder_are_no_share(open_page):
    at = open_page("attribution", site="decoder", row="0", key="1")
    assert "has no effect" in reading(at, "A mask hides")
    at = open_page("attribution", part="writes", site="encoder", row="1")
    assert t("attribution.head_lead_indirect", lang="en") in everything(at)
    assert "Measured: ablating this head" in everything(at)


def type_word(at: AppTest, key: str, word: str) -> None:
    """Into a menu that takes what it does not offer, which AppTest cannot choose."""
    states = at._tree.get_widget_states()
    (state,) = (each for each in states.widgets if each.id == at.selectbox(key=key).id)
    state.string_value = word
    at._run(states)


def test_words_are_picked_and_typed(open_page):
    at = open_page("attribution", part="writes", row="1", text="She reads a book every morning.")
    written, *others = at.selectbox(key="attribution.word").options
    at.selectbox(key="attribution.word").set_value(others[1]).run()
    assert f"“{others[1].split(' · ')[0]}”" in reading(at, "Highest contribution")
    assert "word" in link(at)
    at.selectbox(key="attribution.word").set_value(written).run()
    assert f"“{written.split(' · ')[0]}” (" in reading(at, "Highest contribution")
    type_word(at, "attribution.rival", "I")
    assert "minus the logit of “I”" in reading(at, "Highest contribution")
    rival = link(at)["rival"]
    type_word(at, "attribution.rival", "parkbook")
    assert "is not one token of this model" in everything(at)
    assert link(at)["rival"] == rival
    none = t("attribution.rival_none", lang="en")
    at.selectbox(key="attribution.rival").set_value(none).run()
    assert link(at)["alone"] == "1"


def test_the_lens_says_where_it_misleads_and_a_film_ends_at_its_step(open_page):
    at = open_page("attribution", part="lens", text="She reads a book every morning.")
    assert "farther from the final prediction than a uniform guess" in everything(at)
    at.toggle(key="attribution.filmed").set_value(True).run()
    steps = int(at.slider(key="attribution.step").max)
    at.slider(key="attribution.step").set_value(2).run()
    assert (link(at)["filmed"], link(at)["step"]) == ("1", "2")
    (drawn,) = panels(at, "attribution.lens")
    assert np.any(drawn["words"] != "", axis=0).tolist() == [True] * 2 + [False] * (steps - 2)
    assert drawn["columns"]["tokens"][2:] == [""] * (steps - 2)
    assert steps > 2


def test_masked_words_are_asked_first_and_a_text_opened_where_something_was_written(open_page):
    text = "She reads a [MASK] every [MASK]."
    at = open_page("attribution", model="reader", part="writes", text=text)
    assert reading(at, "Highest contribution").startswith("At “&#60;mask&#62;”")
    at = open_page("attribution", model="reader", part="lens", filmed="1", text=text)
    assert at.slider(key="attribution.step").max == 2
    at = open_page("attribution", model="reader", part="lens", filmed="1", text="She reads.")
    assert at.error or at.warning
    at = open_page("attribution", model="writer")
    assert at.selectbox(key="attribution.layer").value == 1  # counted from 0
    last = len(at.selectbox(key="attribution.query").options) - 1
    assert at.selectbox(key="attribution.query").value == last
    at = open_page("attribution", model="writer", layer="1", head="1", row="2")
    assert at.selectbox(key="attribution.layer").value == 0
    assert at.selectbox(key="attribution.query").value == 2


def test_a_model_without_biases_has_none_among_its_contributions(open_page, shipped):
    at = open_page("attribution", model="stories", part="writes", row="6", alone="1")
    assert "lowest: **token**" in reading(at, "Highest contribution")


@pytest.mark.parametrize("part", ["why", "writes"])
@pytest.mark.parametrize("shift", [0.0, 4096.0])
def test_a_large_residual_is_not_called_a_sum(
    open_page, tmp_path, monkeypatch, save_small, part, shift
):
    """Half precision rounds away what is small beside a stream that is large in between."""
    folder = tmp_path / "writer"
    save_small(folder, family="decoder-only", norm_placement="pre", final_norm=True)
    tensors = load_file(folder / "model.safetensors")
    tensors["blocks.0.attn.w_o.bias"] += shift
    tensors["blocks.0.ffn.w_down.bias"] -= shift
    save_file(tensors, folder / "model.safetensors")
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path)
    monkeypatch.setenv(DTYPE_VARIABLE, "bfloat16" if shift else "float32")
    at = open_page(
        "attribution", model="writer", part=part, layer="2", row="3", text="She reads a book"
    )
    words = everything(at)
    assert ("The terms do not add up to the total" in words) == (shift > 0)
