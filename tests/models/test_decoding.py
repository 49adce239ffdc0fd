"""Decoding: the model's own numbers, with the cache as without, in a batch as alone, after a forced
prefix and under a visitor; and refusals.
"""

import copy
from itertools import pairwise

import pytest
import torch
from hypothesis import given, strategies as st
from jaxtyping import TypeCheckError
from tables import chosen, wide_model
from tiny import WRITERS, tiny_model

from models.cache import KVCache, LayerCache
from models.config import ModelConfig
from models.decoding import best, decode
from models.fast import GrowingCache
from models.hooks import Edits, visiting
from models.marks import Marks
from models.positions import POSITIONS
from models.rows import Rows
from models.strategies import Beam, Greedy, Sample
from models.transformer import build_model

STRATEGIES = [Greedy(), Sample(temperature=1.5, top_p=0.9, seed=2), Beam(3, 0.7)]
BOTH = [(family, positions) for family in WRITERS for positions in POSITIONS]
SRC = torch.tensor([[1, 9, 3, 7, 5, 2], [1, 4, 11, 0, 0, 0], [1, 6, 10, 8, 0, 0]])
VALID = SRC != 0
LIMIT = 7


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("family", "positions"), BOTH)
def test_cached_steps_equal_uncached_ones(family, positions, strategy):
    model = wide_model(family, positions)
    cached, uncached = (
        list(decode(model, SRC, strategy, LIMIT, src_valid=VALID, use_cache=use_cache))
        for use_cache in (True, False)
    )
    for a, b in zip(cached, uncached, strict=True):
        assert chosen(a) == chosen(b)
        assert [h.tokens for hs in a.live for h in hs] == [h.tokens for hs in b.live for h in hs]
        torch.testing.assert_close(a.log_probs, b.log_probs, atol=1e-10, rtol=0)


@pytest.mark.parametrize("family", WRITERS)
def test_a_model_in_half_precision_is_summed_in_float32(family):
    model = copy.deepcopy(wide_model(family)).bfloat16()
    for step in decode(model, SRC, Greedy(), 3, src_valid=VALID):
        assert step.log_probs.dtype == torch.float32
        torch.testing.assert_close(step.log_probs.exp().sum(-1), torch.ones(len(step.log_probs)))


@pytest.mark.parametrize("strategy", [Greedy(), Beam(3, 0.7)])
@pytest.mark.parametrize(("family", "positions"), BOTH)
def test_a_sentence_in_a_padded_batch_comes_out_as_alone(family, positions, strategy):
    model, src = wide_model(family, positions), torch.nn.functional.pad(SRC, (2, 1))
    together = best(decode(model, src, strategy, LIMIT, src_valid=src != 0))
    for row, answer in zip(SRC, together, strict=True):
        alone = best(decode(model, row[row != 0][None], strategy, LIMIT))[0]
        assert (answer.tokens, answer.finished) == (alone.tokens, alone.finished)
        assert answer.logprob == pytest.approx(alone.logprob, abs=1e-9)
        assert answer.score == pytest.approx(alone.score, abs=1e-9)


def test_the_encoder_runs_once_and_the_decoder_at_every_step():
    model, seen = wide_model("encoder-decoder"), []

    def note(name):
        return lambda tensor: (seen.append(name), tensor)[1]

    names = ("encoder.hook_embed", "decoder.hook_embed")
    steps = decode(model, SRC, Beam(2), 4, src_valid=VALID)
    assert seen == []
    with visiting(Edits({name: note(name) for name in names})):
        n_steps = len(list(steps))
    assert seen == [names[0], *[names[1]] * n_steps]


def test_a_visitor_around_one_step_may_change_that_step_only():
    model = wide_model("decoder-only")
    steps = decode(model, SRC[:1], Greedy(), 5)
    clean = best(decode(model, SRC[:1], Greedy(), 5))[0].tokens
    assert chosen(next(steps)) == [clean[0]]
    with visiting(Edits({"hook_logits": lambda logits: torch.eye(13)[None, 12:].to(logits)})):
        assert chosen(next(steps)) == [12]
    assert next(steps).input_tokens[0, -2:].tolist() == [clean[0], 12]


