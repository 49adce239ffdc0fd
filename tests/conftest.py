"""What all tests share: one torch thread, and tiny models whose sizes never coincide.

Batch, lengths, heads and widths are pairwise different everywhere, since axes that were mixed up
go unnoticed while two of them are equal; norm weights and biases are scattered, since many
mistakes vanish while weights are 1 and biases 0.
"""

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import Tensor, nn
from typecheck import CALLS, begin, check_shapes

gc.disable()  # until all is imported and collected, of which nothing goes away
check_shapes()  # before anything that it checks is imported

from models.config import ModelConfig  # noqa: E402
from models.hooks import Record, visiting  # noqa: E402
from models.rows import Rows  # noqa: E402
from models.transformer import Model, build_model  # noqa: E402

torch.set_num_threads(1)
settings.register_profile(
    "headlight",
    deadline=None,
    derandomize=True,  # the same examples in every run: a red test is red for everybody
    max_examples=25,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("headlight")
BATCH, N_TGT, N_SRC = 3, 5, 7


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-shapes", action="store_true", help="check the shapes of every call")
    parser.addoption("--fuzz", type=float, default=0, help="seconds of further random input")


@pytest.fixture(autouse=True)
def _begin(request) -> None:
    """Each test begins with the same random numbers, and each file with shapes to check.

    `torch.manual_seed` would also write down the whole stack for each kind of GPU (1 ms).
    """
    torch.default_generator.manual_seed(0)
    begin(str(request.path), sys.maxsize if request.config.getoption("all_shapes") else CALLS)


def _tiny_config(**changes: Any) -> ModelConfig:
    tiny: dict[str, Any] = {
        "vocab_size": 23,
        "d_model": 24,
        "n_layers": 2,
        "n_encoder_layers": 3,
        "n_heads": 4,
        "d_ff": 20,
        "n_ctx": 17,
        "dropout": 0.0,
    }
    return ModelConfig(**(tiny | changes))


def _scatter(module: nn.Module) -> nn.Module:
    """Give every vector of weights (norm weights, all biases) values that are all different."""
    for parameter in module.parameters():
        if parameter.ndim == 1:
            parameter.data.add_(0.5 * torch.randn(parameter.shape))
    return module


def _tiny_model(dtype: torch.dtype = torch.float64, **changes: Any) -> Model:
    model = build_model(_tiny_config(**changes))
    _scatter(model)
    return model.to(dtype).eval()


def _random_tokens(batch: int, n: int, vocab_size: int = 23) -> Tensor:
    return torch.randint(4, vocab_size, (batch, n))


def _run(model: Model, src: Tensor, tgt: Tensor, **valid: Tensor | None) -> Tensor:
    """Logits of any family: the source is ignored by one that has none."""
    if not model.config.reads_source:
        return model.read(Rows(tgt, valid.get("tgt_valid")))
    return model.read(Rows(tgt, valid.get("tgt_valid"), src, valid.get("src_valid")))


def _record(forward: Callable[[], Tensor], wants: Callable[[str], bool]) -> dict[str, Tensor]:
    record = Record(wants)
    with visiting(record):
        forward()
    return record.activations


@pytest.fixture(scope="session")
def tiny_config() -> Callable[..., ModelConfig]:
    """tiny_config(field=value, ...): a small config whose sizes are pairwise different."""
    return _tiny_config


@pytest.fixture(scope="session")
def tiny_model() -> Callable[..., Model]:
    """tiny_model(dtype=torch.float64, field=value, ...): that model, scattered, in eval mode."""
    return _tiny_model


@pytest.fixture(scope="session")
def scatter() -> Callable[[nn.Module], nn.Module]:
    """scatter(module): make all its norm weights and biases different; returns the module."""
    return _scatter


@pytest.fixture(scope="session")
def random_tokens() -> Callable[..., Tensor]:
    """random_tokens(batch, n): token ids without the special ones."""
    return _random_tokens


@pytest.fixture(scope="session")
def run_model() -> Callable[..., Tensor]:
    """run_model(model, src, tgt, src_valid=..., tgt_valid=...): logits, for any family."""
    return _run


@pytest.fixture(scope="session")
def record() -> Callable[..., dict[str, Tensor]]:
    """record(forward, wants): call `forward` and return what the wanted hook points saw."""
    return _record


def pytest_collection_finish() -> None:
    """Keep what has been imported out of garbage collections, each of which walked all of torch."""
    gc.freeze()
    gc.set_threshold(10_000)  # of the usual 700: a page makes more, and holds them to its end
    gc.enable()
