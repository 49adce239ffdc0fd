"""What becomes of a model in the browser: a part that the engine there lacks is named."""

import pytest

from explorer.live.weights import described
from explorer.problems import InputProblem


@pytest.mark.parametrize(
    ("name", "design"),
    [("n_experts", {"n_experts": 2}), ("d_embed", {"d_embed": 8, "head_net": True})],
)
def test_a_part_that_the_browser_cannot_compute_is_named(tiny, name, design) -> None:
    loaded = tiny("mine", family="decoder-only", **design)
    with pytest.raises(InputProblem, match="live_unsupported") as refused:
        described(loaded)
    assert refused.value.values["part"].startswith(f"{name} = ")
    with pytest.raises(InputProblem, match="live_no_output"):
        described(tiny("headless", family="encoder-only", lm_head=False))
    assert described(tiny("plain", family="decoder-only"))["predicts"] == "next"
