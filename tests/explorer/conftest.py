"""Tiny seeded models with a tokenizer trained on a few sentences, for the tests of the explorer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from explorer.library import CHECKPOINTS, LoadedModel, list_models, open_model
from explorer.runs.trace import Trace, trace
from models.config import ModelConfig
from models.fast import lay_out_for_decoding
from models.training.vocabulary import train_tokenizer
from models.transformer import build_model

CORPUS = (
    "I love you.",
    "The cat sat on the mat.",
    "A dog ran after the cat, and the cat ran away.",
    "我爱你。",
    "猫坐在垫子上。",
    "狗追着猫跑，猫跑开了。",
)


def _tiny(name: str = "tiny", seed: int = 2, **changes: Any) -> LoadedModel:
    tokenizer = train_tokenizer(CORPUS * 2, vocab_size=120)
    sizes: dict[str, Any] = {
        "d_model": 24,
        "n_layers": 2,
        "n_encoder_layers": 3,
        "n_heads": 4,
        "d_ff": 20,
        "n_ctx": 160,
        "tie_embeddings": False,  # a tied random model repeats its input
    }
    config = ModelConfig(vocab_size=tokenizer.vocab_size, **(sizes | changes))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build_model(config).eval().requires_grad_(False)
        for parameter in model.parameters():
            # Sharper than a fresh model, and no bias 0: what is wrong then shows in the output.
            parameter.copy_(parameter * 1.3 + 0.05 * torch.randn(parameter.shape))
    lay_out_for_decoding(model)  # as `open_model` does
    return LoadedModel(name, model, tokenizer, config, Path(name))


@pytest.fixture(scope="session")
def tiny() -> Callable[..., LoadedModel]:
    """tiny(name, seed, field=value, ...): a random model whose sizes are pairwise different."""
    return _tiny


@pytest.fixture(scope="session")
def translator() -> LoadedModel:
    return _tiny()


@pytest.fixture(scope="session")
def writer() -> LoadedModel:
    return _tiny("writer", family="decoder-only", norm_placement="pre", final_norm=True)


@pytest.fixture
def traced(translator: LoadedModel) -> Trace:
    """Source: 3 tokens and the end mark; decoder's row: start and 2 tokens."""
    return trace(translator, "The cat ran", "我爱你猫")


@pytest.fixture(params=["translator", "writer"])
def loaded(request) -> LoadedModel:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def shipped() -> LoadedModel:
    """The model that the app opens with."""
    if "en-zh" not in list_models():
        pytest.skip(f"no en-zh in {Path(*CHECKPOINTS.parts[-2:])}")
    return open_model("en-zh")
