"""Which axes of captured attention are batch and head, and what is named instead of drawn."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import explorer as hl
from explorer.notebook.axes import AxisEvidence

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return torch.bmm(q, k.transpose(1, 2))


WRITTEN: dict[str, Attend] = {
    "einsum": lambda q, k, v: torch.einsum(
        "b i j, b j d -> b i d", torch.einsum("b i d, b j d -> b i j", q, k).softmax(-1), v
    ),
    "operands in a list": lambda q, k, v: torch.einsum(
        "bij,bjd->bid", [torch.einsum("bid,bjd->bij", [q, k]).softmax(-1), v]
    ),
    "ellipsis": lambda q, k, v: torch.einsum(
        "...ij,...jd->...id", torch.einsum("...id,...jd->...ij", q, k).softmax(-1), v
    ),
    "bmm": lambda q, k, v: torch.bmm(_scores(q, k).softmax(-1), v),
    "baddbmm": lambda q, k, v: torch.baddbmm(
        torch.zeros_like(v), torch.baddbmm(q.new_zeros(1, 1, 1), q, k.mT).softmax(-1), v
    ),
    "values first": lambda q, k, v: (v.mT @ _scores(q, k).softmax(-1).mT).mT,
    "kernel": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=1.0),
}


def attended(x: Tensor) -> Tensor:
    return (x @ x.mT).softmax(-1) @ x


class _Of(nn.Module):
    """A module of one function, which may own others."""

    def __init__(self, function: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *given: Tensor) -> Any:
        return self.function(*given)


class _Folded(nn.Module):
    """Attention of four heads that are one axis with the batch."""

    def __init__(self, attend: Attend, chunked: bool = False) -> None:
        super().__init__()
        self.attend, self.chunked = attend, chunked
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def fold(self, x: Tensor) -> Tensor:
        if self.chunked:
            return torch.cat(x.chunk(4, -1), 0)
        return x.unflatten(-1, (4, 4)).transpose(1, 2).reshape(-1, x.shape[1], 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(*(self.fold(part(x)) for part in (self.q, self.k, self.v)))

    def pattern(self, x: Tensor) -> Tensor:
        q, k = (part(x).unflatten(-1, (4, 4)).transpose(1, 2) for part in (self.q, self.k))
        return (q @ k.mT).softmax(-1)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("way", WRITTEN)
def test_heads_in_one_axis_with_the_batch_are_unfolded(way, batch, chunked) -> None:
    module, x = _Folded(WRITTEN[way], chunked), torch.randn(batch, 5, 16)
    with hl.capture() as seen:
        nn.Sequential(module)(x)
    assert (len(seen), seen.unseen, seen.calls[0].axes) == (1, [], "reshape")
    assert torch.allclose(seen.patterns[0], module.pattern(x), atol=1e-5)


def test_an_axis_that_may_be_heads_or_sequences_asks_for_the_heads() -> None:
    x = torch.randn(4, 5, 8)
    with hl.capture() as seen:
        (x @ x.mT).softmax(-1) @ x
    assert seen.calls[0].axes == "doubtful"
    with pytest.raises(ValueError, match=r"first axis \(4\) may be heads, sequences, or both"):
        hl.show(seen)
    with pytest.raises(ValueError, match=r"heads=3: the first axis .* has 4 entries"):
        hl.show(seen, heads=3)
    (pattern,) = hl.show(seen, heads=2, batch=1).numpy().values()
    assert np.allclose(pattern[0], (x @ x.mT).softmax(-1)[2:])


@pytest.mark.parametrize(
    ("leading", "sequences", "reading"),
    [((4, 3), 3, (3, 4, True)), ((3, 4), 3, (3, 4, False)), ((2, 3, 5), 3, (2, 15, False))],
)
def test_heads_stand_first_only_where_two_axes_say_so(leading, sequences, reading) -> None:
    axes = AxisEvidence()
    axes.sequences = sequences
    read = axes.read(leading, 6, 7)
    assert (read.batch, read.heads, read.heads_first) == reading


def test_two_axes_of_one_size_are_read_by_their_order_alone() -> None:
    axes = AxisEvidence()
    axes.sequences = 4
    assert [axes.read(leading, 6, 7).why for leading in ((4, 3), (4, 4))] == ["batch", "order"]


def test_the_input_says_how_many_sequences_there_are() -> None:
    for shape, shown in (((3, 5, 8), (3, 1)), ((1, 5, 8), (1, 1))):
        with hl.capture() as seen:
            nn.Sequential(_Of(attended))(torch.randn(shape))
        assert (seen.patterns[0].shape[:2], seen.calls[0].axes) == (shown, "batch")
        assert ("in the batch" in hl.show(seen).html()) == (shape[0] > 1)
    q = torch.randn(2, 6, 8)  # as many sequences as positions: both readings fit
    for sequences in (None, 2):
        with hl.capture(sequences) as seen:
            nn.Sequential(_Of(lambda x: attended(x.transpose(0, 1))))(q.transpose(0, 1))
        assert seen.patterns[0].shape == (2, 1, 6, 6)


SIZES = {"b": 2, "q": 6, "k": 6, "g": 2, "r": 3, "h": 4, "d": 8}


class _Equation(nn.Module):
    """Attention with scores by an equation of batch, query, key, heads (g, r, h) and features."""

    def __init__(self, equation: str) -> None:
        super().__init__()
        self.equation = equation
        self.left, self.right, self.scores = re.split(",|->", equation)

    def forward(self, x: Tensor) -> Tensor:
        q, k = (torch.randn([SIZES[at] for at in own]) for own in (self.left, self.right))
        weights = torch.einsum(self.equation, q, k).softmax(-1)
        heads = "".join(at for at in self.scores if at in "grh")
        self.wanted = torch.einsum(f"{self.scores}->b{heads}qk", weights).flatten(1, -3)
        return torch.einsum(f"{self.scores},{self.right}->b{heads}qd", weights, k)


@pytest.mark.parametrize("read", [torch.zeros(2, 6, dtype=torch.int64), torch.zeros(2, 6, 8)])
@pytest.mark.parametrize(
    "equation",
    [
        "bqhd,bkhd->bqhk",
        "bhqd,bkd->bhqk",
        "bqhd,bkd->bqhk",
        "bgrqd,bgkd->bgrqk",
        "bgrqd,bgkd->bgqrk",
        "bqgrd,bkgd->bgrqk",
        "bqgrd,bkgd->bqgrk",
        "bqgrd,bkgrd->bqgrk",
    ],
)
def test_an_equation_says_which_axis_is_which(equation, read) -> None:
    module = _Equation(equation)
    with hl.capture() as seen:
        nn.Sequential(module)(read)
    assert torch.allclose(seen.patterns[0], module.wanted)
    assert seen.calls[0].axes == "equation"


@pytest.mark.parametrize("einsum", [True, False])
def test_groups_of_heads_keep_their_mask(einsum) -> None:
    q, k = torch.randn(1, 2, 2, 5, 8), torch.randn(1, 2, 5, 8)
    hidden = torch.ones(5, 5).triu(1).bool()
    with hl.capture() as seen:
        if einsum:
            scores = torch.einsum("bghnd,bgsd->bghns", q, k).masked_fill(hidden, -1e9)
            torch.einsum("bghns,bgsd->bghnd", scores.softmax(-1), k)
        else:
            scores = (q @ k[:, :, None].mT).masked_fill(hidden, -1e9)
            scores.softmax(-1) @ k[:, :, None]
    wanted = (q.flatten(1, 2) @ k.repeat_interleave(2, 1).mT).masked_fill(hidden, -1e9)
    assert torch.allclose(seen.patterns[0], wanted.softmax(-1), atol=1e-6)
    mask = seen.masks[0]
    assert mask is not None
    assert torch.equal(mask, ~hidden.expand(1, 4, 5, 5))


@pytest.mark.parametrize(
    "attend",
    [
        lambda x: torch.mm((x @ x.T).softmax(-1), x),
        lambda x: F.linear((x @ x.T).softmax(-1), x.T),
        lambda x: torch.addmm(x, (x @ x.T).softmax(-1), x),
        lambda x: torch.cat([x @ x.T, x[:, :1]], -1).softmax(-1)[:, :-1] @ x,  # a learned sink
    ],
)
def test_other_functions_that_multiply_are_known(attend) -> None:
    with hl.capture() as seen:
        attend(torch.randn(5, 8))
    assert [list(pattern.shape) for pattern in seen.patterns] == [[1, 1, 5, 5]]
    assert seen.unseen == []


def linear(x: Tensor) -> Tensor:
    """Linear attention: the softmax goes over features."""
    q, k = (x.unflatten(-1, (4, 4)).transpose(1, 2) for _ in range(2))
    return q.softmax(-1) @ (k.softmax(-2).mT @ k)


class _Vocabulary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 16)

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.embedding.weight.T).softmax(-1) @ self.embedding.weight


@pytest.mark.parametrize("module", [_Of(linear), _Vocabulary()])
def test_a_softmax_that_is_no_attention_is_named_and_not_drawn(module) -> None:
    with hl.capture() as seen:
        nn.Sequential(nn.Linear(16, 16), module)(torch.randn(1, 5, 16))
    assert (len(seen), seen.unseen, seen.others) == (0, [], ["1 (softmax)"])
    with pytest.raises(ValueError, match=r"not computed from queries and keys: 1 \(softmax\)"):
        hl.show(seen)


def summed(x: Tensor) -> Tensor:
    """The values are multiplied elementwise and summed, which is not recognised."""
    return ((x @ x.mT).softmax(-1)[..., None] * x[:, None]).sum(-2)


def test_a_softmax_whose_use_is_not_recognised_is_named() -> None:
    with hl.capture() as seen:
        nn.Sequential(_Of(summed))(torch.randn(1, 5, 16))
    assert (len(seen), seen.unseen) == (0, ["0 (softmax)"])


class _Text(nn.Module):
    """A decoder of one layer without its mask, with attention by `mix`."""

    def __init__(self, mix: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.mix = nn.Embedding(9, 16), mix
        self.head = nn.Linear(16, 9)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        return self.head(x + self.mix(x).reshape(x.shape))


def test_certify_excuses_nothing_for_attention_that_it_saw() -> None:
    folded = _Text(_Folded(lambda q, k, v: _scores(q, k).softmax(-1) @ v)).eval()
    findings = hl.certify(folded, None, [1, 2, 3, 4]).findings
    assert "future_mass" in {finding.name for finding in findings if not finding.passed}
    unread = hl.certify(_Text(_Of(summed)).eval(), None, [1, 2, 3, 4])
    assert unread.left_out["future_mass"] == "unread"
    assert "unread" in unread.notes


def test_what_checkpointing_computes_again_is_not_recorded() -> None:
    layers, x = nn.ModuleList([_Of(attended), _Of(attended)]), torch.randn(1, 5, 8)

    def run(x: Tensor) -> Tensor:
        for layer in layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return x

    with hl.capture() as seen:
        _Of(run, h=layers)(x.requires_grad_()).sum().backward()
    assert seen.names == ["h.0", "h.1"]
    with hl.capture() as alone:
        layers[0](x)
        layers[1](x)
    assert list(hl.show(alone).numpy()) == ["_Of"]


def test_the_steps_of_a_cached_decoding_form_one_picture() -> None:
    def attend(x: Tensor, cache: Tensor) -> Tensor:
        scores = x @ cache.mT
        keep = torch.ones(scores.shape[-2:]).tril(cache.shape[1] - x.shape[1]).bool()
        return scores.masked_fill(~keep, -torch.inf).softmax(-1) @ cache

    x, layers = torch.randn(1, 5, 8), nn.ModuleList([_Of(attend), _Of(attend)])
    model = _Of(lambda *given: [layer(*given) for layer in layers], layers=layers)
    with hl.capture() as seen:
        for begin, end in ((0, 3), (3, 4), (4, 5)):
            model(x[:, begin:end], x[:, :end])
    whole = (x @ x.mT).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf).softmax(-1)
    ((title, pattern),) = hl.show(seen).numpy().items()
    assert title == "layers.0–1"
    assert np.allclose(pattern, np.broadcast_to(whole[:, None], (2, 1, 5, 5)), atol=1e-6)
