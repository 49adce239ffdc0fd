"""capture(): every attention of a module, without changing it or its results."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explorer as hl


def _rand(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_what_is_seen_of_one_sequence_a_mask_after_the_softmax_and_returned_patterns() -> None:
    module = nn.MultiheadAttention(8, 2).eval()
    x = _rand(3, 8)
    with hl.capture() as seen:
        _, own = module(x, x, x, average_attn_weights=False)
    assert torch.allclose(seen.patterns[0], own[None], atol=1e-6)
    x, keep = _rand(1, 1, 3, 3), torch.ones(3, 3).tril()
    with hl.capture() as seen:
        (x.softmax(-1) * keep) @ x
    assert torch.equal(seen.patterns[0], x.softmax(-1) * keep)
    with hl.capture() as seen:
        for weigh in (lambda s: s.exp() / s.exp().sum(-1, keepdim=True), lambda s: s.softmax(-1)):
            nn.ModuleList([_Returning(weigh)])[0](_rand(1, 2, 3, 4))
    assert seen.names == ["_Returning", "_Returning"]


class _Returning(nn.Module):
    """Attention from a tutorial, which returns its weights by `weigh` too."""

    def __init__(self, weigh: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weigh = weigh

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weights = self.weigh(x @ x.transpose(-2, -1))
        return weights @ x, weights


def test_what_is_compiled_runs_as_it_was_written_and_is_compiled_again_afterwards() -> None:
    compiled = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        compiled.append(graph)
        return graph.forward

    attend = torch.compile(lambda x: (x @ x.mT).softmax(-1) @ x, backend=backend)
    x = _rand(1, 2, 3, 4)
    with hl.capture() as outer, hl.capture() as seen:
        attend(x)
    assert torch.equal(seen.patterns[0], (x @ x.mT).softmax(-1))
    assert len(outer) == 1
    assert compiled == []
    attend(x)
    assert len(compiled) == 1


class _Mixer(nn.Module):
    """Mixes positions by what `weigh` makes of scores; its name says nothing."""

    def __init__(self, weigh: Callable[[Tensor], Tensor], einsum: bool = False) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(4, 4) for _ in range(3))
        self.weigh, self.einsum, self.drop = weigh, einsum, nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.einsum:
            scores = torch.einsum("bqd,bkd->bqk", q, k)
            return torch.einsum("bqk,bkd->bqd", self.drop(self.weigh(scores / 2)), v)
        return self.drop(self.weigh(q @ k.transpose(-2, -1) / 2)) @ v


def _exp_and_sum(scores: Tensor) -> Tensor:
    raised = (scores - scores.amax(-1, keepdim=True)).exp()
    return raised / raised.sum(-1, keepdim=True)


@pytest.mark.parametrize("einsum", [False, True])
@pytest.mark.parametrize(
    "weigh",
    [_exp_and_sum, lambda scores: scores.log_softmax(-1).exp(), lambda scores: scores.softmax(-1)],
)
def test_a_softmax_is_seen_before_dropout(weigh, einsum) -> None:
    mixer, x = _Mixer(weigh, einsum).train(), _rand(2, 3, 4)
    with hl.capture() as seen:
        nn.Sequential(mixer)(x)
    own = (mixer.q(x) @ mixer.k(x).transpose(-2, -1) / 2).softmax(-1)
    assert torch.allclose(seen["0"].pattern[:, 0], own, atol=1e-6)
    assert (len(seen), seen.unseen) == (1, [])


@pytest.mark.parametrize("einsum", [False, True])
@pytest.mark.parametrize(
    "weigh",
    [torch.sigmoid, lambda scores: scores.softmax(-2), lambda s: s.relu() ** 2 / s.shape[-1]],
)
def test_weights_that_are_no_pattern_are_named_whatever_the_module_is_called(weigh, einsum) -> None:
    with hl.capture() as seen:
        nn.Sequential(nn.Linear(4, 4), _Mixer(weigh, einsum))(_rand(2, 3, 4))
    assert (len(seen), seen.unseen) == (0, ["1"])


class _Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.gate(x).softmax(-1)
        return sum(gate[..., at, None] * (x + at) for at in range(3))  # type: ignore[return-value]


def _contrastive(x: Tensor) -> Tensor:
    logits = x[0] @ x[1].T
    return F.cross_entropy(logits, torch.arange(len(logits))) + logits.log_softmax(-1).sum()


def _graph(x: Tensor) -> Tensor:
    hidden = (_rand(3, 3).sigmoid() @ x).relu()  # neighbours
    return (hidden @ hidden.mT).sigmoid()  # edges


class _Weights(nn.Module):
    """Layers written as products with parameters and buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(_rand(4, 4))
        self.register_buffer("turn", _rand(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return ((x @ self.weight.T).relu() @ self.turn.T).sigmoid() @ self.weight


@pytest.mark.parametrize(
    "plain",
    [
        nn.Sequential(nn.Conv1d(3, 3, 1), nn.Sigmoid(), nn.Linear(4, 4), nn.Softmax(-1)),
        nn.Sequential(nn.LSTM(4, 4)),
        nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)),
        _Weights(),
        nn.Sequential(_Experts()),
        _contrastive,
        _graph,
        lambda x: (x @ x.mT / 2) @ x,  # a chain of matrices
        lambda x: torch.linalg.solve(x @ x.mT + torch.eye(3), x),
    ],
)
def test_what_is_no_attention_is_not_named(plain) -> None:
    with hl.capture() as seen:
        plain(_rand(2, 3, 4))
    assert (len(seen), seen.unseen) == (0, [])


