"""Another order in memory, and nothing else: the same numbers, shapes and checkpoint."""

import copy

import pytest
import torch

from models.decoding import Beam, decode
from models.layout import lay_out_for_decoding
from models.linear import FEW
from models.transformer import FAMILIES


@pytest.mark.parametrize("width", [1, 2, FEW])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
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
        assert one.tokens.tolist() == other.tokens.tolist()


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
        torch.testing.assert_close(laid(tokens), plain(tokens), atol=1e-12, rtol=0)
    for model in (plain, laid):
        model(tokens).sum().backward()
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
        before = laid(tokens)
    if convert:  # each matrix gets a memory of its own
        laid.float().double()
    with torch.no_grad():
        laid.blocks[0].attn.w_v.weight.zero_()
    with torch.inference_mode():
        assert not torch.allclose(before, laid(tokens), atol=1e-3)


@pytest.mark.parametrize("n_tokens", [1, FEW])
def test_a_copy_of_a_laid_out_model_is_its_own(tiny_model, random_tokens, n_tokens):
    laid = tiny_model(family="decoder-only")
    lay_out_for_decoding(laid)
    copied = copy.deepcopy(laid)
    tokens = random_tokens(1, n_tokens)
    with torch.inference_mode():
        before = laid(tokens)
    with torch.no_grad():
        copied.blocks[0].attn.w_v.weight.mul_(3)
        copied.blocks[0].ffn.w_up.weight.mul_(3)
    with torch.inference_mode():
        assert torch.equal(laid(tokens), before)
        changed = copied(tokens)
    expected = copied(tokens)  # with gradients: from the parameters themselves
    torch.testing.assert_close(changed, expected.detach(), atol=1e-12, rtol=0)
    assert not torch.allclose(changed, before, atol=1e-3)
