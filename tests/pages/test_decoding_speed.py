"""The Decoding page: the cache, times and speculative decoding."""

import pytest
from shown import Open, everything, payloads, words_of

from explorer.exhibits.decoding import spared, speculation


def test_the_cache_shrinks_with_fewer_key_value_heads(open_page: Open) -> None:
    at = open_page("decoding", part="cache", limit="6")
    whole = next(head for head, _ in payloads(at) if "n_bytes" in head)
    assert whole["kept"] == whole["heads"] == 4
    assert f"{whole['n_bytes'][-1]:,}" in everything(at)
    at.select_slider(key="caching.heads").set_value(2).run()
    assert at.query_params["kv_heads"] == "2"
    assert f"{whole['n_bytes'][-1] // 2:,}" in everything(at)


def test_times_are_measured_when_asked_for(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spared, "LENGTHS", (2, 3))
    at = open_page("decoding", part="cache", limit="4")
    assert len(at.get("plotly_chart")) == 1
    at.button(key="caching.run").click().run()
    assert not at.exception
    assert len(at.get("plotly_chart")) == 2


@pytest.mark.parametrize("model", ["en-zh", "writer"])
def test_speculative_decoding_says_its_passes_and_follows_the_link(
    open_page: Open, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speculation, "_pace", lambda greedy, rounds: "faster")
    at = open_page("decoding", model=model, part="speculation", limit="12", ahead="2")
    assert not at.exception
    assert "at equal speed this happens in 5.0 % of cases" in everything(at)  # 3! 3! / 6!
    said = next(words_of(each) for each in at.markdown if "Greedy decoding takes" in each.value)
    rounds = next(words_of(each) for each in at.markdown if words_of(each).startswith("| Round"))
    passes = len(rounds.splitlines()) - 2
    assert f"in {passes} pass" in said
    assert at.selectbox(key="speculation.draft").value == "layers-1"
    at.slider(key="speculation.ahead").set_value(5).run()
    assert at.query_params["ahead"] == "5"


def test_a_draft_that_does_not_fit_is_refused_in_words(open_page: Open) -> None:
    at = open_page("decoding", part="speculation", limit="4", draft="writer")
    assert not at.exception
    assert "draft" in at.warning[0].value
    assert "writer" in at.warning[0].value
    assert at.selectbox(key="speculation.draft").value == "layers-1"