def test_threads_see_their_own() -> None:
    module, barrier = nn.MultiheadAttention(8, 2), threading.Barrier(3)

    def work(length: int) -> list[int]:
        x = _rand(length, 1, 8)
        with hl.capture() as seen:
            barrier.wait()
            for _ in range(5):
                module(x, x, x)
        return [pattern.shape[-1] for pattern in seen.patterns]

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, (2, 3, 4))) == [[2] * 5, [3] * 5, [4] * 5]


class _Fails(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        F.scaled_dot_product_attention(x, x, x)
        raise RuntimeError("stopped")


def test_gradients_are_the_same_and_nothing_remains_after_an_error() -> None:
    x = _rand(1, 2, 3, 4).requires_grad_()
    F.scaled_dot_product_attention(x, x, x, is_causal=True).sum().backward()
    plain, x.grad = x.grad, None
    with hl.capture() as seen:
        F.scaled_dot_product_attention(x, x, x, is_causal=True).sum().backward()
    assert plain is not None
    assert torch.equal(x.grad, plain)
    assert not seen.patterns[0].requires_grad
    from torch.nn.modules import module as hooks

    x = _rand(1, 2, 3, 4)
    with pytest.raises(RuntimeError, match="stopped"), hl.capture() as seen:
        nn.Sequential(_Fails())(x)
    assert not hooks._has_any_global_hook()  # which torch.compile would warn of
    F.scaled_dot_product_attention(x, x, x)
    assert seen.names == ["0"]


@pytest.mark.parametrize("fill", [-torch.inf, -1e9, -1e4])
@pytest.mark.parametrize("added", [True, False])
def test_a_mask_of_plain_code_shows_by_the_scores_that_it_hides(fill, added) -> None:
    keep = torch.ones(4, 4, dtype=torch.bool).tril()
    scores, values = _rand(2, 3, 4, 4), _rand(2, 3, 4, 8)
    hidden = torch.zeros(4, 4).masked_fill(~keep, fill)
    with hl.capture() as seen:
        scores = scores + hidden if added else scores.masked_fill(~keep, fill)
        scores.softmax(-1) @ values
        _rand(2, 3, 4, 4).softmax(-1) @ values
    mask = seen.masks[0]
    assert mask is not None
    assert torch.equal(mask, keep.expand(2, 3, 4, 4))
    assert seen.calls[0].fill == pytest.approx(fill, rel=1e-3)
    assert (seen.masks[1], seen.calls[1].fill) == (None, None)


def test_what_was_seen_shows_itself() -> None:
    x = _rand(1, 2, 3, 4)
    with hl.capture() as seen:
        F.scaled_dot_product_attention(x, x, x)
    assert seen._repr_html_().count("<iframe") == 1
    with hl.capture() as none:
        pass
    assert none._repr_html_() == "<pre>&lt;Captured: none&gt;</pre>"
    with pytest.raises(ValueError, match="no attention was captured"):
        hl.show(none)
