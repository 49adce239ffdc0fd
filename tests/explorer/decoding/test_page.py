"""The Decoding page: the film of every strategy, one pass, batches, and the tree of prefixes."""

import json
from typing import Any

import pytest
from foreign import Golden
from shown import charts, everything, film, messages, panels, payload, words_of, written
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.numbers import fixed
from explorer.runs.generation import generate
from explorer.text import t, words
from models.config import ModelConfig
from models.foreign.finding import VARIABLE
from models.foreign.placing import DTYPE_VARIABLE
from models.strategies import Beam, Greedy


@pytest.mark.parametrize("model", ["en-zh", "writer"])
def test_the_film_has_every_step_at_the_step_of_the_link(open_page, model):
    text = "I like you because you are kind."
    at = open_page("decoding", model=model, text=text, step="3", layer="2", head="1", limit="9")
    shown = film(at)
    assert shown["scene"] == {"step": 2, "layer": 1, "head": 0, "turn": None}
    assert (shown["source"] is None) == (model == "writer")
    named = "text" if model == "writer" else "tgt"  # a model of one text has no target
    assert shown["words"]["tgt"] == t(f"streams.{named}", lang="en")
    assert shown["frames"][2]["why"].startswith("Step 3:")
    assert shown["row"]["tokens"][-len(shown["frames"]) :] == written(at)


@pytest.mark.parametrize("text", ["I like you.", "The cat is on the table."])
def test_the_other_of_greedy_and_beam_stands_beside_the_film(open_page, text):
    loaded = library.open_model("en-zh", library.CHECKPOINTS)
    greedy, beam = (generate(loaded, text, each) for each in (Greedy(), Beam()))
    for strategy, other, name in (("greedy", beam, "beam"), ("beam-4-1.0", greedy, "greedy")):
        said = everything(open_page("decoding", text=text, strategy=strategy))
        named, same = t(f"decoding.strategies.{name}", lang="en"), greedy.tokens == beam.tokens
        assert (f"{named}: the same output" if same else f"{named}: “{other.text}”") in said
        assert same or fixed(other.logprob) in said


def test_a_seed_draws_its_own_sentence_and_the_next_is_one_click_away(open_page):
    at = open_page("decoding", strategy="sample-1-0-1-0")
    first = written(at)
    drawn = {tuple(first)}
    for _ in range(3):
        at.button(key="decoding.again").click().run()
        drawn.add(tuple(written(at)))
    assert len(drawn) > 1
    at.number_input(key="decoding.seed").set_value(0).run()
    assert written(at) == first
    assert at.query_params["strategy"] == "sample-1-0-1-0"


def test_cut_candidates_have_no_probability_left_and_a_limit_of_0_is_refused(open_page):
    frame = film(open_page("decoding", strategy="sample-1-3-1-7"))["frames"][0]
    assert frame["kept"][:3] == [True] * 3
    assert not any(frame["kept"][3:])
    assert sum(frame["left"]) == pytest.approx(1, abs=1e-4)
    assert len(frame["own"]) >= 12
    at = open_page("decoding", limit="2")
    assert len(film(at)["frames"]) == 2
    at.number_input(key="decoding.limit").set_value(0).run()
    assert t("settings.max_new_tokens", lang="en") in messages(at)


def test_a_beam_of_the_link_is_kept_and_the_other_rule_compared(open_page):
    at = open_page("decoding")
    at.segmented_control(key="decoding.strategy").set_value("beam").run()
    assert at.query_params["strategy"] == "beam-4-1"
    at.slider(key="decoding.width").set_value(2).run()
    assert at.query_params["strategy"] == "beam-2-1"
    at.segmented_control(key="decoding.strategy").set_value("greedy").run()
    at.segmented_control(key="decoding.strategy").set_value("beam").run()
    assert at.query_params["strategy"] == "beam-2-1"
    at = open_page("decoding", strategy="beam-3-1")
    at.selectbox(key="decoding.rule").set_value("early").run()
    assert at.query_params["strategy"] == "beam-3-1-early"
    assert any(words_of(each).startswith("Beam rule · narrowing beam: ") for each in at.caption)
    at.slider(key="decoding.width").set_value(2).run()
    assert at.query_params["strategy"] == "beam-2-1-early"


def test_a_batch_of_own_sentences_is_padded_and_bad_ones_are_refused(open_page):
    at = open_page("masks", part="pass", limit="4")
    at.text_area(key="decoding.lines").set_value("I like you.\nShe reads.\t她看书").run()
    rows = payload(at, "decoding.batch")[0]["rows"]
    assert [len(row["counts"]) for row in rows] == [len(rows[0]["counts"])] * 2
    assert "lines" in at.query_params
    at.text_area(key="decoding.lines").set_value("\n".join(["I."] * 9)).run()
    assert "9" in messages(at)


