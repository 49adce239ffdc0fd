"""The families: what adds up, what is shared, what an edit does, what is refused."""

import math
import threading

import pytest
import torch
from tiny import everything, random_tokens, record, tiny_model
from torch import nn

from models.config import ModelConfig
from models.fast import FastHookPoint
from models.hooks import VISITOR, Edits, HookPoint, Record, name_hook_points, visiting
from models.rows import Rows
from models.transformer import build_model

B, T, S, H, D_MODEL = 3, 5, 7, 4, 24


def test_rotary_turns_self_attention_and_not_cross_attention():
    model = tiny_model(positions="rotary")
    src, tgt = random_tokens(B, S), random_tokens(B, T)
    seen = record(lambda: model.read(Rows(tgt, src=src)), everything)

    def turned(site):
        layer = model.get_submodule(site)
        block = site.rsplit(".", 1)[0]
        stream = "resid_mid" if site.endswith("cross_attn") else "resid_pre"
        plain = layer.w_q(seen[f"{block}.hook_{stream}"]).unflatten(2, (H, -1)).transpose(1, 2)
        return ~torch.isclose(seen[f"{site}.hook_q"], plain).all(-1).all(1)  # [batch, query]

    assert not turned("decoder.blocks.1.cross_attn").any()
    for site in ("encoder.blocks.1.attn", "decoder.blocks.1.attn"):
        assert not turned(site)[:, 0].any()  # position 0 is turned by nothing
        assert turned(site)[:, 1:].all()


def test_a_source_mask_of_another_length_is_refused():
    model, tgt = tiny_model(), random_tokens(B, T)
    # ValueError from the model; TypeError where shapes are checked on the way in.
    with pytest.raises((ValueError, TypeError), match=r"src_valid|valid covers"):
        model.memory_of(Rows(tgt, None, random_tokens(B, S), torch.ones(B, S + 1) == 1))
    rows = Rows(tgt, src_valid=torch.ones(B, 1) == 1)
    with pytest.raises(ValueError, match=f"valid covers 1 positions; the text has {S}"):
        model.read(rows, torch.randn(B, S, D_MODEL).double())


# How a model starts: the spread of every matrix, what is tied, how many parameters there are.


@pytest.fixture(scope="module")
def wide():
    torch.manual_seed(0)
    sizes = {"vocab_size": 500, "d_model": 96, "n_layers": 1, "d_ff": 160, "n_ctx": 300}
    kind = {"n_heads": 6, "n_kv_heads": 2, "positions": "learned", "tie_embeddings": False}
    return build_model(ModelConfig(**sizes, **kind))


def test_every_matrix_starts_xavier_and_every_bias_at_zero(wide):
    linears = [(name, m) for name, m in wide.named_modules() if isinstance(m, nn.Linear)]
    assert len(linears) == 6 + 10 + 1  # encoder block, decoder block, unembedding
    for name, linear in linears:
        xavier = math.sqrt(2 / (linear.in_features + linear.out_features))
        assert linear.weight.std().item() == pytest.approx(xavier, rel=0.05), name
        assert linear.weight.abs().max().item() <= math.sqrt(3) * xavier, name
        if name != "unembed":
            assert (linear.bias == 0).all(), name
    assert wide.unembed.bias is None


def test_embeddings_start_at_unit_size_once_scaled(wide):
    for stack in (wide.encoder, wide.decoder):
        assert stack.embed.weight.std().item() == pytest.approx(96**-0.5, rel=0.03)
        assert stack.embed_scale == math.sqrt(96)
        assert stack.positions.weight.std().item() == pytest.approx(1, rel=0.03)
    assert not torch.equal(wide.encoder.embed.weight, wide.decoder.embed.weight)


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.hook_first = HookPoint()
        self.inner = nn.ModuleList([HookPoint(), HookPoint()])
        name_hook_points(self)

    def forward(self, x):
        x = self.hook_first(x) + 1
        for hook in self.inner:
            x = hook(x) * 2
        return x


def test_without_a_visitor_in_its_thread_a_hook_point_hands_on_the_very_tensor():
    x, wanted = torch.randn(3), []
    for hook in (HookPoint(), FastHookPoint()):
        assert hook(x) is x
    with visiting(Record(everything)):
        thread = threading.Thread(target=lambda: wanted.append(hook.wanted))
        thread.start()
        thread.join(timeout=10)
        assert hook.wanted
    assert [*wanted, hook.wanted] == [False, False]


def test_record_keeps_copies_of_what_it_wants_of_the_last_pass():
    chain = Chain()
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    record = Record(lambda name: name != "inner.0")
    with visiting(record):
        chain(torch.zeros(2))
        chain(x)
    with torch.no_grad():
        x.zero_()
    assert set(record.activations) == {"hook_first", "inner.1"}
    assert record.activations["inner.1"].tolist() == [4.0, 6.0]  # (x + 1) * 2
    assert record.activations["hook_first"].tolist() == [1.0, 2.0]
    assert not record.activations["hook_first"].requires_grad


@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (1, 1), (2, 3)], ids=str)
def test_a_record_keeps_the_numbers_in_the_least_room(shape):
    hook, record, given = HookPoint(), Record(everything), torch.rand(shape)
    with visiting(record):
        hook(given.expand(2, 3))
    (kept,) = record.activations.values()
    assert torch.equal(kept, given.expand(2, 3))
    assert kept.untyped_storage().nbytes() == 4 * given.numel()
    given.zero_()
    assert kept.all(), "a later change reached the record"


def test_record_sees_what_the_model_went_on_with():
    record = Record("inner.0".__eq__, Edits({"hook_first": torch.zeros_like}))
    with visiting(record):
        out = Chain()(torch.tensor([5.0]))
    assert set(record.activations) == {"inner.0"}  # the edit happens, and is not recorded
    assert record.activations["inner.0"].item() == 1.0
    assert out.item() == 4.0
    record = Record("hook_first".__eq__, Edits({"hook_first": torch.zeros_like}))
    with visiting(record):
        Chain()(torch.tensor([5.0]))
    assert record.activations["hook_first"].item() == 0.0


def test_nested_blocks_ask_the_innermost_visitor_and_restore_the_outer():
    chain = Chain()
    outer, inner = Record(everything), Record(everything)
    with visiting(outer):
        with visiting(inner):
            chain(torch.zeros(1))
        assert outer.activations == {}
        chain(torch.ones(1))
    assert inner.activations["hook_first"].item() == 0.0
    assert outer.activations["hook_first"].item() == 1.0


def test_nothing_is_left_after_an_error():
    chain = Chain()
    record = Record(everything)

    def fail(tensor):
        raise RuntimeError("edit failed")

    with (
        pytest.raises(RuntimeError, match="edit failed"),
        visiting(Record(everything, Edits({"inner.0": fail}))),
    ):
        chain(torch.zeros(1))
    with pytest.raises(KeyError), visiting(record):
        raise KeyError
    chain(torch.zeros(1))
    assert VISITOR.get() is None
    assert record.activations == {}


@pytest.mark.parametrize(
    "replacement",
    [torch.zeros(1, 3), torch.zeros(3, 2), torch.zeros(2, 3, dtype=torch.float64)],
    ids=["batch lost", "transposed", "dtype"],
)
def test_a_replacement_of_another_shape_or_dtype_is_refused(replacement):
    chain = Chain()
    with (
        visiting(Edits({"inner.0": lambda tensor: replacement})),
        pytest.raises(ValueError, match=r"inner\.0: a replacement must be torch.float32 \(2, 3\)"),
    ):
        chain(torch.zeros(2, 3))
