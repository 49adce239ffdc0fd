"""What is only faster: the same numbers, names and checkpoints as the plain model, everywhere."""

import copy
from functools import cache, partial
from itertools import pairwise

import pytest
import torch
from tables import assert_close, chosen, wide_model
from tiny import (
    WRITERS,
    everything,
    hook_names,
    random_tokens,
    run_model,
    scatter,
    sized,
    tiny_model,
)
from torch.nn import functional as F

from models.attention import Attention, attend as plain_attend
from models.cache import KVCache
from models.decoding import decode
from models.fast import attend, lay_out_for_decoding, speed_up
from models.fast.patterns import QUERIES
from models.hooks import Edits, Record, name_hook_points, visiting
from models.masks import causal_mask, padding_mask
from models.positions import POSITIONS
from models.rows import Rows
from models.strategies import Beam, Greedy

SEVERAL = 4  # rows that are multiplied by the packed matrix, where there is one: in float32


close = partial(assert_close, atol=1e-12)


PUT_ON = {"sped up": speed_up, "laid out": lay_out_for_decoding}
LEFT = torch.tensor([[True] * 5, [False] + 4 * [True], 2 * [False] + 3 * [True]])


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
def plain_and_fast(family, placement, positions):
    plain = tiny_model(
        family=family, norm_placement=placement, positions=positions, n_kv_heads=2, dropout=0.3
    )
    fast = {how: copy.deepcopy(plain) for how in PUT_ON}
    for how, model in fast.items():
        PUT_ON[how](model)
    return plain, fast


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize(
    ("placement", "positions"),
    [*(("post", positions) for positions in POSITIONS), ("pre", "rotary"), ("sublayer", "t5")],
)
@pytest.mark.parametrize("family", WRITERS)
def test_fast_is_plain(family, placement, positions, padded):
    plain, fast = plain_and_fast(family, placement, positions)
    src, tgt = random_tokens(3, 7), random_tokens(3, 5)

    def seen(model, cuts):
        record = Record(everything)
        with visiting(record):
            logits = read(model, src, tgt, padded, KVCache(2) if cuts else None, cuts)
        return logits, record.activations

    for cuts in ((), (1, 2, 3, 4), (2,)):  # at once, one by one, and a longer piece after two
        with torch.no_grad():
            logits, one = seen(plain, cuts)
            for how, model in fast.items():
                close(read(model, src, tgt, padded, KVCache(2) if cuts else None, cuts), logits)
                its_logits, other = seen(model, cuts)
                close(its_logits, logits, message=how)
                assert list(one) == list(other)
                for name, tensor in one.items():
                    close(other[name], tensor, message=f"{how}: {name}")


