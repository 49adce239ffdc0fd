"""Small training runs for claims: models of a few blocks on rows of random symbols, with Adam.

A claim describes its training runs and receives their results, so that a test can substitute any
results.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from explorer.analysis.cases.case import Curves, Verdict, judged, part_of
from explorer.runs.passes import Steps, seeded
from models.blocks import Block
from models.config import ModelConfig, NormPlacement
from models.fast import speed_up
from models.norms import LayerNorm
from models.rows import Rows
from models.transformer import Model, build_model

SYMBOLS, LENGTH = 10, 12
N_ROWS, N_ASKED = 16, 256
SEEDS = (0, 1, 2)
SymbolRows = Int[Tensor, "row pos"]
SymbolTask = Callable[[SymbolRows], SymbolRows]
"""The target at each position of rows of symbols; -100 if the position is ignored."""
UNASKED = -100


def symbol_config(**changes: Any) -> ModelConfig:
    """A one-layer encoder of width 32 with 4 heads over ten symbols, with an untied output matrix
    and without dropout; `changes` override this."""
    sizes: dict[str, Any] = {
        "family": "encoder-only", "vocab_size": SYMBOLS, "d_model": 32, "n_layers": 1,
        "n_heads": 4, "d_ff": 64, "n_ctx": LENGTH, "dropout": 0.0, "tie_embeddings": False,
    }  # fmt: skip
    return ModelConfig(**(sizes | changes))


PRE: Mapping[str, Any] = {"norm_placement": "pre", "final_norm": True}
"""The config changes that make a model pre-norm."""


@dataclass(frozen=True)
class TaskTraining:
    """A model of `config` learns `task` in `steps` steps of Adam on fresh random rows.

    The learning rate rises linearly during the first `warm` steps. Without `normed`, every
    LayerNorm is removed.
    """

    config: ModelConfig
    task: SymbolTask
    steps: int
    rate: float
    warm: int = 0
    normed: bool = True


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training run: the loss of each step (nats), the accuracy on fresh rows."""

    losses: tuple[float, ...]
    right: float


@dataclass(frozen=True, eq=False)
class Seeds:
    """The results of one training run with every seed: losses [seed, step], accuracy [seed]."""

    losses: np.ndarray
    right: np.ndarray

    @property
    def left(self) -> np.ndarray:
        """The mean loss of the last ten steps, [seed]."""
        return self.losses[:, -10:].mean(1)

    @property
    def mean(self) -> np.ndarray:
        """The mean loss over all steps, [seed]: lower if the task was learned earlier."""
        return self.losses.mean(1)

    @property
    def learned(self) -> int:
        """The number of seeds whose final loss is at least 0.1 nats below guessing (ln 10)."""
        return int((self.left < math.log(SYMBOLS) - 0.1).sum())


Learn = Callable[[TaskTraining, int], Steps[TrainingResult]]
"""(training, seed) -> the result."""


def train(training: TaskTraining, seed: int) -> Steps[TrainingResult]:
    """Train a fresh model; `seed` determines its weights and rows."""
    generator = torch.Generator().manual_seed(seed)
    losses = []
    with torch.inference_mode(False), torch.enable_grad():
        model = fresh_model(training.config, seed, training.normed)
        optimizer = torch.optim.Adam(model.parameters(), lr=training.rate, fused=True)
        for step in range(training.steps):
            warmed = min(1.0, (step + 1) / max(1, training.warm))
            optimizer.param_groups[0]["lr"] = training.rate * warmed
            rows = torch.randint(SYMBOLS, (N_ROWS, LENGTH), generator=generator)
            logits, wanted = model.read(Rows(rows)).flatten(0, 1), training.task(rows).flatten()
            loss = nn.functional.cross_entropy(logits, wanted, ignore_index=UNASKED)
            optimizer.zero_grad()
            torch.autograd.backward([loss])
            optimizer.step()
            losses.append(loss.item())
            yield step + 1, training.steps
    return TrainingResult(tuple(losses), share_right(model, training.task))


def several(arms: Mapping[str, TaskTraining], learn: Learn) -> Steps[dict[str, Seeds]]:
    """The results of each of the compared training runs, with every seed."""
    results, turns = {}, len(arms) * len(SEEDS)
    for turn, (name, training) in enumerate(arms.items()):
        tries = []
        for at, seed in enumerate(SEEDS):
            tries.append((yield from part_of(learn(training, seed), len(SEEDS) * turn + at, turns)))
        losses, right = ([getattr(attempt, of) for attempt in tries] for of in ("losses", "right"))
        results[name] = Seeds(np.array(losses), np.array(right))
    return results


