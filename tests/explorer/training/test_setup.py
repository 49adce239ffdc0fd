"""What can be set up: its link, its limits, and the model that comes of it."""

from dataclasses import replace

import pytest

from explorer.problems import InputProblem
from explorer.training.setup import MOST_PARAMETERS, Setup, check, format_setup, parse_setup


def test_a_link_says_what_differs_and_is_read_again() -> None:
    setup = Setup(task="sort", n_heads=2, norm="rmsnorm", bias=False, rate=0.001, seed=7)
    text = format_setup(setup)
    assert text == "task-sort~n_heads-2~norm-rmsnorm~bias-0~rate-0.001~seed-7"
    assert parse_setup(text) == setup
    assert format_setup(Setup()) == ""
    assert parse_setup("") == Setup()


def test_own_text_is_in_no_link() -> None:
    assert format_setup(Setup(task="own", text="a\tb")) == "task-own"
    with pytest.raises(ValueError, match="text"):
        parse_setup("text-abc")


@pytest.mark.parametrize("text", ["steps-99999", "norm-batch", "bias-2", "nothing-1", "rate-x"])
def test_a_link_with_an_impossible_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_setup(text)


def test_an_architecture_that_cannot_work_is_refused_with_the_librarys_reason() -> None:
    with pytest.raises(InputProblem) as refused:
        check(Setup(n_heads=5), vocab_size=40)
    assert refused.value.key == "training_model"
    assert "n_heads = 5" in str(refused.value.values["reason"])


def test_a_model_that_is_too_large_is_refused_with_its_size() -> None:
    large = Setup(n_layers=6, d_model=128, d_ff=512)
    with pytest.raises(InputProblem) as refused:
        check(large, vocab_size=40)
    assert refused.value.key == "training_large"
    assert refused.value.values["count"] > MOST_PARAMETERS  # type: ignore[operator]


def test_the_config_follows_the_choices() -> None:
    config = Setup(scores="d_head", n_kv_heads=2, norm_placement="post").config(40)
    assert (config.divisor, config.kv_heads, config.final_norm) == (16.0, 2, False)
    assert Setup().config(40).final_norm
    assert Setup(fault="no_warmup").training().warmup == 1
    assert replace(Setup(), warmup=9).training().warmup == 9
