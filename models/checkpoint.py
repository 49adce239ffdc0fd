"""A trained model as a folder: config.json, model.safetensors, tokenizer.json, CARD.md.

The source of a translator with two vocabularies has a file of its own, source_tokenizer.json.

Only safetensors are read, never pickles, so an untrusted checkpoint cannot run code.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from models.config import FORMER_MARKS, ModelConfig
from models.fast import Unnumbered, without_numbers
from models.pictures import PictureTokenizer
from models.refusals import Refusal
from models.rows import Stream
from models.tokenizer import Tokenizer
from models.transformer import Model, build_model

CONFIG, WEIGHTS, TOKENIZER, CARD = "config.json", "model.safetensors", "tokenizer.json", "CARD.md"
SOURCE_TOKENIZER = "source_tokenizer.json"

MOST_COMPUTED = 2**28  # bytes of a computed table, whose size no stored tensor confirms


class CheckpointError(Refusal):
    """A checkpoint folder cannot be used; the message names the file and the reason."""


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model (in eval mode, without gradients), its tokenizer and its config.

    `not_shown` names stored tensors that are not used here, such as the heads of other tasks.
    """

    model: Model
    tokenizer: Tokenizer
    config: ModelConfig
    folder: Path
    not_shown: tuple[str, ...] = ()
    asked: Any = None  # its generation settings: `models.foreign.elsewhere.Settings`
    classifier: Any = None  # its classification head: `models.foreign.classes.Classifier`


def load_checkpoint(folder: Path, weights: str = WEIGHTS) -> Checkpoint:
    """Load a checkpoint folder, checking every tensor's name and shape against the config.

    `weights` is the weight file within the folder; a training run also saves those of earlier
    steps. Raises CheckpointError if a file is missing, malformed or inconsistent.
    """
    folder = Path(folder)
    try:
        return _load(folder, weights)
    except Refusal as error:
        raise CheckpointError("within", file=folder.name, reason=error) from error


def _load(folder: Path, weights: str) -> Checkpoint:
    for name in (CONFIG, WEIGHTS, TOKENIZER):
        if not (folder / name).is_file():
            raise CheckpointError("missing_file", file=name)
    try:
        text = (folder / CONFIG).read_text(encoding="utf-8")
        config = ModelConfig.from_json(text)
    except (ValueError, TypeError) as error:
        raise CheckpointError("within", file=CONFIG, reason=error) from error
    tokenizer = load_tokenizer(folder, config)
    marks = tokenizer.marks
    for stream in get_args(Stream):
        n_tokens, size = tokenizer.of(stream).vocab_size, config.n_tokens(stream)
        if n_tokens > size:
            raise CheckpointError("more_tokens", count=n_tokens, size=size)
    ids, former = (marks.pad, marks.start, marks.end), json.loads(text)
    named = tuple(former.get(name, mark) for name, mark in zip(FORMER_MARKS, ids, strict=True))
    if named != ids:
        raise CheckpointError("other_marks", found=str(ids), said=str(named))
    check_sizes(config, folder / weights)
    with Unnumbered():
        model = build_model(config)
    model.marks = marks
    load_weights(model, folder / weights)
    return Checkpoint(model.eval().requires_grad_(False), tokenizer, config, folder)


def load_tokenizer(folder: Path, config: ModelConfig) -> Tokenizer:
    """The tokenizer of a folder, with its source's own. Raises CheckpointError or ValueError."""
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    if config.src_vocab_size:
        if not (folder / SOURCE_TOKENIZER).is_file():
            raise CheckpointError("missing_file", file=SOURCE_TOKENIZER)
        tokenizer.reading(Tokenizer.load(folder / SOURCE_TOKENIZER))
    return PictureTokenizer(tokenizer, config.picture) if config.picture else tokenizer


def check_sizes(config: ModelConfig, path: Path) -> None:
    """Check a config's sizes against the weight file before any memory is allocated.

    Raises CheckpointError if they do not match.
    """
    with _opened(path) as file:
        layers, n_tensors = config.n_layers + (config.n_encoder_layers or 0), len(file.keys())
        if layers > n_tensors:
            raise CheckpointError("too_few_tensors", file=path.name, count=n_tensors, layers=layers)
        with without_numbers():
            model = build_model(config)
        _compare(dict(model.named_parameters()), file, path)
    computed = config.position_type.acts == "adds" and not config.position_type.bounded
    if computed and 4 * config.n_ctx * config.width > MOST_COMPUTED:
        limit = f"{MOST_COMPUTED:,}"
        raise CheckpointError("too_many_positions", file=CONFIG, n_ctx=config.n_ctx, limit=limit)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a safetensors file. Raises CheckpointError if it is not one."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise CheckpointError("no_safetensors", file=path.name, reason=error) from error


def _compare(parameters: Mapping[str, Tensor], file: Any, path: Path) -> None:
    stored = set(file.keys())
    missing, unknown = sorted(parameters.keys() - stored), sorted(stored - parameters.keys())
    if missing or unknown:
        key, tensor = "lacks_some" if missing else "has_unknown", (missing or unknown)[0]
        n, m = len(missing), len(unknown)
        raise CheckpointError(key, file=path.name, tensor=tensor, missing=n, unknown=m)
    for name, parameter in parameters.items():
        shape, asked = str(tuple(file.get_slice(name).get_shape())), str(tuple(parameter.shape))
        if shape != asked:
            raise CheckpointError("shape", file=path.name, tensor=name, shape=shape, asked=asked)


def load_weights(model: Model, path: Path) -> None:
    """Copy the tensors of a safetensors file into `model`.

    Raises CheckpointError if a tensor is missing, unknown, of the wrong shape or not finite.
    """
    parameters = dict(model.named_parameters())
    with _opened(path) as file:
        _compare(parameters, file, path)
        for name, parameter in parameters.items():
            tensor = file.get_tensor(name)
            if not tensor.isfinite().all():
                raise CheckpointError("not_finite", file=path.name, tensor=name)
            with torch.no_grad():
                parameter.copy_(tensor)
