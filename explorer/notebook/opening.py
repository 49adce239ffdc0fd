"""Open models for the public functions, and turn input problems into ValueErrors."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from explorer.library import LoadedModel, list_models, open_model as open_listed
from explorer.problems import InputProblem
from explorer.runs.edits import parse_edits
from explorer.runs.trace import Trace, trace as run_trace
from explorer.text import LANGUAGES, problem
from models.foreign.finding import is_gguf

P = ParamSpec("P")
R = TypeVar("R")


def worded(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: raise each InputProblem as a ValueError with its message in `lang`."""

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
    """Open a model by the name of a shipped or listed one, or by its folder.

    A folder holds `config.json`, `model.safetensors` and `tokenizer.json`, in Headlight's format or
    in that of a supported family of another library. Nothing is downloaded and nothing is
    unpickled. The result has `.model` (a torch module), `.tokenizer`, `.config` and `.name`, and
    every function that takes a model accepts it. Raises ValueError if the model does not exist or
    cannot be read.
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
    """Run a model on one text and record all activations as read-only numpy arrays.

    A translator uses `target` as its translation, by default its own greedy one; a model without an
    encoder reads `target` after the text. `edits` are changes as in the app's links ("causal-off"),
    `pads` is the number of padding tokens to append. The Trace has `pattern(site)` and `mask(site)`
    [head, query, key], `logits` [pos, vocab], and `activations` by hook name, without a batch axis;
    its `sites` name the attention sublayers. Pass it to `ablate` and `attribute`.
    Raises ValueError for a text, model or edits that cannot be used.
    """
    return run_trace(opened(model), text, target, parse_edits(edits), pads)


def opened(model: str | Path | LoadedModel) -> LoadedModel:
    """Like `open_model`, but an opened model is returned as is. Raises InputProblem."""
    if isinstance(model, LoadedModel):
        return model
    if isinstance(model, str) and model.partition("@")[0] in list_models():
        return open_listed(model)
    is_path = isinstance(model, Path) or os.path.isdir(model) or is_gguf(Path(model))
    return open_listed(Path(model) if is_path else str(model))
