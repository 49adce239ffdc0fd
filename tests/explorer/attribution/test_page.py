"""The Attribution and Patching pages: what their sentences say is what is drawn."""

from collections.abc import Iterator
from threading import Event

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from shown import charts, everything, filled, link, numbers, panels, reading, with_titles, words_of
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.analysis.patching.maps import DRAWS, Map
from explorer.engine import runs as engine
from explorer.exhibits.patching.names import said as share
from explorer.text import t
from explorer.ui import running
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


FIRST = "She reads a book every morning."


def says(at: AppTest, key: str, lang: str = "en", **values: object) -> bool:
    return t(f"patching.{key}", lang=lang, **values) in everything(at)


def test_what_needs_the_second_sentence_is_not_drawn_before_it(open_page, monkeypatch):
    found = Event()

    def searching(*_: object) -> Iterator[tuple[int, int]]:
        yield 0, 1
        found.wait(2)

    monkeypatch.setattr(running, "PATIENCE", 0.1)
    monkeypatch.setattr(engine, "other_text", searching)
    at = open_page("patching", text=FIRST)
    assert at.get("progress")
    at.text_input(key="patching.second").set_value("We went.").run()
    assert link(at)["second"] == "We went."
    found.set()


def test_a_slow_map_is_computed_only_when_asked_for(open_page, monkeypatch):
    monkeypatch.setattr("explorer.exhibits.patching.map.AT_ONCE", 0)
    at = open_page("patching", text=FIRST, what="z")
    assert not panels(at)
    at.button(key="patching.run").click().run()
    assert panels(at, "patching.map")
    at.selectbox(key="patching.what").set_value("v").run()
    assert not panels(at)
    assert at.button(key="patching.run").label == t("patching.run", lang="en")


def test_a_second_sentence_is_offered_and_a_link_opens_one_patch(open_page):
    asked = {"text": FIRST, "second": "We went to the park yesterday.", "what": "z"}
    asked |= {"cell": "cross-2-3"}
    at = open_page("patching", **asked)
    assert "Patched run: " in with_titles(at)
    selected = {each["title"]: each["selected"] for each in panels(at, "patching.map")}
    assert selected[t("kinds.cross", lang="en")] == [1, 2]
    at.segmented_control(key="patching.into").set_value("first").run()
    assert link(at) | {"into": "first", **asked} == link(at)
    at.selectbox(key="patching.what").set_value("pattern").run()
    assert link(at)["what"] == "pattern"
    at = open_page("patching", text=FIRST)
    assert at.text_input(key="patching.second").value
    assert "recovers" in everything(at)
    assert [each["rows"]["tokens"][0] for each in panels(at, "patching.map")] == ["0", "0"]
    assert any("patched" in words_of(each) for each in at.markdown)


def test_sentences_of_different_length_are_aligned_and_say_what_is_compared(open_page):
    at = open_page("patching", text=FIRST, second="We went.", what="pattern")
    assert "have a counterpart" in everything(at)
    assert says(at, "no_pattern")
    assert at.selectbox(key="patching.what").value == "resid"
    box = at.text_input(key="patching.align")
    box.set_value("0-0 1-1").run()
    assert link(at)["align"] == "0-0_1-1"
    at.text_input(key="patching.align").set_value("nonsense").run()
    assert link(at)["align"] == "0-0_1-1"
    assert at.text_input(key="patching.align").value == "0-0 1-1"
    at.button(key="patching.align_again").click().run()
    assert "align" not in link(at)


def test_an_alignment_that_leaves_nothing_and_an_unreadable_sentence_say_so(open_page):
    at = open_page("patching", model="writer", text=FIRST, second="We went.", align="300-300")
    assert t("problems.nothing_aligned", lang="en") in everything(at)
    at.button(key="patching.align_again").click().run()
    assert panels(at, "patching.map")
    at = open_page("patching", text=FIRST, second="a" * 7000)
    assert "limit" in everything(at)
    at = open_page("patching", text=FIRST, second="He reads Ω every morning.")
    assert "Ω" in everything(at)


def test_runs_that_answer_alike_say_that_nothing_can_come_back(open_page):
    at = open_page("patching", text=FIRST, second=FIRST)
    assert "no difference to recover" in everything(at)


def test_masked_words_are_asked_at_the_mask(open_page):
    text = "She reads a [MASK] every morning."
    at = open_page("patching", model="reader", text=text, second=text.replace("She", "He"))
    assert len(at.selectbox(key="patching.question").options) == 1


def test_heads_that_share_keys_and_values_are_named_as_patched_together(
    open_page, save_small, shelf
):
    save_small(shelf / "grouped", family="decoder-only", n_kv_heads=1)
    for what in ("v", "q"):
        at = open_page("patching", model="grouped", text=FIRST, second="We went.", what=what)
        assert says(at, "shared") == (what == "v")
    assert not says(open_page("patching", model="writer", text=FIRST, what="v"), "shared")


def test_without_a_counterpart_away_from_the_output_nothing_is_said_of_one(open_page, shipped):
    start, end = "Once upon a time there was a", "who liked the"
    asked = {"text": f"{start} girl {end}", "second": f"{start} cat {end}", "align": "11-11"}
    words = everything(open_page("patching", model="stories", **asked))
    assert "At the output position, the residual stream recovers" in words
    assert "Away from the output position" not in words


def test_what_misplaced_activations_do_too_is_no_more_than_chance(open_page, monkeypatch):
    """47 % +- 136 of the control stood below a claim that did not know of it."""
    for most, key in ((0.01, "above_chance"), (7.0, "within_chance")):
        drawn = np.full((DRAWS, 1), most)
        monkeypatch.setattr(Map, "misplaced", property(lambda _, drawn=drawn: drawn))
        at = open_page("patching", model="en-zh", text=FIRST, what="z")
        assert says(at, key, most=share(most), draws=DRAWS)


def test_the_words_that_carry_the_answer_are_named_or_the_layers_that_do(open_page, shipped):
    """No embedding recovers half, but a later vector recovers 75 %."""
    text, second = "He bought strawberries yesterday.", "He bought cucumbers yesterday."
    words = everything(open_page("patching", model="en-zh", text=text, second=second))
    assert "recovers **75 %** of the logit difference" in words
    assert "one vector recovers at most" not in words
    # The answer of the first sentence comes from its word, not from the one that it replaces.
    text, second = "She reads a book every morning.", "He reads a book every morning."
    words = everything(open_page("patching", model="en-zh", text=text, second=second))
    assert "“She→He”: patched alone" in words


def test_what_may_be_chance_and_a_third_token_that_wins_are_named(open_page, shipped):
    asked = {"text": "My grandmother is old.", "second": "My grandfather is old."}
    words = everything(open_page("patching", model="en-zh", **asked))
    assert "This may be chance" in words
    assert "above chance" not in words
    words = everything(open_page("patching", model="reader", text="hello", second="yello"))
    before, after = t("patching.third", lang="en", token="~", share="~").split("~ (~)")
    assert words.partition(before)[2].partition(after)[0] == "“J” (78 %)"
