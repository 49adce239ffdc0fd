"""The Cell page: from the link to the numbers of one cell, its steps, and what stands beside."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from shown import everything, figure, reading
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.exhibits.cell.choices import STAGES
from explorer.text import LANGUAGES, t

Open = Callable[..., AppTest]


def metric(at: AppTest, label: str) -> str:
    return next(str(each.value) for each in at.metric if each.label == label)


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(" %", ""))


def test_the_chain_of_numbers_hangs_together(open_page: Open) -> None:
    at = open_page("cell", site="decoder", layer="2", head="3", row="3", key="1")
    dot = number(metric(at, t("cell.dot", lang="en")))
    score = number(metric(at, t("cell.scaled", lang="en", divisor="√6")))
    assert score == pytest.approx(dot / np.sqrt(6), abs=0.01)
    exponential = number(metric(at, t("cell.exponential", lang="en")))
    row_sum = number(metric(at, t("cell.row_sum", lang="en")))
    weight = number(metric(at, t("cell.weight", lang="en"))) / 100
    assert weight == pytest.approx(exponential / row_sum, abs=0.01)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("stage", range(len(STAGES)))
def test_every_step_has_its_picture_and_its_sentence(
    open_page: Open, lang: str, stage: int
) -> None:
    at = open_page("cell", lang=lang, stage=str(stage + 1), row="2")
    assert not at.exception
    assert len(at.get("plotly_chart")) == (2 if stage == 4 else 1)
    words = {
        "en": (
            "provides the query q",
            "Dimension by dimension",
            "ranks",
            "of its attention",
            "is added to a residual stream",
        ),
        "zh": ("给出查询 q", "逐维相乘", "排第", "的注意力给了", "加到长度为"),
    }
    assert words[lang][stage] in everything(at)


def test_the_next_step_follows_and_stands_in_the_link(open_page: Open) -> None:
    at = open_page("cell")
    for stage in range(2, 6):
        at.button(key="cell.next").click().run()
        assert at.query_params["stage"] == str(stage)
    assert at.button(key="cell.next").disabled


def test_without_a_key_the_strongest_of_the_row_is_open(open_page: Open) -> None:
    at = open_page("cell", site="encoder", layer="1", head="2", row="1")
    weights = figure(open_page("cell", site="encoder", layer="1", head="2", row="1", stage="4"))
    assert at.selectbox(key="cell.key").value == int(np.argmax(_y(weights)))
    at.selectbox(key="cell.key").select(0).run()
    assert at.query_params["key"] == "0"
    assert at.query_params["row"] == "1"


def _y(spec: dict) -> np.ndarray:
    import base64

    y = spec["data"][0]["y"]
    return np.frombuffer(base64.b64decode(y["bdata"]), y["dtype"]) if isinstance(y, dict) else y


def test_a_blocked_cell_says_so_and_writes_nothing(open_page: Open) -> None:
    at = open_page("cell", site="decoder", layer="1", head="1", row="1", key="3", stage="4")
    assert "The mask blocks this cell" in everything(at)
    assert metric(at, t("cell.exponential", lang="en")) == t("cell.blocked", lang="en")
    assert metric(at, t("cell.written", lang="en")) == "0.00"


def test_another_goal_has_another_gain(open_page: Open) -> None:
    at = open_page("cell", site="cross", layer="2", head="1", row="1", stage="5")
    before = reading(at, "is added to a residual stream")
    box = at.selectbox(key="cell.goal")
    box.select((box.value + 1) % 6).run()
    assert reading(at, "is added to a residual stream") != before
    assert "goal" in at.query_params


def test_the_scaling_that_is_chosen_is_measured(open_page: Open) -> None:
    at = open_page("cell", aside="scaling", site="encoder", layer="1", head="1", row="0")
    usual = reading(at, "With this scaling")
    weights = re.findall(r"[\d.]+ %", usual)
    assert weights[0] == weights[1]
    at.segmented_control(key="cell.scaling").set_value("none").run()
    assert at.query_params["scaling"] == "none"
    assert reading(at, "With this scaling") != usual


def test_the_parts_of_a_score_are_added_up(open_page: Open) -> None:
    at = open_page("cell", aside="split", site="encoder", layer="1", head="2", row="1", key="2")
    left, right = reading(at, "varies most").split(" = ")[:2]
    terms = [number(term) for term in left.split()]
    assert len(terms) == 5
    assert sum(terms) == pytest.approx(
        number(right.split(".")[0] + "." + right.split(".")[1]), abs=0.05
    )
    elsewhere = open_page("cell", aside="split", site="encoder", layer="2", head="2")
    elsewhere.button(key="cell.split_go").click().run()
    assert elsewhere.query_params["layer"] == "1"
    assert "varies most" in everything(elsewhere)


def test_the_dropout_that_is_named_is_that_of_attention(
    open_page: Open,
    save_small: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save_small(tmp_path / "en-zh", attention_dropout=0.05)  # and 0 elsewhere
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path)
    assert "p = 0.05" in everything(open_page("cell", aside="dropout"))


def test_dropout_and_shared_keys_move_with_their_sliders(open_page: Open) -> None:
    at = open_page("cell", aside="dropout", site="encoder", layer="1", head="1")
    before = reading(at, "now sums to")
    at.slider(key="cell.drop").set_value(0).run()
    assert "now sums to 1.00" in reading(at, "now sums to")
    assert reading(at, "now sums to") != before
    groups = open_page("cell", aside="groups", site="decoder", layer="1", head="1")
    assert "averaged" not in everything(groups)
    groups.select_slider(key="cell.kv_heads").set_value(1).run()
    assert "averaged into 1" in everything(groups)
    assert groups.query_params["kv_heads"] == "1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key", "x"),
        ("stage", "6"),
        ("goal", "-1"),
        ("aside", "all"),
        ("scaling", "√"),
        ("init", "zeros"),
        ("drop", "95"),
        ("d_out", "0"),
        ("engine", "flash"),
        ("training", "2"),
        ("gradient", "z"),
    ],
)
def test_bad_values_of_a_link_are_said_and_left_out(open_page: Open, name: str, value: str) -> None:
    at = open_page("cell", **{name: value})
    assert not at.exception
    (warning,) = at.warning
    assert f"“{name} = " in str(warning.value)


def test_a_key_or_goal_that_is_not_there_is_replaced(open_page: Open) -> None:
    at = open_page("cell", key="900", goal="900000", stage="5", text="I like you.")
    assert not at.exception
    assert at.selectbox(key="cell.key").value == len(at.selectbox(key="cell.key").options) - 1


def test_an_initialisation_is_chosen_and_measured(open_page: Open) -> None:
    at = open_page("cell", aside="initial", site="encoder", layer="1", head="1")
    usual = reading(at, "Stored as three matrices")
    assert "72 rows instead of 24" in usual  # W_Q, W_K and W_V of 24 dimensions
    ratio = number(usual.split("times as much")[0].split()[-1])
    assert ratio == pytest.approx(0.5, abs=0.06)
    assert "Softmax starts **undecided**" in everything(at)
    at.segmented_control(key="cell.init").set_value("torch").run()
    assert at.query_params["init"] == "torch"
    assert "the layout makes no difference" in reading(at, "Stored as three matrices")
    at.segmented_control(key="cell.init").set_value("gpt2").run()
    assert "nearly uniform" in everything(at)
