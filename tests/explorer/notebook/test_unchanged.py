"""Looking changes nothing: outputs are bit-equal, or equal up to rounding where torch would take
its fused path, and what is shown gives what came out."""

import itertools
import random
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

import explorer as hl

CAUSAL = torch.ones(4, 4, dtype=torch.bool).tril()


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def some_of(*axes: Any, count: int) -> list[tuple[Any, ...]]:
    """`count` of all combinations, always the same ones."""
    return random.Random(0).sample(list(itertools.product(*axes)), count)


def both_ways(run: Callable[[], Any]) -> tuple[Any, Any, Any]:
    """The result without a capture, with one, and what was seen; each with the same seed."""
    torch.manual_seed(1)
    plain = run()
    after = torch.get_rng_state()
    torch.manual_seed(1)
    with hl.capture() as seen:
        looked_at = run()
    assert torch.equal(torch.get_rng_state(), after)
    return plain, looked_at, seen


def equal(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.nan_to_num(nan=7.0), other.nan_to_num(nan=7.0))


def visible(keep: Tensor) -> dict[str, Tensor | None]:
    """Masks of `nn.MultiheadAttention` by kind, from one that says True = may attend."""
    return {
        "none": None,
        "bool": ~keep,
        "float": torch.zeros(4, 4).masked_fill(~keep, -torch.inf),
        "bias": rand(4, 4, seed=3),
        "per_head": (~keep).expand(4, 4, 4),
    }


UNRELATED = torch.tensor([[1, 1, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 1]]).bool()


def near(one: Tensor, other: Tensor, within: float = 1e-5) -> bool:
    return torch.allclose(one.float(), other.float(), atol=within, equal_nan=True)


EXTRAS: dict[str, dict[str, Any]] = {
    "usual": {},
    "added": {"add_zero_attn": True, "add_bias_kv": True},
    "narrow": {"kdim": 6},
}


@pytest.mark.filterwarnings("ignore:Support for mismatched")  # torch's, of mask types
@pytest.mark.parametrize(
    ("kind", "causal", "weights", "padded", "train", "grad", "batch_first", "extra", "precision"),
    [
        *some_of(
            ("none", "bool", "float", "bias", "per_head"),
            *[(False, True)] * 6,
            EXTRAS,
            ("float32", "float64", "autocast"),
            count=120,
        ),
        ("bool", True, False, False, False, False, True, "usual", "float32"),
    ],
)
def test_multi_head_attention(
    kind, causal, weights, padded, train, grad, batch_first, extra, precision
) -> None:
    if causal and (kind in ("none", "bias") or extra == "added"):
        return  # torch refuses the hint without a mask; a bias or an added key contradicts it
    torch.manual_seed(0)
    options = EXTRAS[extra] | {"dropout": 0.3 if train else 0.0, "batch_first": batch_first}
    module = nn.MultiheadAttention(8, 2, **options).train(train)
    given = [rand(2, 4, 8), rand(2, 4, options.get("kdim", 8)), rand(2, 4, 8)]
    mask = visible(CAUSAL if causal else UNRELATED)[kind]
    pads = torch.tensor([[False] * 4, [False, False, False, True]]) if padded else None
    if pads is not None and mask is not None and mask.is_floating_point():
        pads = torch.zeros(2, 4).masked_fill(pads, -torch.inf)
    if precision == "float64":
        module, given = module.double(), [each.double() for each in given]
        mask, pads = (
            each.double() if each is not None and each.is_floating_point() else each
            for each in (mask, pads)
        )
    given = given if batch_first else [each.transpose(0, 1) for each in given]

    def run(**asked: Any) -> Any:
        with torch.set_grad_enabled(grad), torch.autocast("cpu", enabled=precision == "autocast"):
            return module(*given, attn_mask=mask, key_padding_mask=pads, **asked)

    plain, looked_at, seen = both_ways(lambda: run(is_causal=causal, need_weights=weights)[0])
    within = 3e-2 if precision == "autocast" else 1e-5
    if train or grad:
        assert equal(plain, looked_at)
    elif kind != "bias":  # the fused path blocks whatever is not 0
        assert near(plain, looked_at, within)
    assert (seen.names, seen.unseen) == (["MultiheadAttention"], [])
    if train:
        return
    (call,), (_, own) = seen.calls, run(average_attn_weights=False)
    assert near(call.pattern, own, within)
    if kind != "bias" and precision != "autocast":
        assert (call.mask is None) == (kind == "none" and not padded)
        keep = torch.tensor(True) if call.mask is None else call.mask
        assert torch.equal(keep.expand(own.shape), own > 0)
        scores = (call.query @ call.key.mT / 2).masked_fill(~keep, -torch.inf)
        assert near(scores.softmax(-1), own)


