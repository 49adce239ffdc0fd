"""The real app over small seeded checkpoints: every page through AppTest, as a visitor uses it."""

import json
import os
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import plotly.graph_objects as go
import plotly.io as pio
import pytest
import torch
from foreign import OWN, Golden
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from tiny import SIZES
from torch import nn

from explorer import library
from explorer.engine import caching
from explorer.engine.caching import Store, budget
from explorer.figures import ready
from explorer.library import LoadedModel
from explorer.text import EARLIER
from explorer.ui import running
from models.config import ModelConfig
from models.foreign.finding import VARIABLE
from models.foreign.placing import DEVICE_VARIABLE, DTYPE_VARIABLE
from models.tokenizer import SPECIAL_TOKENS
from models.training.data import Batch, Example, collate
from models.training.saving import save_checkpoint
from models.training.vocabulary import train_tokenizer
from models.transformer import Model, build_model
from tests.fuzz.pages import draw_page

PAIRS = (
    ("I like you because you are kind.", "我喜欢你，因为你很善良。"),
    ("She reads a book every morning.", "她每天早上看书。"),
    ("We went to the park yesterday.", "我们昨天去了公园。"),
)
SHIPPED = library.CHECKPOINTS
CORPUS = tuple(sentence for pair in PAIRS for sentence in pair)


def _save(folder: Path, **changes: object) -> None:
    """A small model that has half learned three pairs: unsure enough for every edit to show.

    With `apart=True`, its source has a vocabulary of its own.
    """
    marks = (*SPECIAL_TOKENS, "<mask>") if changes.get("family") == "encoder-only" else None
    tokenizer = train_tokenizer(CORPUS * 2, vocab_size=150, special_tokens=marks or SPECIAL_TOKENS)
    if changes.pop("apart", False):
        tokenizer.reading(train_tokenizer([each for each, _ in PAIRS] * 2, vocab_size=90))
        changes["src_vocab_size"] = tokenizer.of("src").vocab_size
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, n_ctx=64, **({"dropout": 0.0} | SIZES | changes)
    )
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = build_model(config)
        if model.config.lm_head:
            read = tokenizer.of(model.reads[0])
            pairs = [(tuple(read.encode(src)), tuple(tokenizer.encode(tgt))) for src, tgt in PAIRS]
            text = 0 if model.config.fills else 1
            _learn(model, collate([Example(pair[0], pair[text]) for pair in pairs], model))
    save_checkpoint(folder, model, tokenizer, card="Three sentences, half learned.")


def _learn(model: Model, batch: Batch, steps: int = 15, rate: float = 5e-3) -> None:
    """Adam on the sum of the rows' mean losses; making torch's own imports its compiler (1 s)."""
    parameters = list(model.parameters())
    first, second = ([torch.zeros_like(each) for each in parameters] for _ in range(2))
    for step in range(1, steps + 1):
        losses = nn.functional.cross_entropy(
            model.read(batch.rows).transpose(1, 2), batch.labels, reduction="none"
        )
        of_rows = (losses * batch.loss_mask).sum(1) / batch.loss_mask.sum(1)
        gradients = torch.autograd.grad(of_rows.sum(), parameters)
        with torch.no_grad():
            for parameter, gradient, mean, square in zip(
                parameters, gradients, first, second, strict=True
            ):
                mean.lerp_(gradient, 0.1)
                square.lerp_(gradient**2, 0.001)
                scale = (square / (1 - 0.999**step)).sqrt() + 1e-8
                parameter -= rate * mean / (1 - 0.9**step) / scale


@pytest.fixture(scope="session")
def shelf(tmp_path_factory) -> Path:
    """A folder with a translator, which the app opens with, a writer, and two that read both ways:
    one that fills in masked words, and one without a head that says any.
    """
    folder = tmp_path_factory.mktemp("checkpoints")
    _save(folder / "en-zh")
    _save(folder / "writer", family="decoder-only", norm_placement="pre", final_norm=True)
    _save(folder / "reader", family="encoder-only", positions="alibi")
    _save(folder / "headless", family="encoder-only", positions="t5", lm_head=False)
    return folder


@pytest.fixture(scope="session")
def save_small() -> Callable[..., None]:
    """save_small(folder, field=value, ...): one more small model, for a shelf of a test's own."""
    return _save


