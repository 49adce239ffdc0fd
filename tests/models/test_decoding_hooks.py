"""Decoding under `visiting`: each step reports to whoever asks for it and leaves nothing."""

import pytest
import torch
from families import WRITERS
from tables import chosen

from models.decoding import best, decode
from models.hooks import Edits, Record, visiting
from models.positions import POSITIONS
from models.strategies import Beam, Greedy, Sample

STRATEGIES = [Greedy(), Sample(temperature=1.5, top_p=0.9, seed=2), Beam(3, 0.7)]
BOTH = [(family, positions) for family in WRITERS for positions in POSITIONS]
SRC = torch.tensor([[1, 9, 3, 7, 5, 2], [1, 4, 11, 0, 0, 0], [1, 6, 10, 8, 0, 0]])
VALID = SRC != 0


def patterns(name: str) -> bool:
    return name.endswith("hook_pattern")


def test_the_encoder_runs_once_and_the_decoder_at_every_step(wide_model):
    model, seen = wide_model("encoder-decoder"), []

    def note(name):
        return lambda tensor: (seen.append(name), tensor)[1]

    names = ("encoder.hook_embed", "decoder.hook_embed")
    steps = decode(model, SRC, Beam(2), 4, src_valid=VALID)
    assert seen == []
    with visiting(Edits({name: note(name) for name in names})):
        n_steps = len(list(steps))
    assert seen == [names[0], *[names[1]] * n_steps]


def test_each_step_reports_to_the_visitor_around_its_own_next(wide_model):
    """Two generations in turn, each with its visitor; a third step in between has none."""
    model = wide_model("encoder-decoder")
    one, other = (decode(model, SRC[i : i + 1], Greedy(), 5) for i in (0, 2))
    for index in range(3):
        first, second = Record(patterns), Record(patterns)
        with visiting(first):
            next(one)
        with visiting(second):
            next(other)
        cross = "decoder.blocks.1.cross_attn.hook_pattern"
        own = "decoder.blocks.1.attn.hook_pattern"
        assert first.activations[own].shape == (1, 4, 1, index + 1)
        assert not torch.equal(first.activations[cross], second.activations[cross])
        assert ("encoder.blocks.0.attn.hook_pattern" in first.activations) == (index == 0)
    before = dict(second.activations)
    next(one)
    assert {k: id(v) for k, v in second.activations.items()} == {
        k: id(v) for k, v in before.items()
    }


def test_a_visitor_around_one_step_may_change_that_step_only(wide_model):
    model = wide_model("decoder-only")
    steps = decode(model, SRC[:1], Greedy(), 5)
    clean = best(decode(model, SRC[:1], Greedy(), 5))[0].tokens
    assert chosen(next(steps)) == [clean[0]]
    with visiting(Edits({"hook_logits": lambda t: torch.full_like(t, -9).index_fill(-1, ids, 9)})):
        assert chosen(next(steps)) == [12]
    assert next(steps).input_tokens[0, -2:].tolist() == [clean[0], 12]


ids = torch.tensor([12])


@pytest.mark.parametrize(("family", "positions"), BOTH)
def test_old_rows_of_the_patterns_do_not_move_as_the_output_grows(wide_model, family, positions):
    """Without the causal mask at every step they do, and then no cache can be right."""
    model = wide_model(family, positions)
    steps = decode(model, SRC, Greedy(), 7, src_valid=VALID, use_cache=False)
    earlier: dict[str, torch.Tensor] = {}
    n_compared = 0
    while True:
        record = Record(lambda name: patterns(name) and not name.startswith("encoder"))
        with visiting(record):
            step = next(steps, None)
        if step is None:
            break
        for name, pattern in record.activations.items():
            old = earlier.get(name)
            if old is not None and len(old) == len(pattern):
                n_query, n_key = old.shape[2:]
                torch.testing.assert_close(pattern[:, :, :n_query, :n_key], old)
                n_compared += 1
        earlier = record.activations
    assert n_compared >= 4


def test_neither_gradients_nor_inference_mode_leak_out_of_a_step(wide_model):
    model = wide_model("encoder-decoder")
    steps = decode(model, SRC, Beam(2), 3, src_valid=VALID)
    for step in steps:
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
        assert not step.log_probs.requires_grad
        assert not step.log_probs.is_inference()


def test_the_model_and_the_global_generator_are_left_as_they_were(wide_model):
    model = wide_model("decoder-only")
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    src, state = SRC.clone(), torch.random.get_rng_state()
    for strategy in STRATEGIES:
        best(decode(model, src, strategy, 4, src_valid=VALID))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(src, SRC)
    assert all(torch.equal(weights[name], t) for name, t in model.state_dict().items())


def test_steps_already_given_do_not_change_later(wide_model):
    model = wide_model("decoder-only")
    steps = decode(model, SRC, Beam(3), 5, src_valid=VALID)
    first = next(steps)
    kept = (first.input_tokens.clone(), first.log_probs.clone())
    list(steps)
    for before, after in zip(kept, (first.input_tokens, first.log_probs)):  # noqa: B905
        assert torch.equal(before, after)
