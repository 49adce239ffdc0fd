"""Models as the public functions take them, and refusals in words."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from explorer.library import LoadedModel, list_models
from explorer.library import open_model as open_listed
from explorer.problems import InputProblem
from explorer.runs.edits import parse_edits
from explorer.runs.trace import Trace
from explorer.runs.trace import trace as run_trace
from explorer.text import LANGUAGES, problem
from models.foreign.finding import is_gguf

P = ParamSpec("P")
R = TypeVar("R")


def worded(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with what it refuses of a user's text or model as a ValueError in words."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        lang = str(kwargs.get("lang", "en"))
        if lang not in LANGUAGES:
            raise ValueError(f"lang is {lang!r}, expected one of {', '.join(LANGUAGES)}")
        try:
            return function(*args, **kwargs)
        except InputProblem as error:
            raise ValueError(problem(error.key, error.values, lang=lang)) from None

    return call


@worded
def open_model(model: str | Path) -> LoadedModel:
    """A model, ready to be run: by the name of a shipped or listed one, or by its folder.

    A folder holds `config.json`, `model.safetensors` and `tokenizer.json`, of this project or of a
    family of another library that is known here; nothing is downloaded and nothing is unpickled.
    The result has `.model` (a torch module), `.tokenizer`, `.config` and `.name`, and may be given
    to every function that takes a model. Raises ValueError for a model that is not there or cannot
    be read.
    """
    return opened(model)


@worded
def trace(
    model: str | Path | LoadedModel,
    text: str,
    target: str | None = None,
    *,
    edits: str = "",
    pads: int = 0,
) -> Trace:
    """Everything that one run of a model does with one text, as read-only numpy arrays.

    A translator first translates greedily, or reads `target` instead; a model of one text reads
    `target` after the text. `edits` are changes as in the app's links ("causal-off"), `pads` the
    number of padding tokens to append. The Trace has `pattern(site)` and `mask(site)` [head, query,
    key], `logits` [pos, vocab], and `activations` by hook name, without a batch axis; its `sites`
    name the attention sublayers. `ablate` and `attribute` take one.
    Raises ValueError for a text, a model or edits that cannot be used.
    """
    return run_trace(opened(model), text, target, parse_edits(edits), pads)


def opened(model: str | Path | LoadedModel) -> LoadedModel:
    """As `open_model`; one that is open already is returned. Raises InputProblem."""
    if isinstance(model, LoadedModel):
        return model
    if isinstance(model, str) and model.partition("@")[0] in list_models():
        return open_listed(model)
    is_path = isinstance(model, Path) or os.path.isdir(model) or is_gguf(Path(model))
    return open_listed(Path(model) if is_path else str(model))
