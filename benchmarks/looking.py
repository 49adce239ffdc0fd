"""Looking at a 24-token sentence: what capturing costs, and what loading the model costs."""

import torch

from benchmarks.timing import medians, rows
from explorer.library import CHECKPOINTS
from models import load_checkpoint
from models.fast import speed_up
from models.hooks import Record, visiting
from models.rows import Rows


def run() -> list[str]:
    """Lines of milliseconds: the shipped translator's forward pass, looked at and not."""
    model = load_checkpoint(CHECKPOINTS / "en-zh").model
    speed_up(model)
    src = torch.randint(4, model.config.vocab_size, (1, 24))
    tgt = torch.randint(4, model.config.vocab_size, (1, 24))

    @torch.inference_mode()
    def unseen() -> None:
        model.read(Rows(tgt, src=src))

    def seen(what: str) -> None:
        with visiting(Record(lambda name: name.endswith(what))):
            unseen()

    plain = "forward pass, nobody looks (torch's fused attention)"
    times = medians(
        {
            plain: unseen,
            "forward pass, every pattern captured": lambda: seen("pattern"),
            "forward pass, every tensor captured": lambda: seen(""),
            "load the checkpoint": lambda: load_checkpoint(CHECKPOINTS / "en-zh"),
        },
        runs=15,
    )
    return rows(times, plain)