@pytest.mark.parametrize(("hooked", "use_cache"), [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize("strategy", [Greedy(), Beam(2), Beam(SEVERAL)], ids=str)
@pytest.mark.parametrize("family", WRITERS)
def test_fast_decodes_as_plain(family, strategy, use_cache, hooked):
    plain = wide_model(family)
    in_floats = strategy == Beam(SEVERAL)  # multiplied by packed matrices
    plain = copy.deepcopy(plain).float() if in_floats else plain  # it is shared by all tests
    close = partial(assert_close, atol=2e-5 if in_floats else 1e-12)
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


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", WRITERS)
def test_only_the_order_in_memory_changes(family, tied):
    plain = tiny_model(family=family, tie_embeddings=tied, vocab_size=41)
    laid = copy.deepcopy(plain)
    parameters = {name: id(parameter) for name, parameter in laid.named_parameters()}
    for put_on in (speed_up, speed_up, lay_out_for_decoding):  # twice is as once
        put_on(laid)
    assert hook_names(laid) == hook_names(plain)
    assert {name: id(parameter) for name, parameter in laid.named_parameters()} == parameters
    assert laid.unembed.weight.t().is_contiguous()
    assert not laid.unembed.weight.is_contiguous()
    for name, weight in plain.state_dict().items():
        assert torch.equal(laid.state_dict()[name], weight)
    embed = laid.embed if family == "decoder-only" else laid.decoder.embed
    assert (embed.weight.data_ptr() == laid.unembed.weight.data_ptr()) == tied


@pytest.mark.parametrize("put_on", PUT_ON.values(), ids=PUT_ON)
@pytest.mark.parametrize("family", WRITERS)
def test_gradients_and_dropout_are_those_of_the_plain_model(family, put_on):
    """Without dropout on the pattern, where the kernel draws its own numbers."""
    plain = tiny_model(family=family, n_kv_heads=2, dropout=0.3, attention_dropout=0.0).train()
    fast = copy.deepcopy(plain)
    put_on(fast)
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
def layer():
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


@pytest.mark.parametrize("n", [5, LONG])
@pytest.mark.parametrize("added", [{}, {"cap": 0.7}, {"bias": True}], ids=str)
@pytest.mark.parametrize("mask", LONG_MASKS)
def test_a_pattern_alone_is_the_plain_one(mask, added, n):
    q, z = torch.randn(2, 4, n, 6).double(), {}
    k, v = torch.randn(2, 2, 2, n, 6).double()
    if "bias" in added:
        added = {"bias": torch.randn(2, 4, n, n).double()}
    given = LONG_MASKS[mask]
    if given is not None and given.ndim:
        given = given[..., :n] if given.shape[-2] == 1 else given[..., :n, :n]
    looked_at = Attention(sized(24, 4, n_kv_heads=2))
    name_hook_points(looked_at)
    speed_up(looked_at)
    with torch.inference_mode(), visiting(Record({"hook_pattern"}.__contains__)):
        for kind, function in (("plain", plain_attend), ("fast", attend), ("again", attend)):
            z[kind] = function(q, k, v, given, **added, hooks=looked_at)
    for kind in ("fast", "again"):
        for one, other in zip(z["plain"], z[kind], strict=True):
            close(one, other)


def attended(visitor, function=attend, **options):
    """z of a long text under a causal mask, and what the visitor has in the end."""
    looked_at = Attention(sized(24, 4, n_kv_heads=2))
    name_hook_points(looked_at)
    speed_up(looked_at)
    q, k, v = torch.randn(3, 2, 4, LONG, 6, generator=torch.Generator().manual_seed(5)).unbind()
    with torch.inference_mode(), visiting(visitor):
        z, _ = function(q, k, v, LONG_MASKS["causal"], hooks=looked_at, **options)
    return z


CHANGES = {
    "another": lambda pattern: pattern.flip(-1),
    "in place": lambda pattern: pattern.mul_(2),
    "in place, a part": lambda pattern: pattern[0, 1].fill_(0.5)[0, 0] * 0 + pattern,
    "none": lambda pattern: pattern,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_long_pattern_reaches_z_and_the_record(change):
    z, kept = {}, {}
    for kind, function in (("plain", plain_attend), ("fast", attend)):
        visitor = Record("hook_pattern".__eq__, Edits({"hook_pattern": CHANGES[change]}))
        z[kind] = attended(visitor, function)
        kept[kind] = visitor.activations["hook_pattern"]
    torch.testing.assert_close(z["fast"], z["plain"])
    torch.testing.assert_close(kept["fast"], kept["plain"])


@pytest.mark.parametrize("n_tokens", [5, LONG])
def test_patterns_kept_in_half_precision_leave_the_run_as_it_is(layer, n_tokens):
    x, out = torch.randn(2, n_tokens, 24).double(), {}
    records = {
        dtype: Record("hook_pattern".__eq__, patterns=dtype) for dtype in (None, torch.float16)
    }
    for dtype, record in records.items():
        with torch.inference_mode(), visiting(record):
            out[dtype] = layer(x)
    assert torch.equal(out[None], out[torch.float16])
    whole, half = (record.activations["hook_pattern"] for record in records.values())
    assert (whole.dtype, half.dtype) == (torch.float64, torch.float16)
    assert torch.equal(whole.half(), half)


@pytest.mark.parametrize(
    ("d_head", "mode"), [(29, torch.inference_mode()), (31, torch.device("meta"))]
)
def test_what_was_first_used_in_another_mode_serves_in_all(d_head, mode):
    # The scale of a width is made once in a process; no other test has these widths.
    looked_at = Attention(sized(d_head, 1, positions="none"))
    speed_up(looked_at)
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


@pytest.mark.parametrize("bias", [True, False])
def test_joined_projections_are_the_three_by_name(bias):
    plain = tiny_model(family="decoder-only", n_heads=4, n_kv_heads=2, bias=bias)
    laid = copy.deepcopy(plain)
    lay_out_for_decoding(laid)
    attn = laid.blocks[0].attn
    matrices = (attn.w_q.weight, attn.w_k.weight, attn.w_v.weight)
    assert len({matrix.untyped_storage().data_ptr() for matrix in matrices}) == 1
    assert attn.w_q._packed is None  # the joined matrix is packed as well, its parts need not be
    tokens = random_tokens(2, 6)
    with torch.inference_mode():
        close(laid.read(Rows(tokens)), plain.read(Rows(tokens)))


@pytest.mark.parametrize("n_tokens", [1, SEVERAL])
def test_a_copy_of_a_laid_out_model_is_its_own(n_tokens):
    laid = tiny_model(family="decoder-only", dtype=torch.float32)
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
    torch.testing.assert_close(changed, expected.detach(), atol=1e-5, rtol=0)
    assert not torch.allclose(changed, before, atol=1e-3)
