"""What is only faster: the same numbers, names and checkpoints as the plain model, everywhere."""

import copy
from functools import cache, partial
from itertools import pairwise

import pytest
import torch
from close import assert_close
from families import WRITERS, hook_names, sized
from tables import chosen
from torch import nn
from torch.nn import functional as F

from models.attention import Attention
from models.attention import attend as plain_attend
from models.cache import KVCache
from models.decoding import decode
from models.fast import (
    FEW,
    QUERIES,
    FastLinear,
    RowCopy,
    attend,
    lay_out_for_decoding,
    linear,
    speed_up,
)
from models.hooks import Edits, HookPoint, Record, name_hook_points, visiting
from models.masks import causal_mask, padding_mask
from models.positions import POSITIONS
from models.rows import Rows
from models.strategies import Beam, Greedy

PUT_ON = {"sped up": speed_up, "laid out": lay_out_for_decoding}
LEFT = torch.tensor([[True] * 5, [False] + 4 * [True], 2 * [False] + 3 * [True]])


def everything(name):
    return True


close = partial(assert_close, atol=1e-12)


def read(model, src, tgt, padded, cache=None, cuts=()):
    """Logits [batch, tgt, vocab], in one pass or, with a cache, cut into pieces."""
    valid = LEFT[:, : tgt.shape[1]] if padded else None
    src_valid = (torch.arange(src.shape[1]) < 5).expand(src.shape) if padded else None
    memory = model.memory_of(Rows(tgt, None, src, src_valid))
    pieces = []
    for start, end in pairwise([0, *cuts, tgt.shape[1]]):
        so_far = None if valid is None else valid[:, :end]
        new = tgt[:, start:end]
        rows = Rows(new, so_far) if memory is None else Rows(new, so_far, src, src_valid)
        pieces.append(model.read(rows, memory, cache))
    return torch.cat(pieces, dim=1)


@cache
def both(tiny_model, put_on, family, placement, positions):
    plain = tiny_model(
        family=family, norm_placement=placement, positions=positions, n_kv_heads=2, dropout=0.3
    )
    fast = copy.deepcopy(plain)
    put_on(fast)
    return plain, fast


@pytest.mark.parametrize("put_on", PUT_ON.values(), ids=PUT_ON)
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("placement", ["post", "pre", "sublayer"])
@pytest.mark.parametrize("family", WRITERS)
def test_fast_is_plain(family, placement, positions, padded, put_on, tiny_model, random_tokens):
    plain, fast = both(tiny_model, put_on, family, placement, positions)
    src, tgt = random_tokens(3, 7), random_tokens(3, 5)
    for cuts in ((), (1, 2, 3, 4), (2,)):  # at once, one by one, and a longer piece after two
        seen = [Record(everything), Record(everything)]
        with torch.no_grad():
            unseen = read(fast, src, tgt, padded, KVCache(2) if cuts else None, cuts)
            for model, record in zip((plain, fast), seen, strict=True):
                with visiting(record):
                    logits = read(model, src, tgt, padded, KVCache(2) if cuts else None, cuts)
                close(unseen, logits)
        one, other = (record.activations for record in seen)
        assert list(one) == list(other)
        for name, tensor in one.items():
            close(other[name], tensor, message=name)


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("use_cache", [False, True])
@pytest.mark.parametrize("strategy", [Greedy(), Beam(2), Beam(FEW)], ids=str)
@pytest.mark.parametrize("family", WRITERS)
def test_fast_decodes_as_plain(family, strategy, use_cache, hooked, wide_model):
    plain = wide_model(family)
    fast = copy.deepcopy(plain)
    lay_out_for_decoding(fast)
    src = torch.tensor([[1, 9, 3, 7, 5, 2], [1, 4, 11, 0, 0, 0]])
    found = []
    for model in (plain, fast):
        record = Record(everything if hooked else lambda name: False)
        with visiting(record):
            steps = list(decode(model, src, strategy, 6, src_valid=src != 0, use_cache=use_cache))
        found.append((steps, record.activations))
    for one, other in zip(found[0][0], found[1][0], strict=True):
        close(one.log_probs, other.log_probs)
        assert chosen(one) == chosen(other)
    assert list(found[0][1]) == list(found[1][1])
    for name, tensor in found[0][1].items():
        close(found[1][1][name], tensor, message=name)


