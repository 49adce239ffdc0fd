"""The Decoding page: the cache and times."""

import pytest
from shown import Open, everything, payloads

from explorer.exhibits.decoding import spared


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
