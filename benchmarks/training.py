"""Training: tokens/s of our loop and of a plain torch.nn.Transformer loop; cost of live frames.

Both sides have the same shape, read the same batches of the reverse task in the same order and take
the same steps: cross-entropy, gradient clipped to 1, fused AdamW. They take turns of ten steps, on
one thread. Times are CPU seconds, which other load on the machine hardly affects.
"""

import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from explorer.training.learning import FRAME_EVERY, SetupTrainer
from explorer.training.setup import Setup
from explorer.training.tasks import corpus
from models.positions import sinusoidal_table
from models.training.data import Batch

ROUNDS, WARM = 15, 3
SETUPS = {
    "the room's usual model, 512 cells": Setup(),
    "the same, 2,048 cells": Setup(batch=2048),
    "4 + 4 layers, post-norm, 512 cells": Setup(n_layers=4, norm_placement="post"),
}


class Plain(nn.Module):
    """torch.nn.Transformer as in tutorials: tied embedding, sinusoidal positions, padding masks."""

    def __init__(self, setup: Setup, vocab_size: int, n_ctx: int, pad: int) -> None:
        super().__init__()
        self.pad = pad
        self.embed = nn.Embedding(vocab_size, setup.d_model)
        nn.init.normal_(self.embed.weight, std=setup.d_model**-0.5)
        self.register_buffer("sines", sinusoidal_table(n_ctx, setup.d_model))
        self.sines: Tensor
        self.transformer = nn.Transformer(
            setup.d_model,
            setup.n_heads,
            setup.n_layers,
            setup.n_layers,
            setup.d_ff,
            dropout=0.0,
            batch_first=True,
            norm_first=setup.norm_placement == "pre",
        )
        self.unembed = nn.Linear(setup.d_model, vocab_size, bias=False)
        self.unembed.weight = self.embed.weight

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Logits [batch, tgt, vocab]."""
        scale = math.sqrt(self.embed.embedding_dim)
        x, y = (self.embed(each) * scale + self.sines[: each.shape[1]] for each in (src, tgt))
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1]).isinf()
        hidden = src == self.pad
        out = self.transformer(
            x,
            y,
            tgt_mask=causal,
            src_key_padding_mask=hidden,
            tgt_key_padding_mask=tgt == self.pad,
            memory_key_padding_mask=hidden,
        )
        return self.unembed(out)  # type: ignore[no-any-return]


def run() -> Iterator[str]:
    """One line per setup: tokens per second of both, then the cost of a frame."""
    threads = torch.get_num_threads()
    yield f"torch threads: {threads}; medians of {ROUNDS} turns of {FRAME_EVERY} steps"
    for name, setup in SETUPS.items():
        with tempfile.TemporaryDirectory() as place:
            yield from _rows(name, setup, Path(place))


def _rows(name: str, setup: Setup, folder: Path) -> Iterator[str]:
    torch.manual_seed(1)
    learner = SetupTrainer(setup, corpus(setup), folder)
    batches = [learner.next_batch() for _ in range(FRAME_EVERY)]
    config = learner.model.config
    plain = Plain(setup, config.vocab_size, config.n_ctx, learner.model.marks.pad or 0)
    ours = sum(each.numel() for each in learner.model.parameters())
    theirs = sum(each.numel() for each in plain.parameters())
    optimizer = torch.optim.AdamW(
        plain.parameters(), setup.rate, (0.9, 0.98), 1e-9, 0.0, fused=True
    )

    def our_step(batch: Batch) -> object:
        return learner.take(batch)

    def plain_step(batch: Batch) -> object:
        labels = batch.labels.masked_fill(~batch.loss_mask, -100)
        optimizer.zero_grad(set_to_none=True)
        logits = plain(batch.rows.tokens("src"), batch.rows.tgt)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    n_labels = sum(batch.n_labels for batch in batches)
    spent: dict[str, list[float]] = {"ours": [], "torch": [], "frame": []}

    def turn(side: str, work: Callable[[], object]) -> None:
        started = time.process_time()
        work()
        spent[side].append(time.process_time() - started)

    for _ in range(WARM + ROUNDS):
        turn("ours", lambda: [our_step(batch) for batch in batches])
        turn("torch", lambda: [plain_step(batch) for batch in batches])
        turn("frame", lambda: json.dumps(learner.frame().packed()))
    middle = {side: statistics.median(seconds[WARM:]) for side, seconds in spent.items()}
    yield (
        f"{name:<38} ours {n_labels / middle['ours']:8,.0f} tokens/s   torch.nn.Transformer "
        f"{n_labels / middle['torch']:8,.0f}   {middle['torch'] / middle['ours']:5.2f} x   "
        f"({ours:,} and {theirs:,} parameters)"
    )
    yield (
        f"{'':<38} a frame every {FRAME_EVERY} steps: {1000 * middle['frame']:.1f} ms, "
        f"{100 * middle['frame'] / middle['ours']:.1f} % of their time"
    )
