"""A mixture of experts: each token gets the sum of its experts, and the page says which."""

import base64
from pathlib import Path

import numpy as np
import pytest
import torch
from foreign import Golden
from shown import Open, everything, figure

from models.config import ModelConfig
from models.feedforward import Experts, FeedForward
from models.foreign.finding import VARIABLE


@pytest.mark.parametrize(("sums", "shared"), [(True, None), (False, 3)])
def test_a_token_gets_the_weighted_sum_of_its_experts(sums: bool, shared: int | None) -> None:
    sizes = {"d_model": 6, "d_ff": 5, "n_heads": 1, "ffn": "swiglu", "dropout": 0.0}
    config = ModelConfig(
        vocab_size=9, n_experts=4, n_active=2, experts_sum=sums, d_shared=shared, **sizes
    )
    torch.manual_seed(0)
    net, x = Experts(config), torch.randn(1, 3, 6)
    shares = net.router(x).softmax(-1)
    expected = torch.zeros_like(x)

    def alone(at: int, rows: slice) -> torch.Tensor:
        own = FeedForward(6, rows.stop - rows.start, "swiglu")
        for mine, its in ((own.w_gate, net.w_gate), (own.w_up, net.w_up)):
            mine.weight.data, mine.bias.data = its.weight[rows], its.bias[rows]
        own.w_down.weight.data = net.w_down.weight[:, rows]
        own.w_down.bias.data = torch.zeros(6)
        return own(x[:, at : at + 1])[0, 0]

    for at in range(3):
        chosen = shares[0, at].argsort(descending=True)[:2]
        whole = shares[0, at, chosen].sum() if sums else 1.0
        for n in chosen.tolist():
            expected[0, at] += shares[0, at, n] / whole * alone(at, slice(5 * n, 5 * n + 5))
        if shared:
            expected[0, at] += net.shared_gate(x[0, at]).sigmoid() * alone(at, slice(20, 23))
    assert torch.allclose(net(x), expected + net.w_down.bias, atol=1e-6)


def test_the_page_shows_the_router_and_what_an_expert_does(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Golden.load("qwen2_moe").write(tmp_path / "my-experts", "own")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    asked = {"model": "my-experts", "text": "We went to the park.", "part": "experts"}
    at = open_page("blocks", **asked)
    assert not at.exception
    assert "Each token goes to 3 experts" in everything(at)
    drawn = figure(at)["data"][0]
    sent = drawn["z"]
    weights = np.frombuffer(base64.b64decode(sent["bdata"]), sent["dtype"]).reshape(-1, 6)
    assert ((weights[:, :5] > 0).sum(1) == 3).all()
    assert ((weights[:, 5] > 0) & (weights[:, 5] < 1)).all()
    assert drawn["x"][-1] == "shared"
    off = everything(open_page("blocks", **asked, experts_off="1-2-3-4-5-6"))
    assert "with these experts off, it is" in off
    whole = open_page("blocks", part="experts")
    assert "single feed-forward network" in everything(whole)