def test_what_is_shared_is_left_as_it_was():
    model, src, state = wide_model("decoder-only"), SRC.clone(), torch.random.get_rng_state()
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for strategy in STRATEGIES:
        for step in decode(model, src, strategy, 4, src_valid=VALID):
            assert torch.is_grad_enabled()
            assert not torch.is_inference_mode_enabled()
            assert not step.log_probs.requires_grad
            assert not step.log_probs.is_inference()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(src, SRC)
    assert all(torch.equal(weights[name], t) for name, t in model.state_dict().items())


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("family", WRITERS)
def test_a_forced_prefix_is_obeyed_and_shown(family, strategy):
    model, prefix = wide_model(family), [11, 5]
    steps = list(decode(model, SRC, strategy, 6, src_valid=VALID, prefix=prefix))
    assert [step.forced for step in steps][:3] == [True, True, False]
    for index, token in enumerate(prefix):
        assert chosen(steps[index]) == [token] * 3
        assert steps[index].log_probs.shape == (3, 13)
    assert all(h.tokens[:2] == (11, 5) for h in steps[-1].best)
    free = next(decode(model, SRC, strategy, 6, src_valid=VALID))
    torch.testing.assert_close(steps[0].log_probs, free.log_probs)  # the model's opinion all along


def test_learned_positions_end_at_n_ctx():
    for family, given_tokens in (("encoder-decoder", 1), ("decoder-only", 6)):
        model = wide_model(family, "learned")
        most = 14 - given_tokens + 1  # the last token is written, never read
        assert best(decode(model, SRC, Sample(), most, src_valid=VALID))
        with pytest.raises(ValueError, match=rf"max_new_tokens is {most + 1}: .* n_ctx = 14"):
            decode(model, SRC, Greedy(), most + 1, src_valid=VALID)
    with pytest.raises(ValueError, match="src has 15 tokens: only n_ctx = 14"):
        decode(wide_model("encoder-decoder", "learned"), torch.full((1, 15), 4), Greedy(), 2)


def test_what_cannot_be_decoded_is_refused_at_once_with_the_reason():
    def refuse(message, *, error=ValueError, src=SRC, limit=4, **options):
        with pytest.raises(error, match=message):  # before any step is asked for
            decode(wide_model("encoder-decoder"), src, Greedy(), limit, **options)

    refuse("max_new_tokens is -1: it must be a whole number", limit=-1)
    refuse("max_new_tokens is True", limit=True)
    refuse("src contains 13: token ids are whole numbers from 0 to 12", src=SRC + 2)
    refuse("src contains -1", src=SRC - 1)
    refuse(r"src is torch.int64 \(1, 0\): .*not empty", src=SRC[:1, :0])
    refuse(r"src is torch.int64 \(0, 6\)", src=SRC[:0])
    refuse("row 1 of src has no real token", src_valid=VALID & torch.tensor([[1], [0], [1]]).bool())
    refuse("prefix contains 13", prefix=[4, 13])
    refuse("prefix contains eos_id = 2 at 0", prefix=[2, 4])
    refuse("prefix has 5 tokens: max_new_tokens = 4 leaves no room", prefix=[4] * 5)
    # Run-time type checks, where they are on, refuse these first.
    for_either = (ValueError, TypeCheckError)
    refuse("src", error=for_either, src=SRC[0])
    refuse("src", error=for_either, src=SRC.float())
    refuse("src_valid", error=for_either, src_valid=VALID[:, :-1])
    refuse("src_valid", error=for_either, src_valid=VALID.long())
    refuse("prefix", error=for_either, prefix=[4.0])


def test_a_model_in_training_mode_is_refused():
    model = build_model(ModelConfig(vocab_size=13, d_model=4, n_heads=2, n_layers=1, d_ff=4))
    with pytest.raises(ValueError, match=r"training mode.*call model\.eval\(\)"):
        decode(model, SRC, Greedy(), 4)


# Filling in masked tokens: an encoder alone, decoded by the strategies of models that write.
MASK = 4
MARKS = Marks(pad=0, start=1, end=2, unknown=3, mask=MASK)
TEXTS = torch.tensor([[1, 9, MASK, 7, MASK, 2], [1, MASK, 11, 2, 0, 0], [1, 6, 10, MASK, 8, 2]])
REAL = TEXTS != 0


@pytest.fixture(scope="module")
def filler():
    """An encoder whose logits are spread, so that answers differ by place and by neighbours."""
    model = copy.deepcopy(wide_model("encoder-only", "learned"))
    model.marks = MARKS
    return model.requires_grad_(False)


def filled_by_hand(model, text):
    """Each mask token, the first one first, replaced by the likeliest token at its place."""
    row, output = text.clone(), []
    for place in (text == MASK).nonzero().flatten().tolist():
        token = int(model.read(Rows(row[None]))[0, place].argmax())
        row[place] = token
        output.append(token)
    return tuple(output), row