@pytest.mark.parametrize("family", WRITERS)
def test_what_is_put_on_twice_is_put_on_once(family, tiny_model, random_tokens):
    model = tiny_model(family=family)
    names, state = hook_names(model), {k: v.clone() for k, v in model.state_dict().items()}
    parameters = {name: id(parameter) for name, parameter in model.named_parameters()}
    for _ in range(2):
        speed_up(model)
    lay_out_for_decoding(model)
    assert hook_names(model) == names
    assert {name: id(parameter) for name, parameter in model.named_parameters()} == parameters
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, state[name])


@pytest.mark.parametrize("family", WRITERS)
def test_gradients_and_dropout_are_those_of_the_plain_model(
    family, tiny_model, random_tokens, run_model
):
    """Without dropout on the pattern, where the kernel draws its own numbers."""
    plain = tiny_model(family=family, dropout=0.3, attention_dropout=0.0).train()
    fast = copy.deepcopy(plain)
    speed_up(fast)
    src, tgt = random_tokens(3, 7), random_tokens(3, 5)
    for model in (plain, fast):
        torch.manual_seed(4)
        run_model(model, src, tgt).pow(2).sum().backward()
    for (name, one), (_, other) in zip(
        plain.named_parameters(), fast.named_parameters(), strict=True
    ):
        torch.testing.assert_close(other.grad, one.grad, atol=1e-9, rtol=1e-9, msg=name)
    torch.manual_seed(4)
    assert (run_model(fast, src, tgt) - run_model(fast.eval(), src, tgt)).abs().max() > 1e-3


@pytest.fixture
def layer(scatter):
    attention = Attention(sized(24, 4, n_kv_heads=2, dropout=0.3))
    scatter(attention)
    name_hook_points(attention)
    speed_up(attention)
    return attention.double().eval()


def test_the_fused_kernel_runs_unless_somebody_looks(layer, monkeypatch):
    calls = []
    fused = F.scaled_dot_product_attention

    def counting(*args, **kwargs):
        calls.append(1)
        return fused(*args, **kwargs)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counting)
    x = torch.randn(3, 5, 24).double()
    layer(x)
    assert len(calls) == 1
    for name in ("hook_scores", "hook_mask", "hook_pattern"):
        with visiting(Edits({name: lambda tensor: tensor})):
            layer(x)
    assert len(calls) == 1
    with visiting(Record(lambda name: name == "hook_z")):
        layer(x)
    assert len(calls) == 2


LONG = QUERIES + 5
LONG_MASKS = {
    "none": None,
    "all": torch.tensor(True),
    "causal": causal_mask(LONG),
    "padded keys": padding_mask((torch.arange(LONG) > 70).expand(2, -1)),
    "nothing at all": torch.zeros(2, 1, LONG, LONG) > 0,
    "by head": torch.rand(1, 4, LONG, LONG, generator=torch.Generator().manual_seed(3)) > 0.9,
}


@pytest.mark.parametrize("added", [{}, {"cap": 0.7}, {"bias": True}], ids=str)
@pytest.mark.parametrize("mask", LONG_MASKS)
def test_a_long_pattern_is_the_plain_one(mask, added):
    q, z = torch.randn(2, 4, LONG, 6).double(), {}
    k, v = torch.randn(2, 2, 2, LONG, 6).double()
    if "bias" in added:
        added = {"bias": torch.randn(2, 4, LONG, LONG).double()}
    looked_at = Attention(sized(24, 4, n_kv_heads=2))
    name_hook_points(looked_at)
    with torch.inference_mode(), visiting(Record({"hook_pattern"}.__contains__)):
        for kind, function in (("plain", plain_attend), ("fast", attend)):
            z[kind] = function(q, k, v, LONG_MASKS[mask], **added, hooks=looked_at)
    for one, other in zip(z["plain"], z["fast"], strict=True):
        close(one, other)