def mean_and_range(tries: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The mean of several tries, and the largest minus the smallest."""
    return float(np.mean(tries)), float(np.ptp(tries))


def above(these: np.ndarray, those: np.ndarray, by: float) -> bool | None:
    """Whether `these` exceed `those` by more than `by` on average. None if they do, but not every
    one of `these` exceeds every one of `those`: overlapping seeds prove nothing."""
    if these.mean() - those.mean() <= by:
        return False
    return True if these.min() > those.max() else None


def of_tasks(
    outcomes: Sequence[bool | None], holds: bool = True
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict if a claim holds on a task whose outcome is `holds`, and fails on one with the
    opposite; and the names of its texts."""
    verdict = judged(
        all(outcome is holds for outcome in outcomes),
        false=all(outcome is (not holds) for outcome in outcomes),
    )
    return verdict, of_seeds(verdict, outcomes)


def of_seeds(verdict: Verdict, outcomes: Sequence[bool | None]) -> tuple[str, ...]:
    """The names of the texts for a verdict on several tasks; one more if seeds overlap."""
    return ("seeds", "why") if verdict == "depends" and None in outcomes else ("why",)


def curves_of(results: Mapping[str, Seeds], log_y: bool = False) -> Curves:
    """The loss of each step, averaged over the seeds, one curve per training run."""
    ys = np.array([seeds.losses.mean(0) for seeds in results.values()])
    return Curves(np.arange(1, ys.shape[1] + 1), ys, tuple(results), "step", "loss", log_y)


def share_right(model: Model, task: SymbolTask, seed: int = 1000) -> float:
    """The accuracy of `model` at the target positions of fresh random rows."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(SYMBOLS, (N_ASKED, LENGTH), generator=generator)
    with torch.inference_mode():
        wanted, answers = task(rows), model.read(Rows(rows)).argmax(-1)
    asked = wanted != UNASKED
    return float((answers == wanted)[asked].float().mean())


def fresh_model(config: ModelConfig, seed: int, normed: bool = True) -> Model:
    """A model of the library with this `seed`; without `normed`, every LayerNorm is an identity."""
    with seeded(seed):
        model = build_model(config)
    if not normed:
        for module in list(model.modules()):
            for name, child in module.named_children():
                if isinstance(child, LayerNorm):
                    setattr(module, name, nn.Identity())
    speed_up(model)
    return model


def fresh_block(placement: NormPlacement, d_model: int) -> Block:
    """A block of 4 heads with Xavier matrices and zero biases, initialized as in whole models."""
    block = Block(symbol_config(d_model=d_model, d_ff=4 * d_model, norm_placement=placement))
    for module in block.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return block


# Tasks.


def same(rows: SymbolRows) -> SymbolRows:
    """The symbol itself."""
    return rows


def two_back(rows: SymbolRows) -> SymbolRows:
    """The symbol two positions earlier, which only order can identify."""
    asked = torch.full_like(rows, UNASKED)
    asked[:, 2:] = rows[:, :-2]
    return asked


def larger_neighbour(rows: SymbolRows) -> SymbolRows:
    """The larger of the two neighbours, whichever side it is on."""
    return _asked_inside(rows, torch.maximum(rows[:, :-2], rows[:, 2:]))


def both_neighbours(rows: SymbolRows) -> SymbolRows:
    """The ordered pair of neighbours, as one of SYMBOLS ** 2 classes."""
    return _asked_inside(rows, SYMBOLS * rows[:, :-2] + rows[:, 2:])


def _asked_inside(rows: SymbolRows, wanted: Int[Tensor, "row inner"]) -> SymbolRows:
    asked = torch.full_like(rows, UNASKED)
    asked[:, 1:-1] = wanted
    return asked


SHUFFLED = (7, 2, 10, 5, 0, 9, 3, 11, 6, 1, 8, 4)


def shuffled(rows: SymbolRows) -> SymbolRows:
    """The symbol at another position, fixed for each position; no distance repeats."""
    return rows[:, list(SHUFFLED)]


def next_symbol(rows: SymbolRows) -> SymbolRows:
    """The next symbol in the order of symbols; the first follows the last."""
    return (rows + 1) % SYMBOLS
