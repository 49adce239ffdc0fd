"""The key/value cache: what it stores, and that a cached model computes what an uncached one does.

`test_decoding.py` uses it inside decoding.
"""

from functools import cache as remember
from itertools import pairwise

import pytest
import torch
from families import WRITERS
from hypothesis import given, strategies as st

from models.cache import KVCache, LayerCache
from models.config import ModelConfig
from models.fast import GrowingCache
from models.hooks import Edits, visiting
from models.positions import POSITIONS
from models.rows import Rows
from models.transformer import EncoderDecoder, Model, build_model

SRC = torch.tensor([[5, 9, 3, 7, 2], [8, 4, 2, 0, 0], [6, 6, 10, 2, 0]])
TGT = torch.tensor(
    [[1, 4, 11, 5, 5, 9, 3], [1, 12, 7, 3, 10, 4, 8], [1, 6, 9, 12, 8, 11, 4]]
)  # [batch, tgt]


@remember
def tiny(family: str, positions: str, n_kv_heads: int = 4) -> Model:
    torch.manual_seed(0)
    sizes = {"vocab_size": 13, "d_model": 16, "n_layers": 2, "n_heads": 4, "d_ff": 24, "n_ctx": 20}
    kind = {"family": family, "positions": positions, "n_kv_heads": n_kv_heads}
    return build_model(ModelConfig(**sizes, **kind, tie_embeddings=False)).double().eval()


def logits_of(
    model: Model, tgt: torch.Tensor, valid: torch.Tensor | None = None, cache: KVCache | None = None
) -> torch.Tensor:
    if isinstance(model, EncoderDecoder):
        src = SRC[: len(tgt)]
        return model.read(Rows(tgt, valid, src, src != 0), cache=cache)
    return model.read(Rows(tgt, valid), cache=cache)


@given(
    cuts=st.lists(st.integers(1, 6), max_size=3),
    family=st.sampled_from(list(WRITERS)),
    positions=st.sampled_from(list(POSITIONS)),
    left=st.lists(st.integers(0, 3), min_size=3, max_size=3),
)
def test_any_way_to_cut_a_padded_row_into_cached_pieces_gives_the_same(
    cuts, family, positions, left
):
    model, cache = tiny(family, positions, 2), KVCache(2)
    valid = torch.arange(TGT.shape[1]) >= torch.tensor(left)[:, None]
    edges = [0, *sorted(set(cuts)), TGT.shape[1]]
    with torch.no_grad():
        whole = logits_of(model, TGT, valid)
        pieces = [
            logits_of(model, TGT[:, start:end], valid[:, :end], cache)
            for start, end in pairwise(edges)
        ]
    joined = torch.cat(pieces, dim=1)
    torch.testing.assert_close(joined[valid], whole[valid], atol=1e-12, rtol=0)


def test_cross_attention_is_computed_once_and_stays():
    model, cache = tiny("encoder-decoder", "sinusoidal"), KVCache(2)
    with torch.no_grad():
        memory = model.memory_of(Rows(TGT, src=SRC))
        model.read(Rows(TGT[:, :2]), memory, cache)
        kept = [layer.columns[0].clone() for layer in cache.cross_attn]
        # A step later nothing reads the memory any more, so nonsense in it changes nothing.
        with_nonsense = model.read(Rows(TGT[:, 2:3]), torch.full_like(memory, 1e3), cache)
        whole = model.read(Rows(TGT[:, :3]), memory)
    torch.testing.assert_close(with_nonsense[:, 0], whole[:, 2], atol=1e-12, rtol=0)
    assert [layer.length for layer in cache.cross_attn] == [SRC.shape[1]] * 2
    assert [layer.length for layer in cache.self_attn] == [3, 3]
    for before, layer in zip(kept, cache.cross_attn, strict=True):
        assert torch.equal(before, layer.columns[0])


