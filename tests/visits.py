"""The real app over small seeded checkpoints, through AppTest, as a visitor uses it.

The fixtures of `explorer/conftest.py` import it once a test asks for them: that takes two seconds.
"""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import plotly.graph_objects as go
import plotly.io as pio
import pytest
import torch
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from tiny import SIZES
from torch import nn

from explorer import library
from explorer.figures import ready
from explorer.library import LoadedModel
from explorer.text import EARLIER
from explorer.ui import running
from models.config import ModelConfig
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
CORPUS = tuple(sentence for pair in PAIRS for sentence in pair)


def save_small(folder: Path, **changes: object) -> None:
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


class Checked(ready.ReadyFigure):
    """The app sends figures unchecked: here Plotly checks them, and must send the same."""

    def to_dict(self) -> dict[str, Any]:
        made = super().to_dict()
        for list_of in ("annotations", "shapes"):  # Plotly leaves out empty ones
            if made["layout"].get(list_of) == []:
                del made["layout"][list_of]
        checked = go.Figure(**self.__dict__["_figure"]).to_dict()
        sent, expected = (pio.to_json(each, validate=False) for each in (made, checked))
        assert json.loads(sent) == json.loads(expected)
        return made


def run_without_exception(
    at: AppTest, *given: Any, run: Any = AppTest._run, **options: Any
) -> AppTest:
    """No page shows an exception in any test, whatever else the test asks of it."""
    run(at, *given, **options)
    assert not at.exception, (dict(at.query_params), at.exception[0].message)
    return at


KEPT: dict[object, LoadedModel] = {}
"""The models that visits opened, by their files."""


def open_once(
    name: str | Path, folder: Path = library.CHECKPOINTS, really: Any = library.open_model
) -> LoadedModel:
    """A visit opens its model anew only where its files are new: a seventh of the tests' time."""
    here = folder / name
    # A name may be longer than any file's, at which pathlib raises.
    files = sorted(here.rglob("*")) if os.path.isdir(here) else []
    if not files:  # a snapshot of a training, or nothing at all
        return really(name, folder)
    made = tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    key = name, folder, made, os.environ.get(DEVICE_VARIABLE), os.environ.get(DTYPE_VARIABLE)
    if key not in KEPT:
        KEPT[key] = really(name, folder)
    return KEPT[key]


def prepare(patch: pytest.MonkeyPatch) -> None:
    """Small changes to what a visit is made of, for the time of one test."""
    # AppTest would look for components in the metadata of all installed packages, which takes a
    # tenth of a second at each visit. Headlight's own are registered by its code.
    patch.setattr(manifest_scanner, "scan_component_manifests", lambda: [])
    patch.setattr(AppTest, "_run", run_without_exception)
    patch.setattr(ready, "ReadyFigure", Checked)
    patch.setattr(library, "open_model", open_once)
    # However busy the machine is, a page waits for its decoding instead of asking again.
    patch.setattr(running, "PATIENCE", 60)


def open_page(name: str, **params: str) -> AppTest:
    """The page behind a link, already drawn."""
    name, _, implied = EARLIER.get(name, name).partition("?")
    params = dict(parse_qsl(implied)) | params
    at = AppTest.from_function(draw_page, default_timeout=60, args=(name,))
    for key, value in params.items():
        at.query_params[key] = value
    at.session_state[f"{name}.take"] = True  # the downloads are open
    return at.run()
