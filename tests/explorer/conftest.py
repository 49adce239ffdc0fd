"""Tiny seeded models with a tokenizer trained on a few sentences, for the tests of the explorer."""

import pytest
import torch

from explorer.library import LoadedModel
from models.config import ModelConfig
from models.tokenizer import Tokenizer
from models.transformer import build_model

CORPUS = (
    "I love you.",
    "The cat sat on the mat.",
    "A dog ran after the cat, and the cat ran away.",
    "我爱你。",
    "猫坐在垫子上。",
    "狗追着猫跑，猫跑开了。",
)


def tiny(name: str = "tiny", seed: int = 0, **changes: object) -> LoadedModel:
    """A random model of 2 layers and 2 heads; `changes` are fields of its config."""
    tokenizer = Tokenizer.train(CORPUS * 2, vocab_size=120)
    values = {"d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 32, "n_ctx": 160} | changes
    config = ModelConfig(vocab_size=tokenizer.vocab_size, **values)  # type: ignore[arg-type]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build_model(config).eval().requires_grad_(False)
    return LoadedModel(name, model, tokenizer, config, card="")


@pytest.fixture(scope="session")
def translator() -> LoadedModel:
    return tiny()


@pytest.fixture(scope="session")
def writer() -> LoadedModel:
    return tiny("writer", family="decoder-only", norm_placement="pre", final_norm=True)