class Tagged(Tensor):
    """A class of one's own that changes nothing."""


SDPA_MASKS: dict[str, Callable[[int], Any]] = {
    "none": lambda _: None,
    "bool": lambda n: torch.ones(n, 6, dtype=torch.bool).tril(2),
    "empty_row": lambda n: torch.ones(n, 6, dtype=torch.bool).tril(-1),
    "bias": lambda n: rand(n, 6, seed=4),
    "parameter": lambda n: nn.Parameter(rand(n, 6, seed=4)),
    "heads": lambda n: rand(1, 4, n, 6, seed=4) > -1,
    "lower_right": lambda n: causal_lower_right(n, 6),
    "upper_left": lambda n: causal_upper_left(n, 6),
    "tagged": lambda n: rand(n, 6, seed=4).as_subclass(Tagged),
}


@pytest.mark.parametrize(
    ("kind", "n_query", "causal", "dropout", "grouped", "scale", "shared_batch", "dtype"),
    [
        *some_of(
            SDPA_MASKS,
            (1, 4, 6),
            (False, True),
            (0.0, 0.3),
            (False, True),
            (None, 0.7),
            (False, True),
            (torch.float32, torch.bfloat16),
            count=100,
        ),
        ("lower_right", 4, False, 0.0, False, None, False, torch.float32),
    ],
)
def test_dot_product_attention(
    kind, n_query, causal, dropout, grouped, scale, shared_batch, dtype
) -> None:
    query = rand(1 if shared_batch else 2, 4, n_query, 8).to(dtype)
    key, value = (rand(2, 2 if grouped else 4, 6, 8, seed=s).to(dtype) for s in (1, 2))
    mask = SDPA_MASKS[kind](n_query)
    if kind in ("bias", "parameter", "tagged"):
        mask = mask.detach().to(dtype)
    more = {"dropout_p": dropout, "is_causal": causal, "enable_gqa": grouped, "scale": scale}

    def run() -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, **more)

    try:
        plain, looked_at, seen = both_ways(run)
    except (RuntimeError, ValueError):  # torch refuses the combination
        with pytest.raises((RuntimeError, ValueError)):
            run()
        return
    assert equal(plain, looked_at)
    assert len(seen) + len(seen.unseen) == 1
    if not len(seen):
        assert grouped or shared_batch, "only what differs in shape may stay unseen"
    elif not dropout:
        shown = seen.patterns[0] @ value.float().repeat_interleave(2 if grouped else 1, 1)
        assert near(shown, plain, 1e-5 if dtype == torch.float32 else 5e-2)


