"""Two sessions that draw at once get the numbers that each would get alone."""

from concurrent.futures import ThreadPoolExecutor

import torch

from explorer.seeding import seeded


def _drawn(seed: int) -> list[float]:
    with seeded(seed):
        return [float(torch.rand(())) for _ in range(300)]


def test_sessions_that_draw_at_once_do_not_disturb_each_other():
    alone = {seed: _drawn(seed) for seed in range(4)}
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(_drawn, [0, 1, 2, 3] * 5))
    assert together == [alone[seed] for seed in [0, 1, 2, 3] * 5]


def test_the_global_generator_is_left_where_it_stood():
    before = torch.get_rng_state()
    _drawn(7)
    assert torch.equal(torch.get_rng_state(), before)
