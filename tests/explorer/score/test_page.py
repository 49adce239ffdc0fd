"""The Cell page: from the link to the numbers of one cell, its steps, and its asides."""

import numpy as np
import pytest
from shown import charts, code_on, everything, filled, numbers, panels, reading
from streamlit.testing.v1 import AppTest

from explorer.exhibits.score.choices import STAGES
from explorer.text import t


def metric(at: AppTest, label: str) -> str:
    return next(str(each.value) for each in at.metric if each.label == label)


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(" %", ""))


def test_the_chain_of_numbers_hangs_together(open_page):
    at = open_page("score", site="decoder", layer="2", head="3", row="3", key="1")
    dot = number(metric(at, t("score.dot", lang="en")))
    score = number(metric(at, t("score.scaled", lang="en", divisor="√6")))
    assert score == pytest.approx(dot / np.sqrt(6), abs=0.01)
    exponential = number(metric(at, t("score.exponential", lang="en")))
    row_sum = number(metric(at, t("score.row_sum", lang="en")))
    weight = number(metric(at, t("score.weight", lang="en"))) / 100
    assert weight == pytest.approx(exponential / row_sum, abs=0.01)


def test_the_next_step_follows_and_without_a_key_the_strongest_is_open(open_page):
    at = open_page("score", lang="zh")
    for stage in range(2, len(STAGES) + 1):
        at.button(key="score.next").click().run()
        assert at.query_params["stage"] == str(stage)
    assert at.button(key="score.next").disabled
    at = open_page("score", site="encoder", layer="1", head="2", row="1")
    at_weights = open_page("score", site="encoder", layer="1", head="2", row="1", stage="4")
    (chart,) = charts(at_weights, "score.softmax")
    weights = next(each["y"] for each in chart["data"] if each["type"] == "bar")
    assert at.selectbox(key="score.key").value == numbers(weights).argmax()
    at.selectbox(key="score.key").select(0).run()
    assert at.query_params["key"] == "0"
    assert at.query_params["row"] == "1"


def test_a_blocked_cell_writes_nothing_and_another_goal_has_another_gain(open_page):
    chosen = {"layer": "1", "head": "1", "row": "1", "key": "3", "stage": "4"}
    at = open_page("score", site="decoder", text="She reads a book every morning.", **chosen)
    assert "The mask blocks this cell" in everything(at)
    assert metric(at, t("score.exponential", lang="en")) == t("score.blocked", lang="en")
    assert metric(at, t("score.written", lang="en")) == "0.00"
    at = open_page("score", site="cross", layer="2", head="1", row="1", stage="5")
    before = reading(at, "to first order")
    box = at.selectbox(key="score.goal")
    box.select((box.value + 1) % 6).run()
    assert reading(at, "to first order") != before
    assert "goal" in at.query_params


def test_the_scaling_that_is_chosen_is_measured(open_page):
    at = open_page("score", aside="scaling", site="encoder", layer="1", head="1", row="0")
    usual = filled(at, "score.scaling_reading")
    assert usual["weight"] == usual["own"]
    at.segmented_control(key="score.scaling").set_value("none").run()
    assert at.query_params["scaling"] == "none"
    assert filled(at, "score.scaling_reading") != usual


def test_the_parts_of_a_score_are_added_up(open_page):
    at = open_page("score", aside="split", site="encoder", layer="1", head="2", row="1", key="2")
    said = filled(at, "score.split_reading")
    terms = [number(term) for term in said["terms"].split()]
    assert len(terms) == 5
    assert sum(terms) == pytest.approx(number(said["score"]), abs=0.05)
    elsewhere = open_page("score", aside="split", site="encoder", layer="2", head="2")
    elsewhere.button(key="score.split_go").click().run()
    assert elsewhere.query_params["layer"] == "1"
    assert "This cell" in everything(elsewhere)


def test_dropout_moves_with_its_slider_and_a_removed_aside_is_named(open_page):
    at = open_page("score", aside="dropout", site="encoder", layer="1", head="1")
    before = reading(at, "this row sums to")
    at.slider(key="score.drop").set_value(0).run()
    assert "this row sums to 1.00" in reading(at, "this row sums to")
    assert reading(at, "this row sums to") != before


def test_an_initialisation_is_chosen_and_measured(open_page):
    at = open_page("score", aside="initial", site="encoder", layer="1", head="1")
    usual = reading(at, "fused into one matrix")
    assert "all 72 rows" in usual  # W_Q, W_K and W_V of 24 dimensions
    assert number(filled(at, "score.initial_differs")["ratio"]) == pytest.approx(0.5, abs=0.06)
    at.segmented_control(key="score.init").set_value("torch").run()
    assert at.query_params["init"] == "torch"
    assert "the spread of the scores is the same" in reading(at, "fused into one matrix")


@pytest.mark.parametrize("model", ["reader", "headless"])
def test_models_with_biased_scores_or_without_logits_have_a_backward_pass_too(open_page, model):
    at = open_page("score", model=model, aside="backward", layer="1", head="2", row="1")
    assert not at.warning
    assert ("Without logits" in everything(at)) == (model == "headless")
    assert "differ from autograd’s by at most" in everything(at)


def test_each_gradient_of_the_head_has_its_picture(open_page):
    at = open_page("score", aside="backward", site="cross", layer="1", head="1", row="1")
    shapes = {}
    for name in ("v", "pattern", "scores", "q", "k"):
        at.segmented_control(key="score.gradient").set_value(name).run()
        shapes[name] = panels(at, "score.backward")[0]["cells"].shape
    assert at.query_params["gradient"] == "k"
    n_query, n_key = shapes["scores"]
    assert shapes["pattern"] == (n_query, n_key)
    assert shapes["q"] == (n_query, 6)
    assert shapes["v"] == shapes["k"] == (n_key, 6)
    at.segmented_control(key="score.more").set_value("more").run()
    assert "def attention_backward(" in code_on(at)
