"""A model laid out for decoding chooses what the plain one does, with the same numbers."""

import copy
from functools import partial

import pytest
import torch
from close import assert_close
from families import WRITERS
from tables import chosen

from models.decoding import decode
from models.fast import lay_out_for_decoding
from models.hooks import Record, visiting
from models.strategies import Beam, Greedy

SEVERAL = 4  # rows that are multiplied by the packed matrix, where there is one: in float32


def everything(name):
    return True


@pytest.mark.parametrize(("hooked", "use_cache"), [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize("strategy", [Greedy(), Beam(2), Beam(SEVERAL)], ids=str)
@pytest.mark.parametrize("family", WRITERS)
def test_fast_decodes_as_plain(family, strategy, use_cache, hooked, wide_model):
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
def test_only_the_order_in_memory_changes(tiny_model, family, tied):
    plain = tiny_model(family=family, tie_embeddings=tied, vocab_size=41)
    laid = copy.deepcopy(plain)
    lay_out_for_decoding(laid)
    assert laid.unembed.weight.t().is_contiguous()
    assert not laid.unembed.weight.is_contiguous()
    for name, weight in plain.state_dict().items():
        assert torch.equal(laid.state_dict()[name], weight)
    embed = laid.embed if family == "decoder-only" else laid.decoder.embed
    assert (embed.weight.data_ptr() == laid.unembed.weight.data_ptr()) == tied
