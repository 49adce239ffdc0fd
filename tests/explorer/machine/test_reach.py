"""The gradient by distance: recurrent nets and attention."""

import numpy as np
import pytest
import torch
from torch import nn

from explorer.exhibits.machine.reach import (
    LEAST,
    SEEDS,
    Reach,
    attention,
    gradient_norms,
    reaches,
    read_vectors,
    recurrent,
)
from explorer.library import LoadedModel
from explorer.runs.trace import trace


def vectors(n: int, width: int = 6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(n, width, generator=generator, dtype=torch.float64)


def test_a_linear_chain_by_hand() -> None:
    """h_t = x_t + 0.5 h_{t-1}: the gradient of the last state halves with every token."""

    def last(x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(2, dtype=x.dtype)
        for row in x:
            h = row + h / 2
        return h

    norms = gradient_norms(last, vectors(4, 2), torch.tensor([0.6, 0.8], dtype=torch.float64))
    np.testing.assert_allclose(norms, [1, 0.5, 0.25, 0.125])
    found = Reach("recurrent", norms[None])
    assert found.per_token == pytest.approx([0.5])
    assert found.far == pytest.approx([0.25])  # of distance 3 over that of distance 1


def test_the_recurrent_gradient_is_the_product_of_the_formula() -> None:
    torch.manual_seed(1)
    x, u = vectors(5), torch.eye(4, dtype=torch.float64)[0]
    torch.manual_seed(1)
    norms = gradient_norms(recurrent(6, 4), x, u)
    torch.manual_seed(1)
    net = nn.RNN(6, 4, batch_first=True).double().requires_grad_(False)
    states = net(x[None])[0][0]
    row = u  # u D_n W_h D_{n-1} W_h ..., and W_x at the end
    for distance in range(5):
        row = row * (1 - states[4 - distance] ** 2)
        assert norms[distance] == pytest.approx(float((row @ net.weight_ih_l0).norm()))
        row = row @ net.weight_hh_l0


def test_the_gradient_of_attention_is_that_of_the_formula() -> None:
    torch.manual_seed(1)
    x, u = vectors(5), torch.tensor([0.6, 0, 0.8], dtype=torch.float64)
    torch.manual_seed(1)
    norms = gradient_norms(attention(6, 3), x, u)
    torch.manual_seed(1)
    w_q, w_k, w_v = (nn.Linear(6, 3).double().requires_grad_(False) for _ in range(3))
    q, k, v = w_q(x[-1]), w_k(x), w_v(x)
    weights = (k @ q / 3**0.5).softmax(-1)
    z = weights @ v
    for j in range(4):  # all but the last, which is the query too
        inner = w_v.weight + torch.outer(v[j] - z, q @ w_k.weight) / 3**0.5
        assert norms[4 - j] == pytest.approx(float((weights[j] * u @ inner).norm()))


def test_each_kind_has_its_seeds_and_distances() -> None:
    x = vectors(20).numpy()
    found = {each.kind: each for each in reaches(x)}
    assert all(each.norms.shape == (len(SEEDS), 20) for each in found.values())
    # Of default weights, W_h multiplies a random vector by about 1 / sqrt 3: hence below 0.8.
    assert found["recurrent"].per_token.max() < 0.8 < found["attention"].per_token.min()
    assert (found["recurrent"].per_token < found["orthogonal"].per_token).all()
    assert found["recurrent"].far.max() < 1e-3 < found["attention"].far.min()
    # The scale of what is read decides nothing, nor does the order of calls.
    again = reaches(5 * x + 1)
    np.testing.assert_allclose(again[0].norms, found["attention"].norms, rtol=1e-4)
    with pytest.raises(ValueError, match="2 vectors"):
        reaches(x[:2])


def test_the_longer_text_is_read_without_padding(translator: LoadedModel) -> None:
    long = trace(translator, "The cat sat on the mat because it was warm there.", "猫", pads=3)
    n = int(long.src_valid.sum())
    assert n > LEAST
    embedded = long.activations[next(s for s in long.stacks if s.stream == "src").hook("embed")]
    np.testing.assert_array_equal(read_vectors(long), embedded[:n])
    short = trace(translator, "Cat", "猫")
    n = max(len(short.src_tokens), len(short.tgt_tokens))
    found = read_vectors(short)
    assert len(found) == LEAST
    np.testing.assert_array_equal(found[n], found[0])
