"""A training run small enough for a test: a toy task, a one-layer model, two epochs. And tiny
checkpoints that translate, or continue, nothing."""

from pathlib import Path
from typing import Any

import torch

from models.config import ModelConfig
from models.training.corpus import Task, task_pairs
from models.training.data import Example, Material
from models.training.loop import Trainer
from models.training.saving import save_checkpoint
from models.training.settings import TrainingConfig
from models.training.vocabulary import train_tokenizer
from models.transformer import Model, build_model

CONFIG = ModelConfig(
    vocab_size=12, d_model=24, n_layers=1, n_heads=4, d_ff=40, dropout=0.1, positions="rotary"
)
SETTINGS = TrainingConfig(
    epochs=2, max_tokens=50, warmup=10, learning_rate=3e-3, precision="float32", average=2
)


def task_examples(task: Task, n: int, lengths: tuple[int, int], seed: int) -> list[Example]:
    """A toy task over the eight letters after the special ids, without a tokenizer."""
    first = 4 - ord("a")
    return [
        Example(*(tuple(ord(symbol) + first for symbol in row.split()) for row in pair))
        for pair in task_pairs(task, n, lengths, 8, seed)
    ]


EXAMPLES = task_examples("reverse", 120, (2, 6), seed=0)
VALID = task_examples("reverse", 20, (2, 6), seed=1)


def trainer(folder: Path, settings: TrainingConfig = SETTINGS, **more: Any) -> Trainer:
    torch.manual_seed(settings.seed)
    return Trainer(build_model(CONFIG), Material(EXAMPLES, VALID), settings, folder, **more)


def weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def without_times(curve: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in curve]


PAIRS = [("the fox", "狐狸"), ("the dog", "狗"), ("the dog", "那只狗"), ("a cat", "一只猫")] * 2


def write_untrained(folder: Path, family: str = "encoder-decoder") -> Path:
    """A checkpoint with random weights and a tokenizer of `PAIRS`."""
    torch.manual_seed(3)
    tokenizer = train_tokenizer([text for pair in PAIRS for text in pair], vocab_size=60)
    sizes = {"d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 16, "n_ctx": 40}
    config = ModelConfig(family=family, vocab_size=tokenizer.vocab_size, **sizes)
    save_checkpoint(folder, build_model(config), tokenizer)
    return folder
