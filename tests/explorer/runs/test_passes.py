"""Between two passes of a model others may go first, where the caller's thread was told to."""

import torch

from explorer.runs.passes import Exclusive, letting, timed
from models.config import ModelConfig
from models.rows import Rows
from models.transformer import build_model


def test_every_pass_of_every_stack_is_announced_except_where_nobody_may_disturb() -> None:
    config = ModelConfig(vocab_size=7, d_model=8, n_heads=2)  # a translator: two stacks
    model, rows = build_model(config), Rows(torch.tensor([[1, 2, 3]]), src=torch.tensor([[1, 2]]))
    begun: list[str] = []
    model.read(rows)
    with letting(lambda: begun.append("pass")):
        model.read(rows)
        assert len(begun) == 2
        with Exclusive().held():
            model.read(rows)
        assert len(begun) == 2
        timed(lambda: model.read(rows))
        assert len(begun) == 3  # once, before it
        model.read(rows)
    model.read(rows)
    assert len(begun) == 5
