"""Tiny seeded models with a tokenizer trained on a few sentences, and the app over small ones."""

from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import SIZES

from explorer import library
from explorer.engine import caching
from explorer.engine.caching import Store, budget
from explorer.library import LoadedModel
from explorer.runs.trace import Trace, trace
from models.config import ModelConfig
from models.fast import lay_out_for_decoding
from models.foreign.finding import VARIABLE
from models.training.vocabulary import train_tokenizer
from models.transformer import build_model

SHIPPED = library.CHECKPOINTS
CORPUS = (
    "I love you.",
    "The cat sat on the mat.",
    "A dog ran after the cat, and the cat ran away.",
    "我爱你。",
    "猫坐在垫子上。",
    "狗追着猫跑，猫跑开了。",
)
WRITER: dict[str, Any] = {"family": "decoder-only", "norm_placement": "pre", "final_norm": True}
READER = {"family": "encoder-only"}
DESIGNS: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": {"norm_placement": "pre", "final_norm": True, "positions": "learned"},
    "sublayer": {"norm_placement": "sublayer", "final_norm": True, "norm": "rmsnorm"},
    "post-rms": {"norm": "rmsnorm", "positions": "t5", "n_kv_heads": 2},
    "llama": WRITER | {"norm": "rmsnorm", "positions": "rotary", "n_kv_heads": 2, "bias": False},
    "qwen": WRITER | {"positions": "rotary", "qk_norm": True, "rotary_dim": 4},
    "olmo": WRITER
    | {"norm_placement": "sublayer", "norm": "rmsnorm", "positions": "rotary", "qk_norm": True}
    | {"qk_norm_joint": True, "n_kv_heads": 2, "still_layers": (1,)},
    "alibi": WRITER | {"positions": "alibi", "n_kv_heads": 1, "unembed_bias": True},
    "gemma": WRITER
    | {"norm": "rmsnorm", "positions": "rotary", "out_norms": True, "near_layers": (0,)}
    | {"near_rope_base": 100.0, "window": 3, "score_divisor": 3.0},
    "capped": WRITER | {"score_cap": 1.0, "logit_cap": 2.0, "first_norm": False},
    "saturated": WRITER | {"score_cap": 0.01},  # no score tells what was capped
    "parallel": WRITER | {"parallel": True},
    "bert": READER | {"head_net": True, "embed_norm": True, "ffn": "gelu", "unembed_bias": True},
    "headless": READER | {"lm_head": False, "positions": "t5"},
}
"""Tiny models of every design, by what differs from a translator of the paper."""


def _tiny(name: str = "tiny", seed: int = 2, **changes: Any) -> LoadedModel:
    tokenizer = train_tokenizer(CORPUS * 2, vocab_size=120)
    sizes = SIZES | {"n_ctx": 160, "tie_embeddings": False}  # a tied random model repeats its input
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
def save_small() -> Callable[..., None]:
    """save_small(folder, field=value, ...): a small model, for a shelf of a test's own."""
    from visits import save_small

    return save_small


@pytest.fixture(scope="session")
def shelf(tmp_path_factory, save_small) -> Path:
    """A folder with a translator, which the app opens with, a writer, and two that read both ways:
    one that fills in masked words, and one without a head that says any.
    """
    folder = tmp_path_factory.mktemp("checkpoints")
    save_small(folder / "en-zh")
    save_small(folder / "writer", **WRITER)
    save_small(folder / "reader", family="encoder-only", positions="alibi")
    save_small(folder / "headless", family="encoder-only", positions="t5", lm_head=False)
    return folder


@pytest.fixture(scope="session")
def own(tmp_path_factory) -> Path:
    """A folder with models of other libraries, each at my-<kind>."""
    from foreign import OWN, Golden

    folder = tmp_path_factory.mktemp("own")
    for kind in (*OWN, "marian-headless"):
        Golden.load(kind).write(folder / f"my-{kind}", "own")
    return folder


@pytest.fixture(scope="session")
def common_store() -> Store:
    return Store(budget())


@pytest.fixture
def store(request, common_store) -> Store:
    """What visits computed, kept for the next tests, which ask for a third of it again.

    A test that replaces something (`monkeypatch`) has a store of its own.
    """
    return (
        Store(budget()) if "monkeypatch" in signature(request.function).parameters else common_store
    )


@pytest.fixture
def app(shelf, store, monkeypatch) -> None:
    """The app with the small models. `open_page` implies it."""
    from visits import prepare

    prepare(monkeypatch)
    monkeypatch.setattr(library, "CHECKPOINTS", shelf)
    monkeypatch.setattr(caching, "STORE", store)


@pytest.fixture
def shipped(app, monkeypatch) -> None:
    """The models that Headlight ships instead of the small ones."""
    monkeypatch.setattr(library, "CHECKPOINTS", SHIPPED)


@pytest.fixture
def add_own(own, monkeypatch) -> None:
    """The models of other libraries beside the small ones."""
    monkeypatch.setenv(VARIABLE, str(own))


@pytest.fixture
def open_page(app) -> Callable[..., Any]:
    """open_page("heads", lang="zh", text="…"): the page behind that link, already drawn."""
    from visits import open_page

    return open_page