@pytest.mark.parametrize(
    ("d_head", "mode"), [(29, torch.inference_mode()), (31, torch.device("meta"))]
)
def test_what_was_first_used_in_another_mode_serves_in_all(d_head, mode):
    # The scale of a width is made once in a process; no other test has these widths.
    looked_at = Attention(sized(d_head, 1, positions="none"))
    name_hook_points(looked_at)
    with visiting(Record({"hook_pattern"}.__contains__)):
        with mode:
            attend(*torch.randn(3, 1, 1, 2, d_head).unbind(), hooks=looked_at)
        q, k, v = torch.randn(3, 1, 1, 2, d_head).unbind()
        q.requires_grad_()
        z, _ = attend(q, k, v, hooks=looked_at)
    z.sum().backward()
    assert q.grad.abs().sum() > 0
    torch.testing.assert_close(z, F.scaled_dot_product_attention(q, k, v))


def test_torchs_own_hooks_on_a_hook_point_still_run():
    point, seen = nn.Sequential(HookPoint()), []
    speed_up(point)
    x = torch.randn(2)
    assert point(x) is x
    point[0].register_forward_hook(lambda module, args, out: seen.append(out))
    assert point(x) is x
    assert seen == [x]


@pytest.mark.parametrize("width", [1, 2, FEW])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", WRITERS)
def test_only_the_order_in_memory_changes(tiny_model, random_tokens, family, tied, width):
    plain = tiny_model(family=family, tie_embeddings=tied, vocab_size=41)
    laid = copy.deepcopy(plain)
    lay_out_for_decoding(laid)
    assert laid.unembed.weight.t().is_contiguous()
    assert not laid.unembed.weight.is_contiguous()
    for name, weight in plain.state_dict().items():
        assert torch.equal(laid.state_dict()[name], weight)
    embed = laid.embed if family == "decoder-only" else laid.decoder.embed
    assert (embed.weight.data_ptr() == laid.unembed.weight.data_ptr()) == tied
    src = random_tokens(2, 6)
    for one, other in zip(
        decode(plain, src, Beam(width), 6), decode(laid, src, Beam(width), 6), strict=True
    ):
        torch.testing.assert_close(one.log_probs, other.log_probs, atol=1e-12, rtol=0)
        assert chosen(one) == chosen(other)


@pytest.mark.parametrize("bias", [True, False])
def test_joined_projections_are_the_three_by_name(tiny_model, random_tokens, bias):
    plain = tiny_model(family="decoder-only", n_heads=4, n_kv_heads=2, bias=bias)
    laid = copy.deepcopy(plain)
    lay_out_for_decoding(laid)
    attn = laid.blocks[0].attn
    matrices = (attn.w_q.weight, attn.w_k.weight, attn.w_v.weight)
    assert len({matrix.untyped_storage().data_ptr() for matrix in matrices}) == 1
    assert attn.w_q._by_rows is None  # the joined matrix has its copy by rows, its parts need none
    tokens = random_tokens(2, 6)
    # One product where no gradient is asked for, three where it has to reach each matrix.
    with torch.inference_mode():
        torch.testing.assert_close(
            laid.read(Rows(tokens)), plain.read(Rows(tokens)), atol=1e-12, rtol=0
        )
    for model in (plain, laid):
        model.read(Rows(tokens)).sum().backward()
    for (name, one), (_, other) in zip(
        laid.named_parameters(), plain.named_parameters(), strict=True
    ):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-12, rtol=0, msg=name)


@pytest.mark.parametrize("n_tokens", [5, FEW])
@pytest.mark.parametrize("convert", [False, True])
def test_a_later_change_of_a_matrix_is_seen(tiny_model, random_tokens, convert, n_tokens):
    laid = tiny_model(family="decoder-only")
    lay_out_for_decoding(laid)
    tokens = random_tokens(1, n_tokens)
    with torch.inference_mode():
        before = laid.read(Rows(tokens))
    if convert:  # each matrix gets a memory of its own
        laid.float().double()
    with torch.no_grad():
        laid.blocks[0].attn.w_v.weight.zero_()
    with torch.inference_mode():
        assert not torch.allclose(before, laid.read(Rows(tokens)), atol=1e-3)


