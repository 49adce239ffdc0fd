"""Heads: which of them matter, each switched off once, and when that is asked for first."""

import re
from collections.abc import Callable

import pytest
from shown import everything, everything_and_titles, figure, payloads
from streamlit.testing.v1 import AppTest

from explorer.engine import cache
from explorer.exhibits.heads import matter
from explorer.text import t

Open = Callable[..., AppTest]


def test_the_map_of_heads_marks_what_is_off_and_names_the_most_needed(open_page: Open) -> None:
    at = open_page("heads", edits="head-decoder.blocks.0.cross_attn-1")
    points = figure(at)["data"][-1]
    assert points["text"].count("✕") == 1
    # 3 encoder layers and 2 of the decoder, with 4 heads each; then cross-attention.
    assert points["text"].index("✕") == (3 + 2) * 4 + 1
    assert t("edits.reset", lang="en") in {button.label for button in at.button}
    before = everything(at)
    at.button(key="heads.open_needed").click().run()
    needed = re.search(r"([\w -]+), layer (\d), head (\d) matters most", before)
    assert needed
    assert (at.query_params["layer"], at.query_params["head"]) == needed.groups()[1:]


def test_a_long_sentence_is_not_ablated_until_somebody_asks(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matter, "AT_ONCE", 3)
    at = open_page("heads", text="We went to the park.")
    assert t("matter.title", lang="en") not in everything_and_titles(at)
    at.button(key="heads.ablate").click().run()
    assert t("matter.title", lang="en") in everything_and_titles(at)
    at.selectbox(key="heads.measure").select("needed").run()
    assert payloads(at)[0][0]["measure"]["name"] == t("heads.measures.needed", lang="en")
    assert t("matter.title", lang="en") in everything_and_titles(at)


def test_it_is_the_work_that_is_asked_for_and_not_the_length(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence of a few tokens is long work where the model is large."""
    loaded = cache.open_model("en-zh")
    parameters = sum(each.numel() for each in loaded.model.parameters())
    for n_tokens, is_asked in ((5, True), (50, False)):
        n_heads = sum(site.n_heads for site in loaded.sites)
        monkeypatch.setattr(matter, "AT_ONCE", n_heads * n_tokens * parameters)
        at = open_page("heads", model="en-zh", text="We went to the park.")
        assert ("heads.ablate" in [button.key for button in at.button]) == is_asked
        assert (t("matter.title", lang="en") in everything_and_titles(at)) != is_asked


def test_one_word_of_a_prompt_has_nothing_to_switch_off_for(open_page: Open) -> None:
    at = open_page("heads", model="writer", text="I")
    assert not at.exception


def test_a_head_that_is_off_shows_in_the_translation(open_page: Open) -> None:
    """Some head of the small model matters: without it the sentence is another."""
    text, site = "I like you because you are kind.", "decoder.blocks.1.cross_attn"
    changed = [
        head
        for head in range(4)
        if t("edits.changed", lang="en", words="")
        in everything(open_page("heads", text=text, edits=f"head-{site}-{head}"))
    ]
    assert changed