def test_the_cache_shrinks_with_fewer_key_value_heads(open_page):
    at = open_page("decoding", part="cache", limit="6")
    whole, _ = payload(at, "decoding.cache.view")
    assert whole["kept"] == whole["heads"] == 4
    assert f"{whole['n_bytes'][-1]:,}" in everything(at)
    at.select_slider(key="decoding.cache.heads").set_value(2).run()
    assert at.query_params["kv_heads"] == "2"
    assert f"{whole['n_bytes'][-1] // 2:,}" in everything(at)
    assert charts(at, "decoding.cache.ms")


def test_the_cache_is_counted_in_the_floats_that_it_holds(open_page, own, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(own))
    monkeypatch.setenv(DTYPE_VARIABLE, "bfloat16")
    asked = {"model": "my-llama", "text": "We love you."}
    at = open_page("decoding", part="cache", limit="6", **asked)
    whole, _ = payload(at, "decoding.cache.view")
    assert f"**{whole['n_bytes'][-1]:,}** bytes" in everything(at)
    assert "2 bytes per number" in everything(open_page("tour", lesson="kept", **asked))


@pytest.mark.parametrize("limit", [2, 99])
def test_a_sequence_beyond_the_rotations_that_can_be_cached_says_so(open_page, monkeypatch, limit):
    monkeypatch.setattr(ModelConfig, "cacheable", property(lambda config: limit))
    said = everything(
        open_page("decoding", part="cache", limit="6", text="She reads a book every morning.")
    )
    assert (t("decoding.cache.turned", lang="en", limit=limit) in said) == (limit == 2)


def test_the_rules_of_its_folder_are_applied_or_named(open_page, tmp_path, monkeypatch):
    folder = Golden.load("gpt2").write(tmp_path / "ruled", "own")
    said = {"min_new_tokens": 4, "encoder_repetition_penalty": 1.5, "top_p": 0.9}
    (folder / "generation_config.json").write_text(json.dumps(said))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    at = open_page("decoding", model="ruled", text="the park", limit="9")
    assert len(written(at)) > 4
    captions = [words_of(each) for each in at.caption]
    for key, setting in (("asked_ignored", "encoder"), ("asked_chosen", "top")):
        begun = t(f"decoding.{key}", lang="en", settings="\0").partition("\0")[0]
        assert any(each.startswith(begun) and setting in each for each in captions)
    at.toggle(key="decoding.ruled").set_value(False).run()
    assert len(written(at)) == 1, "by itself this model ends at once"


def nodes(at: AppTest) -> list[dict[str, Any]]:
    return payload(at, "branches.tree")[0]["nodes"]


def test_a_forced_beginning_makes_a_second_line_and_a_typed_token_goes_to_its_step(open_page):
    at = open_page("decoding", limit="8", part="branches", step="2")
    first = written(at)
    at.text_input(key="branches.typed").set_value("很").run()
    assert written(at)[:2] == [first[0], "很"]
    assert film(at)["frames"][1]["why"].startswith("Step 2:")
    first = open_page("decoding", limit="8", part="branches")
    frame = film(first)["frames"][1]
    at = open_page("decoding", limit="8", part="branches", fork="30.31")
    assert [each["forced"] for each in film(at)["frames"]][:3] == [True, True, False]
    said = everything(at)
    assert "diverge at step" in said
    assert len(panels(at, "branches.both")) == 2
    at.segmented_control(key="branches.picture").set_value("difference").run()
    assert panels(at, "branches.difference")
    at.button(key="branches.close").click().run()
    assert "fork" not in at.query_params
    assert film(at)["frames"][1] == frame


@pytest.mark.parametrize(("typed", "key"), [("☃", "unknown_forced"), ("很" * 9, "target_too_long")])
def test_what_cannot_be_written_is_refused_and_the_line_stays(open_page, typed, key):
    at = open_page("decoding", limit="8", part="branches")
    before = written(at)
    at.text_input(key="branches.typed").set_value(typed).run()
    assert words("en")[f"problems.{key}"].split("{")[0] in messages(at)
    assert written(at) == before
    for fork in ("99999", "5.6.7.8.9.10.11.12.13"):
        assert open_page("decoding", limit="8", fork=fork).warning


def test_the_tree_follows_width_and_penalty_and_draws_again(open_page):
    at = open_page("decoding", part="branches", limit="6", sample="sample-2-0-1-3")
    wide = nodes(at)
    assert {line for node in wide for line in node["lines"]} == {"beam", "greedy", "sample"}
    at.slider(key="branches.width").set_value(1).run()
    assert at.query_params["beam"] == "beam-1-1"
    assert len(nodes(at)) < len(wide)
    at.slider(key="branches.length_penalty").set_value(0.0).run()
    assert at.query_params["beam"] == "beam-1-0"
    at.button(key="branches.again").click().run()
    assert at.query_params["sample"] != "sample-2-0-1-3"
    assert "strategy" not in at.query_params  # the film continues with its own
