"""Three norms on one batch, and LayerNorm and RMSNorm by hand, against torch's own."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explorer.analysis.blocks.norms import (
    NORMS,
    backward,
    batch_of,
    eps_curves,
    moved_by_others,
    normalised,
    statistics,
)
from explorer.analysis.blocks.norms_by_hand import (
    layer_norm_backward,
    layer_norm_forward,
    rms_norm_backward,
    rms_norm_forward,
)
from explorer.library import LoadedModel
from explorer.runs.trace import trace

SHAPES = [(8,), (5, 8), (3, 5, 8), (2, 3, 5, 8)]
SENTENCES = ("The cat ran.", "A dog ran after the cat", "I love you")


def test_a_batch_enters_the_first_block_as_each_sentence_does(translator: LoadedModel) -> None:
    batch = batch_of(translator, SENTENCES)
    for at, sentence in enumerate(SENTENCES):
        alone = trace(translator, sentence).activations["encoder.blocks.0.hook_resid_pre"]
        np.testing.assert_allclose(batch.x[at][: len(alone)], alone, atol=1e-6)
        assert batch.valid[at].tolist() == [place < len(alone) for place in range(batch.x.shape[1])]
    assert batch.tokens[0][-1] == "<pad>"
    with pytest.raises(ValueError, match="at least one"):
        batch_of(translator, ())


def test_a_writer_s_batch_begins_with_its_start_mark(writer: LoadedModel) -> None:
    assert batch_of(writer, ["The cat"]).tokens[0][0] == "<s>"


def test_norms_are_torch_s(translator: LoadedModel) -> None:
    x = batch_of(translator, SENTENCES).x
    d = x.shape[-1]
    wide = torch.from_numpy(x)
    batch_norm = nn.BatchNorm1d(d, affine=False).double().train()
    expected = {
        "layernorm": nn.functional.layer_norm(wide, (d,)),
        "rmsnorm": nn.functional.rms_norm(wide, (d,), eps=1e-5),
        "batchnorm": batch_norm(wide.transpose(1, 2)).transpose(1, 2),
    }
    for norm in NORMS:
        np.testing.assert_allclose(normalised(x, norm), expected[norm].numpy(), atol=1e-9)
    assert statistics(x, "layernorm").mean.shape == x.shape[:2]
    assert statistics(x, "batchnorm").mean.shape == (d,)
    np.testing.assert_allclose(statistics(x, "batchnorm").scale, x.reshape(-1, d).std(0))
    np.testing.assert_allclose(
        statistics(x, "rmsnorm").scale ** 2,
        statistics(x, "layernorm").scale ** 2 + statistics(x, "layernorm").mean ** 2,
    )


def test_only_batch_norm_hears_the_others(translator: LoadedModel) -> None:
    shares, largest = moved_by_others(translator, SENTENCES)
    assert NORMS == ("layernorm", "rmsnorm", "batchnorm")
    assert largest[:2].max() < 1e-12
    assert shares[2].min() > 0.01
    assert largest[2] > 0.1
    _, by_itself = moved_by_others(translator, SENTENCES[:1])
    assert by_itself.max() == 0.0


def test_eps_against_the_size_of_the_input_by_hand() -> None:
    x = np.array([1.0, -1.0, 1.0, -1.0])  # mean 0, deviation and rms 1
    scales, epsilons = np.array([1e-4, 1e-2, 1.0]), (1e-12, 1e-8, 1e-5)
    expected = [[s / (s * s + eps) ** 0.5 for s in scales] for eps in epsilons]
    np.testing.assert_allclose(eps_curves(x, scales, epsilons), expected, rtol=1e-6)
    np.testing.assert_allclose(eps_curves(x, scales, epsilons, "rmsnorm"), expected, rtol=1e-6)
    outside = [[s / (s + eps) for s in scales] for eps in epsilons]
    np.testing.assert_allclose(eps_curves(x, scales, epsilons, "rms_outside"), outside)


def test_gamma_belongs_before_the_jacobian() -> None:
    draw = np.random.default_rng(2)
    x, upstream = draw.normal(size=6), draw.normal(size=6)
    equal = backward(x, np.full(6, 1.7), upstream, "layernorm")
    assert equal.error < 1e-12
    assert equal.wrong_error < 1e-12  # what hides the fault while all gammas are alike
    unequal = backward(x, np.array([0.2, 1.0, 3.0, 0.5, 1.5, 2.0]), upstream, "layernorm")
    assert unequal.error < 1e-12
    assert unequal.wrong_error > 0.1
    np.testing.assert_allclose(unequal.d_beta, upstream)
    n = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    np.testing.assert_allclose(unequal.d_gamma, upstream * n)
    assert unequal.by_hand.sum() == pytest.approx(0, abs=1e-12)  # a shift of x changes nothing


def test_rms_norm_has_a_gradient_of_its_own() -> None:
    draw = np.random.default_rng(2)
    x, upstream = draw.normal(size=6), draw.normal(size=6)
    found = backward(x, np.array([0.2, 1.0, 3.0, 0.5, 1.5, 2.0]), upstream, "rmsnorm")
    assert found.error < 1e-12
    assert found.wrong_error > 0.1
    assert found.d_beta is None
    np.testing.assert_allclose(found.d_gamma, upstream * x / np.sqrt((x**2).mean() + 1e-5))
    assert found.by_hand @ x == pytest.approx(0, abs=1e-4)  # nor does a longer x change anything
    assert abs(found.by_hand.sum()) > 0.1  # but a shift does


def inputs(
    shape: tuple[int, ...], dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    x = 3 * torch.randn(shape, dtype=dtype) + 1
    weight = torch.linspace(-1.5, 2.5, shape[-1], dtype=dtype)
    bias = torch.linspace(2.0, -1.0, shape[-1], dtype=dtype)
    return x, weight, bias


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-13), (torch.float32, 2e-6)])
@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_layer_norm_forward_is_torchs(shape, dtype, atol, eps) -> None:
    x, weight, bias = inputs(shape, dtype)
    expected = F.layer_norm(x, (shape[-1],), weight, bias, eps)
    torch.testing.assert_close(
        layer_norm_forward(x, weight, bias, eps), expected, atol=atol, rtol=0
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_layer_norm_backward_is_autograds(shape: tuple[int, ...], eps: float) -> None:
    x, weight, bias = inputs(shape)
    grad_out = torch.randn_like(x)
    leaves = [tensor.clone().requires_grad_() for tensor in (x, weight, bias)]
    F.layer_norm(leaves[0], (shape[-1],), leaves[1], leaves[2], eps).backward(grad_out)
    for ours, leaf in zip(layer_norm_backward(x, weight, eps, grad_out), leaves, strict=True):
        torch.testing.assert_close(ours, leaf.grad, atol=1e-12, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("eps", [1e-6, 0.3])
def test_rms_norm_is_torchs_and_its_backward_autograds(shape: tuple[int, ...], eps: float) -> None:
    x, weight, _ = inputs(shape)
    grad_out = torch.randn_like(x)
    leaves = [tensor.clone().requires_grad_() for tensor in (x, weight)]
    out = F.rms_norm(leaves[0], (shape[-1],), leaves[1], eps)
    torch.testing.assert_close(rms_norm_forward(x, weight, eps), out.detach(), atol=1e-13, rtol=0)
    out.backward(grad_out)
    for ours, leaf in zip(rms_norm_backward(x, weight, eps, grad_out), leaves, strict=True):
        torch.testing.assert_close(ours, leaf.grad, atol=1e-12, rtol=0)
