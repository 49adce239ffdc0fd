"""Filling in masked tokens: an encoder alone, decoded by the strategies of models that write."""

import copy

import pytest
import torch
from tables import wide_model

from models.cache import KVCache
from models.decoding import best, decode
from models.marks import Marks
from models.rows import Rows
from models.strategies import Beam, Greedy, Sample

MASK = 4
MARKS = Marks(pad=0, start=1, end=2, unknown=3, mask=MASK)
TEXTS = torch.tensor([[1, 9, MASK, 7, MASK, 2], [1, MASK, 11, 2, 0, 0], [1, 6, 10, MASK, 8, 2]])
VALID = TEXTS != 0


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
    for text, real in zip(TEXTS, VALID, strict=True):
        steps = list(decode(filler, text[real][None], Greedy(), 9))
        output, row = filled_by_hand(filler, text[real])
        (answer,) = steps[-1].best
        assert answer.tokens == output
        assert answer.finished
        assert len(steps) == len(output)
        assert filler.whole(text[real].tolist(), output) == tuple(row.tolist())


def test_a_text_in_a_padded_batch_comes_out_as_alone(filler):
    for strategy in (Greedy(), Beam(3, 0.7)):
        together = best(decode(filler, TEXTS, strategy, 9, src_valid=VALID))
        for i, (text, real) in enumerate(zip(TEXTS, VALID, strict=True)):
            (alone,) = best(decode(filler, text[real][None], strategy, 9))
            assert alone.tokens == together[i].tokens
            assert alone.logprob == pytest.approx(together[i].logprob)


def test_a_step_says_where_it_read(filler):
    first, second = decode(filler, TEXTS[:1], Beam(2), 9)
    assert first.positions == (2,)
    assert second.positions == (4, 4)
    log_probs = filler.read(Rows(second.input_tokens))[range(2), [4, 4]].log_softmax(-1)
    torch.testing.assert_close(second.log_probs, log_probs)
    (answer,) = second.best
    gained = [
        float(step.log_probs[row, token])
        for step, row, token in zip((first, second), answer.rows, answer.tokens, strict=True)
    ]
    assert sum(gained) == pytest.approx(answer.logprob)


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


def test_a_limit_leaves_masks_unfilled(filler):
    (answer,) = best(decode(filler, TEXTS[:1], Sample(seed=3), 1))
    assert len(answer.tokens) == 1
    assert not answer.finished


def test_forced_tokens_fill_the_first_masks(filler):
    steps = list(decode(filler, TEXTS[:1], Greedy(), 9, prefix=[8]))
    assert steps[0].forced
    assert steps[-1].best[0].tokens[0] == 8
    assert steps[1].input_tokens[0, 2] == 8


def test_what_cannot_be_filled_is_refused(filler, tiny_model):
    with pytest.raises(ValueError, match="must contain a mask token"):
        decode(filler, TEXTS[:1].clamp(min=5), Greedy(), 4)
    unmarked = copy.deepcopy(filler)
    unmarked.marks = Marks(pad=0)
    with pytest.raises(ValueError, match="must contain a mask token"):
        decode(unmarked, TEXTS[:1], Greedy(), 4)
    headless = tiny_model(family="encoder-only", lm_head=False)
    assert headless.read(Rows(TEXTS, VALID)).shape == (3, 6, 0)
    with pytest.raises(ValueError, match="no LM head"):
        decode(headless, TEXTS, Greedy(), 4)
    with pytest.raises(ValueError, match="has no cache"):
        filler.read(Rows(TEXTS), cache=KVCache(2))


def test_an_encoder_reads_both_ways_and_padding_is_hidden(filler):
    with_more = TEXTS[:1].clone()
    with_more[0, -2] = 8  # the last word of the text
    before, after = (filler.read(Rows(rows)) for rows in (TEXTS[:1], with_more))
    assert (before[0, 1] - after[0, 1]).abs().max() > 1e-3, "an earlier place must see it"
    short = filler.read(Rows(TEXTS[1:2, :4]))
    padded = filler.read(Rows(TEXTS[1:2], VALID[1:2]))[:, :4]
    torch.testing.assert_close(short, padded)