@pytest.fixture(scope="session")
def own(tmp_path_factory) -> Path:
    """A folder with models of other libraries, each at my-<kind>."""
    folder = tmp_path_factory.mktemp("own")
    for kind in (*OWN, "marian-headless"):
        Golden.load(kind).write(folder / f"my-{kind}", "own")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _scan_no_packages() -> Iterator[None]:
    """For every visit, AppTest would look for components in the metadata of all installed packages,
    which takes a tenth of a second. Headlight's own are registered by its code.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", lambda: [])
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_exceptions() -> Iterator[None]:
    """No page shows an exception in any test, whatever else the test asks of it."""
    run = AppTest._run

    def checked(at: AppTest, *given: Any, **options: Any) -> AppTest:
        run(at, *given, **options)
        assert not at.exception, (dict(at.query_params), at.exception[0].message)
        return at

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AppTest, "_run", checked)
        yield


@pytest.fixture(scope="session", autouse=True)
def _check_figures() -> Iterator[None]:
    """The app sends figures unchecked: here Plotly checks them, and must send the same."""

    class Checked(ready.ReadyFigure):
        def to_dict(self) -> dict[str, Any]:
            made = super().to_dict()
            for list_of in ("annotations", "shapes"):  # Plotly leaves out empty ones
                if made["layout"].get(list_of) == []:
                    del made["layout"][list_of]
            checked = go.Figure(**self.__dict__["_figure"]).to_dict()
            sent, expected = (pio.to_json(each, validate=False) for each in (made, checked))
            assert json.loads(sent) == json.loads(expected)
            return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ready, "ReadyFigure", Checked)
        yield


@pytest.fixture(scope="session")
def common_store() -> Store:
    return Store(budget())


@pytest.fixture
def store(request, common_store) -> Store:
    """What visits computed, kept for those of the next tests: a third of it is asked for again.

    A test that replaces something (`monkeypatch`) has a store of its own.
    """
    return (
        Store(budget()) if "monkeypatch" in signature(request.function).parameters else common_store
    )


@pytest.fixture(autouse=True)
def _use_shelf(shelf, store, monkeypatch) -> None:
    monkeypatch.setattr(library, "CHECKPOINTS", shelf)
    monkeypatch.setattr(caching, "STORE", store)
    # However busy the machine is, a page waits for its decoding instead of asking again.
    monkeypatch.setattr(running, "PATIENCE", 60)


@pytest.fixture
def shipped(_use_shelf, monkeypatch) -> None:
    """The models that Headlight ships instead of the small ones."""
    monkeypatch.setattr(library, "CHECKPOINTS", SHIPPED)


@pytest.fixture
def add_own(own, monkeypatch) -> None:
    """The models of other libraries beside the small ones."""
    monkeypatch.setenv(VARIABLE, str(own))


@pytest.fixture(scope="session")
def kept_models() -> dict[object, LoadedModel]:
    """The models that visits opened, by their files."""
    return {}


@pytest.fixture(autouse=True)
def _open_once(kept_models, monkeypatch) -> None:
    """A visit opens its model anew only where its files are new: a seventh of the tests' time."""
    really = library.open_model

    def open_model(name: str | Path, folder: Path = library.CHECKPOINTS) -> LoadedModel:
        here = folder / name
        # A name may be longer than any file's, at which pathlib raises.
        files = sorted(here.rglob("*")) if os.path.isdir(here) else []
        if not files:  # a snapshot of a training, or nothing at all
            return really(name, folder)
        made = tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
        key = name, folder, made, os.environ.get(DEVICE_VARIABLE), os.environ.get(DTYPE_VARIABLE)
        if key not in kept_models:
            kept_models[key] = really(name, folder)
        return kept_models[key]

    monkeypatch.setattr(library, "open_model", open_model)


@pytest.fixture
def open_page() -> Callable[..., AppTest]:
    """open_page("heads", lang="zh", text="…"): the page behind that link, already drawn."""

    def opened(name: str, **params: str) -> AppTest:
        name, _, implied = EARLIER.get(name, name).partition("?")
        params = dict(parse_qsl(implied)) | params
        at = AppTest.from_function(draw_page, default_timeout=60, args=(name,))
        for key, value in params.items():
            at.query_params[key] = value
        at.session_state[f"{name}.take"] = True  # the downloads are open
        return at.run()

    return opened
