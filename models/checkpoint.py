"""A trained model as a folder: config.json, model.safetensors, tokenizer.json, CARD.md.

Only safetensors are read, never pickles: a checkpoint from a stranger can be wrong, but it cannot
run code.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from models.config import FORMER_MARKS, ModelConfig
from models.tokenizer import Tokenizer
from models.transformer import Model, build_model

CONFIG, WEIGHTS, TOKENIZER, CARD = "config.json", "model.safetensors", "tokenizer.json", "CARD.md"

MOST_COMPUTED = 2**28
"""Bytes of the table of sines up to n_ctx, which no weight in the file vouches for."""


class CheckpointError(ValueError):
    """A checkpoint folder cannot be used; the message says which file and why."""


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model in eval mode without gradients, its tokenizer and config."""

    model: Model
    tokenizer: Tokenizer
    config: ModelConfig
    folder: Path


def load_checkpoint(folder: Path, weights: str = WEIGHTS) -> Checkpoint:
    """Read a checkpoint folder, checking every tensor's name and shape against the config.

    `weights` is the file in it that is read: a training also keeps those of earlier steps.
    Raises CheckpointError when a file is missing, is not what it should be, or does not fit.
    """
    folder = Path(folder)

    def broken(why: str) -> CheckpointError:
        return CheckpointError(f"{folder.name}: {why}")

    for name in (CONFIG, WEIGHTS, TOKENIZER):
        if not (folder / name).is_file():
            raise broken(f"{name} is missing")
    try:
        text = (folder / CONFIG).read_text(encoding="utf-8")
        config = ModelConfig.from_json(text)
    except (ValueError, TypeError) as error:
        raise broken(f"{CONFIG}: {error}") from error
    try:
        tokenizer = Tokenizer.load(folder / TOKENIZER)
    except ValueError as error:
        raise broken(str(error)) from error
    n_tokens, marks = tokenizer.vocab_size, tokenizer.marks
    if n_tokens > config.vocab_size:
        raise broken(f"the tokenizer has {n_tokens} tokens, the model only {config.vocab_size}")
    ids, former = (marks.pad, marks.start, marks.end), json.loads(text)
    named = tuple(former.get(name, mark) for name, mark in zip(FORMER_MARKS, ids, strict=True))
    if named != ids:
        what = "the tokenizer's ids of pad, start and end are"
        raise broken(f"{what} {ids}, the config's {named}")
    check_sizes(config, folder / weights)
    model = build_model(config)
    model.marks = marks
    load_weights(model, folder / weights)
    return Checkpoint(model.eval().requires_grad_(False), tokenizer, config, folder)


def check_sizes(config: ModelConfig, path: Path) -> None:
    """Hold a config against the tensors of a safetensors file before memory is taken for it.

    A few digits of a config can ask for more than any machine has. Raises CheckpointError.
    """
    with _opened(path) as file:
        layers, n_tensors = config.n_layers + (config.n_encoder_layers or 0), len(file.keys())
        if layers > n_tensors:
            asked = f"the config asks for {layers} layers"
            raise CheckpointError(f"{path.name} has {n_tensors} tensors, {asked}")
        with torch.device("meta"):
            model = build_model(config)
        _compare(dict(model.named_parameters()), file, path)
    if config.positions == "sinusoidal" and 4 * config.n_ctx * config.d_model > MOST_COMPUTED:
        what = f"its positions need more than {MOST_COMPUTED:,} bytes"
        raise CheckpointError(f"{CONFIG}: n_ctx is {config.n_ctx}: {what}")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A safetensors file. Raises CheckpointError where it is none."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path.name} is not a readable safetensors file: {error}") from error


def _compare(parameters: Mapping[str, Tensor], file: Any, path: Path) -> None:
    stored = set(file.keys())
    missing = sorted(parameters.keys() - stored)
    unknown = sorted(stored - parameters.keys())
    if missing or unknown:
        what = f"lacks {missing[0]}" if missing else f"has an unknown {unknown[0]}"
        count = f"{len(missing)} missing, {len(unknown)} unknown"
        raise CheckpointError(f"{path.name} {what} ({count})")
    for name, parameter in parameters.items():
        shape, asked = tuple(file.get_slice(name).get_shape()), tuple(parameter.shape)
        if shape != asked:
            what = f"{name} is {shape}, the config asks for {asked}"
            raise CheckpointError(f"{path.name}: {what}")


def load_weights(model: Model, path: Path) -> None:
    """Copy the tensors of a safetensors file into `model`.

    Raises CheckpointError for a missing, superfluous, misshapen or non-finite tensor.
    """
    parameters = dict(model.named_parameters())
    with _opened(path) as file:
        _compare(parameters, file, path)
        for name, parameter in parameters.items():
            tensor = file.get_tensor(name)
            if not tensor.isfinite().all():
                raise CheckpointError(f"{path.name}: {name} holds NaN or infinity")
            with torch.no_grad():
                parameter.copy_(tensor)
