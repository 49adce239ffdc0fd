"""Speculative decoding: the text of `Greedy`, whatever the draft says, in fewer passes."""

import pytest
import torch
from families import WRITERS
from hypothesis import given, settings, strategies as st

from explorer.runs.speculative import Round, first_layers, speculate
from models.decoding import best, decode
from models.positions import POSITIONS
from models.strategies import Greedy
from models.transformer import Model

PROMPT = torch.tensor([[1]])
WORDS = st.lists(st.integers(3, 12), min_size=1, max_size=4)


def greedy(model: Model, src: torch.Tensor, limit: int) -> tuple[int, ...]:
    answers = best(decode(model, src, Greedy(), limit))
    return answers[0].tokens if answers else ()


def text(rounds: list[Round]) -> tuple[int, ...]:
    return tuple(token for each in rounds for token in each.written)


def test_the_rounds_of_a_table_worked_by_hand(chain):
    """The model says 1 3 4 5 3 4 5 …, the draft 1 3 4 3 4 3 …: after 4 it is wrong."""
    model = chain(_1={3: 1}, _3={4: 1}, _4={5: 1}, _5={3: 1})
    draft = chain(_1={3: 1}, _3={4: 1}, _4={3: 1}, _5={3: 1})
    assert list(speculate(model, draft, PROMPT, 3, 8)) == [
        Round((3, 4, 3), (3, 4, 5), accepted=2),
        Round((3, 4, 3), (3, 4, 5), accepted=2),
        Round((3,), (3, 4), accepted=1),  # two are left: one drafted, one of the model's own
    ]
    assert len(model.forwards) == 3


def test_all_drafts_accepted_give_one_token_more(chain):
    model = chain(_1={3: 1}, _3={4: 1}, _4={5: 1}, _5={3: 1})
    first = next(speculate(model, model, PROMPT, 4, 9))
    assert first == Round((3, 4, 5, 3), (3, 4, 5, 3, 4), accepted=4)


def test_the_end_mark_ends_the_draft_and_the_output(chain):
    model = chain(_1={3: 1}, _3={2: 1})
    assert list(speculate(model, model, PROMPT, 5, 9)) == [Round((3, 2), (3, 2), accepted=2)]
    blind = chain(_1={3: 1}, _3={4: 1}, _4={5: 1})
    assert list(speculate(model, blind, PROMPT, 2, 9)) == [Round((3, 4), (3, 2), accepted=1)]


@given(
    seeds=st.tuples(st.integers(0, 60), st.integers(0, 60)),
    k=st.integers(0, 6),
    limit=st.integers(0, 12),
)
def test_tables_never_change_the_text(random_chain, seeds, k, limit):
    model, draft = map(random_chain, seeds)
    rounds = list(speculate(model, draft, PROMPT, k, limit))
    assert text(rounds) == greedy(model, PROMPT, limit)
    # Every pass writes at least one token: never more passes than greedy decoding takes.
    assert all(1 <= len(each.written) <= len(each.drafted) + 1 for each in rounds)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("family", WRITERS)
@settings(max_examples=4)
@given(words=WORDS, k=st.integers(0, 5), limit=st.integers(1, 9))
def test_models_with_caches_write_the_text_of_greedy(
    wide_model, family, positions, words, k, limit
):
    model = wide_model(family, positions)
    src = torch.tensor([[1, *words]])
    for draft in (model, first_layers(model, 1), wide_model(family, "none")):
        rounds = list(speculate(model, draft, src, k, limit))
        assert text(rounds) == greedy(model, src, limit)
        if draft is model:
            assert all(each.drafted == each.written[: len(each.drafted)] for each in rounds)


def test_the_drafts_above_are_right_and_wrong_by_turns(wide_model):
    """Without this the property could hold for drafts that agree always, or never."""
    model = wide_model(WRITERS[0])
    src = torch.tensor([[1, 9, 3, 7]])
    rounds = list(speculate(model, first_layers(model, 1), src, 2, 9))
    accepted = [each.accepted for each in rounds]
    assert 0 < sum(accepted) < sum(len(each.drafted) for each in rounds)


@pytest.mark.parametrize("family", WRITERS)
def test_the_first_layers_are_those_of_the_model_which_stays_whole(wide_model, family):
    model, src = wide_model(family), torch.tensor([[1, 9, 3, 7]])
    rows = model.begin(src)
    whole = model.read(rows)
    shallow = first_layers(model, 1)
    model.last_stack.blocks[1].register_forward_hook(lambda *_: pytest.fail("block 2 was run"))
    try:
        early = shallow.read(rows)
    finally:
        model.last_stack.blocks[1]._forward_hooks.clear()
    assert not torch.allclose(early, whole)
    assert torch.equal(first_layers(model, 2).read(rows), whole)
    assert torch.equal(model.read(rows), whole)
    assert shallow.config.n_layers == 1
    assert shallow.config.encoder_layers == model.config.encoder_layers


def test_refusals(wide_model, chain):
    model = wide_model(WRITERS[0])
    with pytest.raises(ValueError, match="same tokens"):
        speculate(model, wide_model(WRITERS[0], vocab_size=14), PROMPT, 2, 4)
    with pytest.raises(ValueError, match="n_drafted is -1"):
        speculate(model, model, PROMPT, -1, 4)
    with pytest.raises(ValueError, match="max_new_tokens is -1"):
        speculate(chain(), chain(), PROMPT, 2, -1)
    with pytest.raises(ValueError, match="n_layers is 3: the model has 2"):
        first_layers(model, 3)
