"""The real app over small seeded checkpoints: every page through AppTest, as a visitor uses it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from torch import Tensor, nn

from explorer import library
from explorer.ui import caching, running
from explorer.ui.caching import Store, budget
from models.config import ModelConfig
from models.rows import Rows
from models.tokenizer import SPECIAL_TOKENS, Tokenizer
from models.training.saving import save_checkpoint
from models.training.vocabulary import train_tokenizer
from models.transformer import Model, build_model

PAIRS = (
    ("I like you because you are kind.", "我喜欢你，因为你很善良。"),
    ("She reads a book every morning.", "她每天早上看书。"),
    ("We went to the park yesterday.", "我们昨天去了公园。"),
)
CORPUS = tuple(sentence for pair in PAIRS for sentence in pair)


def _save(folder: Path, **changes: object) -> None:
    """A small model that has half learned three pairs: unsure enough for every edit to show."""
    marks = (*SPECIAL_TOKENS, "<mask>") if changes.get("family") == "encoder-only" else None
    tokenizer = train_tokenizer(CORPUS * 2, vocab_size=150, special_tokens=marks or SPECIAL_TOKENS)
    sizes = {"d_model": 24, "n_layers": 2, "n_encoder_layers": 3, "n_heads": 4, "d_ff": 20}
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        n_ctx=64,
        dropout=0.0,
        **(sizes | changes),  # type: ignore[arg-type]
    )
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = build_model(config)
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
        for _ in range(15 if config.lm_head else 0):
            loss = torch.stack([_loss(model, tokenizer, *pair) for pair in PAIRS]).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    save_checkpoint(folder, model, tokenizer, card="Three sentences, half learned.")


def _loss(model: Model, tokenizer: Tokenizer, source: str, target: str) -> Tensor:
    src = torch.tensor([[*tokenizer.encode(source), tokenizer.marks.end]])
    row = torch.tensor([tokenizer.marks.start, *tokenizer.encode(target), tokenizer.marks.end])
    if model.predicts == "same":
        return nn.functional.cross_entropy(model.read(Rows(src))[0], src[0])
    logits = model.read(Rows(row[None, :-1], None, src if model.config.reads_source else None))
    return nn.functional.cross_entropy(logits[0], row[1:])


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


@pytest.fixture(scope="session", autouse=True)
def _scan_no_packages() -> Iterator[None]:
    """For every visit, AppTest would look for components in the metadata of all installed packages,
    which takes a tenth of a second. Headlight's own are registered by its code.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", lambda: [])
        yield


@pytest.fixture(autouse=True)
def _use_shelf(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "CHECKPOINTS", shelf)
    monkeypatch.setattr(caching, "STORE", Store(budget()))
    # However busy the machine is, a page waits for its decoding instead of asking again.
    monkeypatch.setattr(running, "PATIENCE", 60)


def _page(name: str) -> None:
    from explorer.pages import PAGES
    from explorer.shell import LINKS, show
    from explorer.ui import session

    session.start(LINKS)
    show(next(page for page in PAGES if page.name == name))


@pytest.fixture
def open_page() -> Callable[..., AppTest]:
    """open_page("heads", lang="zh", text="…"): the page behind that link, already drawn."""

    def opened(name: str, **params: str) -> AppTest:
        at = AppTest.from_function(_page, default_timeout=60, args=(name,))
        for key, value in params.items():
            at.query_params[key] = value
        return at.run()

    return opened
