"""Between two passes of a model others may go first, where the caller's thread was told to."""

import torch

from explorer.passes import before_passes, undisturbed
from models.config import ModelConfig
from models.rows import Rows
from models.transformer import build_model


def test_every_pass_of_every_stack_is_announced_except_where_nobody_may_disturb() -> None:
    config = ModelConfig(vocab_size=7, d_model=8, n_heads=2)  # a translator: two stacks
    model, rows = build_model(config), Rows(torch.tensor([[1, 2, 3]]), src=torch.tensor([[1, 2]]))
    begun: list[str] = []
    model.read(rows)
    with before_passes(lambda: begun.append("pass")):
        model.read(rows)
        assert len(begun) == 2
        with undisturbed():
            model.read(rows)
        assert len(begun) == 2
        model.read(rows)
    model.read(rows)
    assert len(begun) == 4