def test_greedy_fills_the_first_mask_first_and_reads_its_answer(filler):
    (cut_off,) = best(decode(filler, TEXTS[:1], Greedy(), 1))
    assert (len(cut_off.tokens), cut_off.finished) == (1, False)
    for text, real in zip(TEXTS, REAL, strict=True):
        steps = list(decode(filler, text[real][None], Greedy(), 9))
        output, row = filled_by_hand(filler, text[real])
        (answer,) = steps[-1].best
        assert answer.tokens == output
        assert answer.finished
        assert len(steps) == len(output)
        assert filler.whole(text[real].tolist(), output) == tuple(row.tolist())


def test_a_text_in_a_padded_batch_comes_out_as_alone(filler):
    for strategy in (Greedy(), Beam(3, 0.7)):
        together = best(decode(filler, TEXTS, strategy, 9, src_valid=REAL))
        for i, (text, real) in enumerate(zip(TEXTS, REAL, strict=True)):
            (alone,) = best(decode(filler, text[real][None], strategy, 9))
            assert alone.tokens == together[i].tokens
            assert alone.logprob == pytest.approx(together[i].logprob)


def test_a_beam_finds_the_best_pair_of_all(filler):
    (answer,) = best(decode(filler, TEXTS[:1], Beam(13, length_penalty=0), 9))
    first = filler.read(Rows(TEXTS[:1]))[0, 2].log_softmax(-1)
    totals = {}
    for token in range(13):
        row = TEXTS[:1].clone()
        row[0, 2] = token
        second = filler.read(Rows(row))[0, 4].log_softmax(-1)
        totals |= {(token, other): float(first[token] + second[other]) for other in range(13)}
    assert answer.logprob == pytest.approx(max(totals.values()))


def test_what_cannot_be_filled_is_refused(filler):
    with pytest.raises(ValueError, match="must contain a mask token"):
        decode(filler, TEXTS[:1].clamp(min=5), Greedy(), 4)
    unmarked = copy.deepcopy(filler)
    unmarked.marks = Marks(pad=0)
    with pytest.raises(ValueError, match="must contain a mask token"):
        decode(unmarked, TEXTS[:1], Greedy(), 4)
    headless = tiny_model(family="encoder-only", lm_head=False)
    assert headless.read(Rows(TEXTS, REAL)).shape == (3, 6, 0)
    with pytest.raises(ValueError, match="no LM head"):
        decode(headless, TEXTS, Greedy(), 4)
    with pytest.raises(ValueError, match="has no cache"):
        filler.read(Rows(TEXTS), cache=KVCache(2))


# The cache alone: what it stores, and that a model with it computes what one without it does.
TGT = torch.tensor(
    [[1, 4, 11, 5, 5, 9, 3], [1, 12, 7, 3, 10, 4, 8], [1, 6, 9, 12, 8, 11, 4]]
)  # [batch, tgt]


@given(
    cuts=st.lists(st.integers(1, 6), max_size=3),
    family=st.sampled_from(list(WRITERS)),
    positions=st.sampled_from(list(POSITIONS)),
    left=st.lists(st.integers(0, 3), min_size=3, max_size=3),
)
def test_any_way_to_cut_a_padded_row_into_cached_pieces_gives_the_same(
    cuts, family, positions, left
):
    model, cache = wide_model(family, positions), KVCache(2)
    valid = torch.arange(TGT.shape[1]) >= torch.tensor(left)[:, None]
    edges = [0, *sorted(set(cuts)), TGT.shape[1]]
    source = (SRC, VALID) if "src" in model.reads else ()
    with torch.no_grad():
        whole = model.read(Rows(TGT, valid, *source))
        pieces = [
            model.read(Rows(TGT[:, start:end], valid[:, :end], *source), cache=cache)
            for start, end in pairwise(edges)
        ]
    joined = torch.cat(pieces, dim=1)
    torch.testing.assert_close(joined[valid], whole[valid], atol=1e-12, rtol=0)


def test_cross_attention_is_computed_once_and_stays():
    model, cache = wide_model("encoder-decoder"), KVCache(2)
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
    model, cache = wide_model("decoder-only", "none"), KVCache(2)
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


def test_valid_that_does_not_cover_the_cached_positions_is_refused():
    model, cache = wide_model("decoder-only", "learned"), KVCache(2)
    with torch.no_grad():
        model.read(Rows(TGT[:, :4]), cache=cache)
        with pytest.raises(ValueError, match="valid covers 1 positions; 4 cached and 1 new"):
            model.read(Rows(TGT[:, 4:5], torch.ones(3, 1, dtype=torch.bool)), cache=cache)