@pytest.mark.parametrize("n_tokens", [1, FEW])
def test_a_copy_of_a_laid_out_model_is_its_own(tiny_model, random_tokens, n_tokens):
    laid = tiny_model(family="decoder-only")
    lay_out_for_decoding(laid)
    copied = copy.deepcopy(laid)
    tokens = random_tokens(1, n_tokens)
    with torch.inference_mode():
        before = laid.read(Rows(tokens))
    with torch.no_grad():
        copied.blocks[0].attn.w_v.weight.mul_(3)
        copied.blocks[0].ffn.w_up.weight.mul_(3)
    with torch.inference_mode():
        assert torch.equal(laid.read(Rows(tokens)), before)
        changed = copied.read(Rows(tokens))
    expected = copied.read(Rows(tokens))  # with gradients: from the parameters themselves
    torch.testing.assert_close(changed, expected.detach(), atol=1e-12, rtol=0)
    assert not torch.allclose(changed, before, atol=1e-3)


SHAPES = [(FEW, 1), (1, FEW), (2, 2)]  # all of FEW rows


def laid_out(d_in: int, d_out: int, bias: bool = True) -> FastLinear:
    torch.manual_seed(0)
    made = FastLinear(d_in, d_out, bias=bias).double()
    made.lay_out()
    return made


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("d_in", "d_out"), [(6, 9), (9, 6), (6, 6)])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 1), (3, 1), (3, 4)])
def test_it_is_the_same_product(shape, d_in, d_out, bias):
    made = laid_out(d_in, d_out, bias)
    x = torch.randn(*shape, d_in).double()
    expected = nn.functional.linear(x, made.weight, made.bias)
    with torch.inference_mode():
        found = made(x)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    assert found.is_contiguous()


@pytest.mark.parametrize("shape", SHAPES)
def test_few_rows_are_read_by_rows_and_others_are_not(shape):
    weight, bias = torch.randn(5, 3), torch.randn(5)
    wrong = RowCopy.of(torch.zeros(5, 3))  # seen in the result, where it is read
    with torch.no_grad():
        assert torch.equal(linear(torch.randn(*shape, 3), weight, bias, wrong)[0, 0], bias)
        more = torch.randn(FEW + 1, 1, 3)
        expected = nn.functional.linear(more, weight, bias)
        assert torch.equal(linear(more, weight, bias, wrong), expected)


def test_a_gradient_reaches_the_parameter():
    made = laid_out(3, 5)
    made(torch.randn(FEW, 1, 3).double()).sum().backward()
    assert made.weight.grad.abs().sum() > 0


def test_only_a_widening_map_is_stored_twice():
    wide, narrow = laid_out(3, 5), laid_out(5, 3)
    assert wide.weight.t().is_contiguous()
    assert wide._by_rows.matrix.is_contiguous()
    assert wide._by_rows.matrix.data_ptr() != wide.weight.data_ptr()
    assert narrow._by_rows.matrix.data_ptr() == narrow.weight.data_ptr()


CHANGES = {
    "in place": lambda made: made.weight.mul_(2),
    "copied, then in place": lambda made: made.weight.mul_(2),
    "converted": lambda made: made.float().double().weight.mul_(2),
    "loaded": lambda made: made.load_state_dict(
        {name: 2 * value for name, value in made.state_dict().items()}
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_later_change_of_the_weights_is_seen(change):
    made = laid_out(3, 5)
    if change.startswith("copied"):
        made = copy.deepcopy(made)
    with torch.no_grad():
        CHANGES[change](made)
        x = torch.randn(FEW, 1, 3).double()
        expected = nn.functional.linear(x, made.weight, made.bias)
        torch.testing.assert_close(made(x), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("d_out", [2, 5])
def test_a_converted_map_multiplies_in_its_new_precision(d_out):
    made = laid_out(3, d_out).float()
    x = torch.randn(FEW, 1, 3)
    with torch.inference_mode():
        torch.testing.assert_close(made(x), nn.functional.linear(x, made.weight, made.bias))
