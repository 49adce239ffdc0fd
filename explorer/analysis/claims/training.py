"""Small trainings for claims: nets of a few blocks on rows of random symbols, with Adam."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from explorer.analysis.claims.card import FractionDone
from explorer.seeding import seeded
from models.blocks import EncoderBlock
from models.config import ModelConfig, NormPlacement
from models.masks import causal_mask
from models.norms import NORMS
from models.positions import sinusoidal_table

SYMBOLS, LENGTH = 10, 12
SymbolRows = Int[Tensor, "row pos"]
SymbolTask = Callable[[SymbolRows], SymbolRows]
"""What is to be said at each place of rows of symbols; -100 where nothing is asked."""
UNASKED = -100


def symbol_config(**changes: Any) -> ModelConfig:
    """One layer of width 32 with 4 heads over ten symbols, without dropout; changed as asked."""
    sizes: dict[str, Any] = {
        "vocab_size": SYMBOLS, "d_model": 32, "n_layers": 1, "n_heads": 4, "d_ff": 64, "dropout": 0,
    }  # fmt: skip
    return ModelConfig(**(sizes | changes))


def xavier(module: nn.Module) -> None:
    """Give all linear layers in it Xavier matrices and zero biases, as whole models begin with."""
    for each in module.modules():
        if isinstance(each, nn.Linear):
            nn.init.xavier_uniform_(each.weight)
            if each.bias is not None:
                nn.init.zeros_(each.bias)


def fresh_block(placement: NormPlacement, d_model: int) -> EncoderBlock:
    """A block of 4 heads with initial weights."""
    block = EncoderBlock(symbol_config(d_model=d_model, d_ff=4 * d_model, norm_placement=placement))
    xavier(block)
    return block


class SymbolNet(nn.Module):
    """Symbols in, logits [row, pos, symbol] out: embedding, positions if asked for, blocks, output.

    Built under `seed`. Its blocks are those of `config`; a final norm stands behind those that do
    not end with one.
    """

    def __init__(
        self, config: ModelConfig, seed: int, positions: bool = True, causal: bool = False
    ) -> None:
        super().__init__()
        width, n_symbols = config.d_model, config.vocab_size
        with seeded(seed):
            self.embed = nn.Embedding(n_symbols, width)
            self.blocks = nn.ModuleList(EncoderBlock(config) for _ in range(config.n_layers))
            self.out = nn.Linear(width, n_symbols)
            xavier(self.blocks)
        self.norm = nn.Identity() if config.norm_placement == "post" else NORMS[config.norm](width)
        self.positions = positions
        self.causal = causal

    def forward(self, rows: SymbolRows) -> Float[Tensor, "row pos symbol"]:
        x = self.embed(rows)
        if self.positions:
            x = x + sinusoidal_table(rows.shape[1], x.shape[-1])
        mask = causal_mask(rows.shape[1]) if self.causal else None
        for block in self.blocks:
            x = block(x, mask=mask)
        return self.out(self.norm(x))


def train(
    net: nn.Module,
    task: SymbolTask,
    steps: int,
    rate: float,
    progress: FractionDone,
    warm: int = 0,
    n_rows: int = 16,
    seed: int = 0,
) -> list[float]:
    """Train `net` on fresh random rows; the loss (nats) of each step.

    The learning rate rises in proportion to the step during the first `warm` steps.
    """
    generator = torch.Generator().manual_seed(seed)
    losses = []
    with torch.inference_mode(False), torch.enable_grad():
        optimizer = torch.optim.Adam(net.parameters(), lr=rate)
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / max(1, warm))
            rows = torch.randint(SYMBOLS, (n_rows, LENGTH), generator=generator)
            logits = net(rows).flatten(0, 1)
            loss = nn.functional.cross_entropy(logits, task(rows).flatten(), ignore_index=UNASKED)
            optimizer.zero_grad()
            torch.autograd.backward([loss])
            optimizer.step()
            losses.append(loss.item())
            progress((step + 1) / steps)
    return losses


def share_right(net: nn.Module, task: SymbolTask, n_rows: int = 256, seed: int = 1000) -> float:
    """The share of the asked places of fresh random rows at which `net` is right."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(SYMBOLS, (n_rows, LENGTH), generator=generator)
    with torch.inference_mode():
        wanted, said = task(rows), net(rows).argmax(-1)
    asked = wanted != UNASKED
    return float((said == wanted)[asked].float().mean())
