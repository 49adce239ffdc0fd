"""The Decoding page: forced beginnings and the tree of prefixes."""

from typing import Any

import pytest
from shown import Open, everything, film, payloads, written
from streamlit.testing.v1 import AppTest

from explorer.text import words


def nodes(at: AppTest) -> list[dict[str, Any]]:
    """The nodes of the tree on the page."""
    return next(head for head, _ in payloads(at) if "nodes" in head)["nodes"]


def test_a_forced_beginning_makes_a_second_line_beside_the_first(open_page: Open) -> None:
    first = open_page("decoding", limit="8", part="branches")
    frame = film(first)["frames"][1]
    at = open_page("decoding", limit="8", part="branches", fork="30.31")
    assert [each["forced"] for each in film(at)["frames"]][:3] == [True, True, False]
    said = everything(at)
    assert "diverge at step" in said
    assert len(at.get("plotly_chart")) == 2
    at.segmented_control(key="branches.picture").set_value("difference").run()
    assert len(at.get("plotly_chart")) == 1
    at.button(key="branches.close").click().run()
    assert "fork" not in at.query_params
    assert film(at)["frames"][1] == frame


def test_a_typed_token_is_written_at_the_step_of_the_film(open_page: Open) -> None:
    at = open_page("decoding", limit="8", part="branches", step="2")
    first = written(at)
    at.text_input(key="branches.typed").set_value("很").run()
    assert written(at)[:2] == [first[0], "很"]
    assert film(at)["frames"][1]["why"].startswith("Step 2:")


@pytest.mark.parametrize(("typed", "key"), [("☃", "unknown_forced"), ("很" * 9, "target_too_long")])
def test_what_cannot_be_written_is_refused_and_the_line_stays(
    open_page: Open, typed: str, key: str
) -> None:
    at = open_page("decoding", limit="8", part="branches")
    before = written(at)
    at.text_input(key="branches.typed").set_value(typed).run()
    assert not at.exception
    assert words("en")[f"problems.{key}"].split("{")[0] in at.warning[0].value
    assert written(at) == before


@pytest.mark.parametrize("fork", ["99999", "5.6.7.8.9.10.11.12.13"])
def test_a_link_with_an_impossible_beginning_is_refused_in_words(
    open_page: Open, fork: str
) -> None:
    at = open_page("decoding", limit="8", fork=fork)
    assert not at.exception
    assert at.warning


def test_the_tree_follows_width_and_penalty_and_draws_again(open_page: Open) -> None:
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