LAYER_MASKS = {
    "none": None,
    "causal": ~CAUSAL,
    "infinities": torch.zeros(4, 4).masked_fill(~CAUSAL, -torch.inf),
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.filterwarnings("ignore:Converting mask without torch.bool")
@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("kind", "norm_first", "padded", "hint", "stacked"),
    some_of(LAYER_MASKS, *[(False, True)] * 4, count=24),
)
def test_an_encoder_that_would_be_fused_is_seen(kind, norm_first, padded, hint, stacked) -> None:
    if hint and kind == "none":
        return
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first).eval()
    whole = nn.TransformerEncoder(layer, 2).eval() if stacked else layer
    x, mask = rand(2, 4, 8), LAYER_MASKS[kind]
    pads = torch.tensor([[False] * 3 + [True], [False, False, True, True]]) if padded else None
    names = {"mask" if stacked else "src_mask": mask, "src_key_padding_mask": pads}

    def run() -> Tensor:
        with torch.no_grad():
            return whole(x, is_causal=hint, **names)

    plain, looked_at, seen = both_ways(run)
    real = torch.ones(2, 4, dtype=torch.bool) if pads is None else ~pads
    assert near(plain[real], looked_at[real])
    prefix = "layers.{}." if stacked else ""
    wanted = [f"{prefix.format(at)}self_attn" for at in range(2 if stacked else 1)]
    assert (seen.names, seen.unseen) == (wanted, [])
    if padded and kind == "none":
        assert all(torch.equal(mask[:, 0, 0], ~pads) for mask in seen.masks)
    if not stacked:
        masks = {"attn_mask": mask, "key_padding_mask": pads, "average_attn_weights": False}
        _, own = layer.self_attn(*[layer.norm1(x) if norm_first else x] * 3, **masks)
        assert near(seen.patterns[0].transpose(1, 2)[real], own.transpose(1, 2)[real])


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flex_attention_is_shown_by_its_functions() -> None:
    # Here, since it takes a second, and each worker collects every test.
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = rand(2, 4, 6, 8), rand(2, 2, 6, 8, seed=1), rand(2, 2, 6, 8, seed=2)
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0])

    def near(score: Tensor, b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return score - slopes[h] * (query - key).abs()

    def causal(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return query >= key

    blocks = create_block_mask(causal, None, None, 6, 6, device="cpu")

    def run() -> Tensor:
        with torch.compiler.set_stance("force_eager"):
            return flex_attention(q, k, v, score_mod=near, block_mask=blocks, enable_gqa=True)

    plain, looked_at, seen = both_ways(run)
    assert torch.equal(plain, looked_at)
    keep = torch.ones(6, 6, dtype=torch.bool).tril()
    apart = (torch.arange(6)[:, None] - torch.arange(6)).abs()
    scores = q @ k.repeat_interleave(2, 1).mT / 8**0.5 - slopes[:, None, None] * apart
    own = scores.masked_fill(~keep, -torch.inf).softmax(-1)
    assert torch.allclose(seen.patterns[0], own, atol=1e-5)
    assert torch.equal(seen.masks[0], keep.expand(2, 4, 6, 6))
    assert seen.unseen == []


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize(
    "attend",
    [
        lambda x: F.scaled_dot_product_attention(x, x, x),
        lambda x: (x @ x.mT).softmax(-1) @ x,
        lambda x: (x @ x.mT).sigmoid() @ x,
        lambda x: nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)[0],
        lambda x: nn.MultiheadAttention(8, 2).eval()(x, x, x, need_weights=False)[0],
    ],
)
@pytest.mark.parametrize("within", ["vmap", "grad"])
def test_inside_torch_func_it_runs_and_is_named(attend, within) -> None:
    def run() -> Tensor:
        torch.manual_seed(0)
        if within == "grad":
            return torch.func.grad(lambda x: attend(x).sum())(rand(2, 4, 8))
        return torch.vmap(attend, randomness="same")(rand(3, 2, 4, 8))

    plain, looked_at, seen = both_ways(run)
    assert torch.equal(plain, looked_at)
    assert len(seen) == 0
    assert seen.unseen


def test_nested_tensors_and_operators_below_the_functions_are_named() -> None:
    q = torch.nested.nested_tensor([rand(2, 3, 8), rand(2, 5, 8)], layout=torch.jagged)
    parts = q.transpose(1, 2)

    def run() -> Tensor:
        return F.scaled_dot_product_attention(parts, parts, parts).values()

    plain, looked_at, seen = both_ways(run)
    assert torch.equal(plain, looked_at)
    assert seen.unseen == ["outside a module (scaled_dot_product_attention)"]
    x = rand(1, 2, 4, 8)
    with hl.capture() as seen:
        torch.ops.aten.scaled_dot_product_attention(x, x, x)
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x, x)
    assert len(seen) == 1
    assert seen.unseen == ["outside a module (_scaled_dot_product_flash_attention_for_cpu)"]


@pytest.mark.parametrize("size", [1, 1e-6])
def test_a_pattern_that_does_not_give_the_output_is_not_shown(monkeypatch, size) -> None:
    """A kernel that does something else with the same arguments."""
    from explorer.notebook import kernels

    monkeypatch.setattr(kernels, "_wide", lambda tensor: 2 * tensor.detach().float())
    with hl.capture() as seen:
        x = size * rand(1, 2, 4, 8)
        F.scaled_dot_product_attention(x, x, x)
    assert (len(seen), seen.unseen) == (0, ["outside a module (scaled_dot_product_attention)"])


class Names(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


def transformer() -> nn.Module:
    torch.manual_seed(0)
    return nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval()


def test_other_modes_see_what_they_see_without_a_capture() -> None:
    model, src, tgt = transformer(), rand(2, 5, 8), rand(2, 3, 8)
    seen: list[tuple[list[str], int]] = []
    for watch in (nullcontext, hl.capture):
        with torch.no_grad(), Names() as outer, FlopCounterMode(display=False) as counter, watch():
            model(src, tgt)
        seen.append((outer.seen, counter.get_total_flops()))
    assert seen[0] == seen[1]
    assert seen[0][1] > 0


def test_a_capture_inside_a_layer_and_hooks_of_others_change_nothing() -> None:
    model = transformer()
    calls: list[str] = []

    class Inside(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            with hl.capture() as self.seen:
                return self.inner(*args, **kwargs)

    model.encoder.layers[0].self_attn.register_forward_hook(lambda *_: calls.append("hook"))
    src, tgt, inside = rand(2, 5, 8), rand(2, 3, 8), Inside(model)
    with torch.no_grad():
        plain = model(src, tgt)
        with hl.capture() as outer:
            looked_at = inside(src, tgt)
    assert near(plain, looked_at)
    assert calls == ["hook", "hook"]
    assert len(outer) == len(inside.seen) == 3
