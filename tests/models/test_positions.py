"""Positions: the closed forms, rotation as complex multiplication, biases, padding, scaling."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from models.config import ModelConfig
from models.fast import speed_up
from models.positions import (
    POSITIONS,
    Scaling,
    Sinusoidal,
    positions_of,
    sinusoidal_table,
    stretched,
    t5_buckets,
)


def test_sinusoidal_table_stays_exact_far_out():
    far = 5000  # angles taken in float32 are off by 4e-4 here
    row = sinusoidal_table(far + 1, 512)[far]
    angles = far / 10000.0 ** (np.arange(0, 512, 2) / 512)
    np.testing.assert_allclose(row[0::2].numpy(), np.sin(angles), atol=6e-8, rtol=0)
    np.testing.assert_allclose(row[1::2].numpy(), np.cos(angles), atol=6e-8, rtol=0)


def made(kind, causal=True, **changes):
    sizes = {"vocab_size": 1, "d_model": 12, "n_heads": 3, "n_ctx": 9}
    return kind(ModelConfig(**(sizes | changes)), causal)


STRETCHED = tuple(1 + pair / 3 for pair in range(6))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("sinusoidal", {"d_model": 24, "rope_base": 500.0}),
        ("sinusoidal", {"d_embed": 8, "head_net": True}),
        ("learned", {"n_ctx": 40}),
        *(("alibi", {"n_heads": n, "d_model": 12}) for n in (1, 4, 6, 12)),
        ("t5", {}),
        *(
            ("rotary", {"d_model": 36, "rope_base": 500.0, "rope_scaling": scaling})
            for scaling in (
                None,
                Scaling(divisors=STRETCHED),
                Scaling(n_ctx=8, far=STRETCHED),
                Scaling(divisors=STRETCHED, n_ctx=80, far=(2.0,) * 6),
                Scaling(n_ctx=8, growth=4.0),
                Scaling(n_ctx=80, growth=4.0),
            )
        ),
        ("rotary", {"near_layers": (0,), "near_rope_base": 70.0, "d_model": 24, "rotary_dim": 4}),
    ],
)
def test_each_kind_states_its_formula_a_second_time(kind, changes, causal):
    """The two are written independently, so a typing error in one shows here."""
    positions = made(POSITIONS[kind], causal=causal, **changes)
    positions.initialise(1.0)
    n = 40
    at = torch.arange(n)[None]
    if positions.acts == "adds":
        stated = torch.tensor([positions.expected_vector(p) for p in range(n)])
        torch.testing.assert_close(positions.added(at)[0], stated, atol=1e-6, rtol=0)
    elif positions.acts == "biases":
        offsets, heads = range(1 - n, n), range(positions.config.n_heads)
        stated = [[positions.expected_bias(head, offset) for offset in offsets] for head in heads]
        by_offset = torch.tensor(stated)[:, at - at.T + n - 1]
        torch.testing.assert_close(positions.place(at, at).bias[0].float(), by_offset)
    else:
        placement = positions.place(at, at)
        for layer, here in enumerate((placement.near or placement, placement)):
            each = torch.tensor(positions.expected_angles(layer, n), dtype=torch.float64)
            torch.testing.assert_close(here.rotation[0][0, 0], (at[0][:, None] * each).cos())
            torch.testing.assert_close(here.rotation[1][0, 0], (at[0][:, None] * each).sin())


def by_the_paper(offset, causal, n_buckets, furthest=128):
    """Raffel et al.'s bucket, in whole numbers: e^(n - e) (f / e)^(b - e) <= d^(n - e)."""
    first = 0
    if not causal:
        n_buckets //= 2
        first = n_buckets if offset > 0 else 0
    distance = max(-offset, 0) if causal else abs(offset)
    exact = n_buckets // 2
    if distance < exact:
        return first + distance
    bucket, wide = exact, n_buckets - exact
    reached = Fraction(distance, exact) ** wide
    while bucket + 1 < n_buckets and reached >= Fraction(furthest, exact) ** (bucket + 1 - exact):
        bucket += 1
    return first + bucket


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("n_buckets", [8, 32])
def test_t5s_buckets_are_the_papers(causal, n_buckets):
    offsets = range(-300, 301)
    expected = [by_the_paper(offset, causal, n_buckets) for offset in offsets]
    assert t5_buckets(torch.tensor(offsets), causal, n_buckets).tolist() == expected
    assert set(expected) == set(range(n_buckets)) - ({n_buckets // 2} if not causal else set())


def test_sinusoidal_reads_its_table_and_goes_beyond_it():
    positions = made(Sinusoidal, d_model=6, n_ctx=4, rope_base=100.0)
    table = sinusoidal_table(11, 6, base=100.0)
    at = torch.tensor([[0, 3, 10]])
    assert torch.equal(positions.added(at)[0], table[[0, 3, 10]])
    speed_up(positions)
    for at in (torch.tensor([[1, 3]]), torch.tensor([[0, 3, 10]]), torch.tensor([[2]])):
        assert torch.equal(positions.added(at), table[at])
        assert len(positions._table) == 4  # a shared model is not changed by a long sentence


SIDES = [[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 1, 1, 0, 0]]


@pytest.mark.parametrize(
    ("valid", "n_new", "past", "expected"),
    [
        (SIDES, 5, 0, [[0, 1, 2, 3, 4], [0, 0, 0, 1, 2], [0, 1, 2, 2, 2]]),
        (None, 5, 0, [[0, 1, 2, 3, 4]] * 3),
        ([[0, 1, 1, 1], [1, 1, 1, 1]], 1, 3, [[0, 0, 1, 2], [0, 1, 2, 3]]),  # a cached step
        (None, 1, 3, [[0, 1, 2, 3]] * 2),
    ],
)
def test_positions_count_real_tokens_only(valid, n_new, past, expected):
    tokens = torch.zeros(len(expected), n_new, dtype=torch.long)
    valid = None if valid is None else torch.tensor(valid) == 1
    assert positions_of(valid, tokens, past).tolist() == expected


def test_ids_without_a_place_have_position_minus_one_and_do_not_count():
    tokens = torch.tensor([[5, 9, 5, 5, 0], [9, 5, 9, 5, 5]])
    valid = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]) == 1
    assert positions_of(valid, tokens, unplaced=(9,)).tolist() == [
        [0, -1, 1, 2, 2],
        [-1, 0, -1, 1, 2],
    ]
    assert positions_of(None, tokens, unplaced=(9,)).tolist()[0] == [0, -1, 1, 2, 3]


def test_each_row_beyond_n_ctx_has_its_own_angles():
    """Of three rows with 4, 5 and 8 tokens one ends within the 5; growth 2 gives 1, 1 and 2.2."""
    angles, lengths = torch.ones(3, dtype=torch.float64), torch.tensor([4, 5, 8])
    far = stretched(angles, Scaling((1.0, 1.0, 2.0), 5, (4.0, 4.0, 4.0)), lengths)
    assert far.tolist() == [[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.25, 0.25, 0.25]]
    grown = stretched(angles, Scaling(n_ctx=5, growth=2.0), lengths)
    expected = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 2.2**-0.5, 1 / 2.2]])
    torch.testing.assert_close(grown, expected.double())
