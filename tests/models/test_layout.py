"""Another order in memory, and nothing else: the same numbers, shapes and checkpoint."""

import copy

import pytest
import torch

from models.decoding import Beam, decode
from models.layout import lay_out_for_decoding
from models.transformer import FAMILIES


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_only_the_order_in_memory_changes(tiny_model, random_tokens, family, tied):
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
        decode(plain, src, Beam(2), 6), decode(laid, src, Beam(2), 6), strict=True
    ):
        torch.testing.assert_close(one.log_probs, other.log_probs, atol=1e-12, rtol=0)
        assert one.tokens.tolist() == other.tokens.tolist()
