"""Fast is plain: all logits and hook points, for every family, kind of positions and placement."""

import copy
from functools import cache, partial
from itertools import pairwise

import pytest
import torch
from close import assert_close
from families import WRITERS

from models.cache import KVCache
from models.fast import lay_out_for_decoding, speed_up
from models.hooks import Record, visiting
from models.positions import POSITIONS
from models.rows import Rows

PUT_ON = {"sped up": speed_up, "laid out": lay_out_for_decoding}
LEFT = torch.tensor([[True] * 5, [False] + 4 * [True], 2 * [False] + 3 * [True]])

close = partial(assert_close, atol=1e-12)


def everything(name):
    return True


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
def plain_and_fast(tiny_model, family, placement, positions):
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
def test_fast_is_plain(family, placement, positions, padded, tiny_model, random_tokens):
    plain, fast = plain_and_fast(tiny_model, family, placement, positions)
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