def test_an_edit_of_new_keys_is_not_kept_in_the_cache():
    """`hook_k` sees old and new keys at every step: an edit acts on the look, not on the store."""
    model, cache = tiny("decoder-only", "none"), KVCache(2)
    with torch.no_grad():
        with visiting(Edits({"blocks.0.attn.hook_k": torch.zeros_like})):
            model.read(Rows(TGT[:, :3]), cache=cache)
        clean = KVCache(2)
        model.read(Rows(TGT[:, :3]), cache=clean)
    assert torch.equal(cache.self_attn[0].columns[0], clean.self_attn[0].columns[0])


KINDS = (LayerCache, GrowingCache)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_cache_holds_all_columns_over_any_number_of_doublings(kind):
    k = torch.arange(2 * 3 * 70 * 4.0).reshape(2, 3, 70, 4)  # [batch, kv_head, pos, d_head]
    layer = kind()
    for i in range(70):
        layer.append(k[:, :, i : i + 1], -k[:, :, i : i + 1])
        assert torch.equal(layer.columns[0], k[:, :, : i + 1])
        assert torch.equal(layer.columns[1], -k[:, :, : i + 1])
    assert layer.columns.nbytes == 2 * k.numel() * k.element_size()


def test_a_step_of_a_fast_model_copies_nothing_while_there_is_room():
    layer, new = GrowingCache(), torch.ones(1, 1, 1, 2)
    places = []
    for _ in range(33):
        layer.append(new, new)
        places.append(layer.columns[0].data_ptr())
    changes = sum(a != b for a, b in pairwise(places))
    assert changes == 1  # room for 16 at first, doubled (to 34) by the 17th


@pytest.mark.parametrize("kind", KINDS)
def test_select_repeats_and_drops_rows_and_the_copies_are_independent(kind):
    layer, k = kind(), torch.arange(3.0).reshape(3, 1, 1, 1)
    layer.append(k, 10 * k)
    layer.select(torch.tensor([2, 2, 0, 1]))
    assert layer.columns[0].flatten().tolist() == [2, 2, 0, 1]
    assert layer.columns[1].flatten().tolist() == [20, 20, 0, 10]
    layer.append(torch.arange(4.0).reshape(4, 1, 1, 1), torch.zeros(4, 1, 1, 1))
    assert layer.columns[0][:, 0, :, 0].tolist() == [[2, 0], [2, 1], [0, 2], [1, 3]]


def test_rows_that_hold_the_same_are_not_copied():
    layer, k = GrowingCache(), torch.arange(2.0).reshape(2, 1, 1, 1)
    layer.append(k, k)
    layer.select(torch.tensor([0, 0, 1, 1]))
    held = layer.columns
    layer.select(torch.tensor([1, 1, 2, 3]))  # 0 and 1 are of one row, 2 and 3 of another
    assert layer.columns is held
    layer.select(torch.tensor([2, 2, 1]))
    assert layer.columns[0].flatten().tolist() == [1, 1, 0]
    layer.append(torch.tensor([5.0, 6, 7]).reshape(3, 1, 1, 1), torch.zeros(3, 1, 1, 1))
    layer.select(torch.tensor([1, 0, 2]))  # different from then on
    assert layer.columns[0][:, 0, :, 0].tolist() == [[1, 6], [1, 5], [0, 7]]


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_cache_says_so(kind):
    layer = kind()
    with pytest.raises(ValueError, match="the cache is empty: append to it first"):
        layer.columns  # noqa: B018
    layer.select(torch.tensor([0]))
    assert (layer.length, KVCache(3).length) == (0, 0)


def test_valid_that_does_not_cover_the_cached_positions_is_refused():
    model, cache = tiny("decoder-only", "learned"), KVCache(2)
    with torch.no_grad():
        model.read(Rows(TGT[:, :4]), cache=cache)
        with pytest.raises(ValueError, match="valid covers 1 positions; 4 cached and 1 new"):
            model.read(Rows(TGT[:, 4:5], torch.ones(3, 1, dtype=torch.bool)), cache=cache)
