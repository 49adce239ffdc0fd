"""A trained model as a folder: config.json, model.safetensors, tokenizer.json, CARD.md.

Only safetensors are read, never pickles: a checkpoint from a stranger can be wrong, but it cannot
run code.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from models.config import FORMER_MARKS, ModelConfig
from models.tokenizer import Tokenizer
from models.transformer import Model, build_model

CONFIG, WEIGHTS, TOKENIZER, CARD = "config.json", "model.safetensors", "tokenizer.json", "CARD.md"
SNAPSHOTS = "moments"  # the folder of snapshots: the same model earlier in its training


class CheckpointError(ValueError):
    """A checkpoint folder cannot be used; the message says which file and why."""


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model in eval mode without gradients, its tokenizer, config and card."""

    model: Model
    tokenizer: Tokenizer
    config: ModelConfig
    card: str
    folder: Path


def snapshot_name(step: int) -> str:
    """The file of the weights after `step` steps, in the folder SNAPSHOTS."""
    return f"step-{step:06d}.safetensors"


def snapshots(folder: Path) -> tuple[int, ...]:
    """The steps of a checkpoint's training whose weights were kept, rising."""
    names = (path.stem for path in (folder / SNAPSHOTS).glob("step-*.safetensors"))
    return tuple(sorted(int(n.removeprefix("step-")) for n in names if n[5:].isdecimal()))


def load_checkpoint(folder: Path, step: int | None = None) -> Checkpoint:
    """Read a checkpoint folder, checking every tensor's name and shape against the config.

    `step` is one of `snapshots(folder)`: the model as it was after that many steps.
    Raises CheckpointError when a file is missing, is not what it should be, or does not fit.
    """
    folder = Path(folder)
    for name in (CONFIG, WEIGHTS, TOKENIZER):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder.name}: {name} is missing")
    try:
        text = (folder / CONFIG).read_text(encoding="utf-8")
        config = ModelConfig.from_json(text)
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{folder.name}: {CONFIG}: {error}") from error
    try:
        tokenizer = Tokenizer.load(folder / TOKENIZER)
    except ValueError as error:
        raise CheckpointError(f"{folder.name}: {error}") from error
    if tokenizer.vocab_size > config.vocab_size:
        raise CheckpointError(
            f"{folder.name}: the tokenizer has {tokenizer.vocab_size} tokens, the model only "
            f"{config.vocab_size}"
        )
    former = json.loads(text)
    marks = (tokenizer.marks.pad, tokenizer.marks.start, tokenizer.marks.end)
    named = tuple(former.get(name, mark) for name, mark in zip(FORMER_MARKS, marks, strict=True))
    if named != marks:
        raise CheckpointError(
            f"{folder.name}: the tokenizer's ids of pad, start and end are {marks}, the config's "
            f"{named}"
        )
    model = build_model(config)
    model.marks = tokenizer.marks
    load_weights(
        model, folder / (WEIGHTS if step is None else f"{SNAPSHOTS}/{snapshot_name(step)}")
    )
    model.eval().requires_grad_(False)
    card = folder / CARD
    return Checkpoint(
        model,
        tokenizer,
        config,
        card.read_text(encoding="utf-8") if card.is_file() else "",
        folder,
    )


def load_weights(model: Model, path: Path) -> None:
    """Copy the tensors of a safetensors file into `model`.

    Raises CheckpointError for a missing, superfluous, misshapen or non-finite tensor.
    """
    parameters = dict(model.named_parameters())
    try:
        with safe_open(path, framework="pt") as file:
            stored = set(file.keys())
            missing = sorted(parameters.keys() - stored)
            superfluous = sorted(stored - parameters.keys())
            if missing or superfluous:
                what = f"lacks {missing[0]}" if missing else f"has an unknown {superfluous[0]}"
                raise CheckpointError(
                    f"{path.name} {what} ({len(missing)} missing, {len(superfluous)} unknown)"
                )
            for name, parameter in parameters.items():
                shape = tuple(file.get_slice(name).get_shape())
                if shape != tuple(parameter.shape):
                    raise CheckpointError(
                        f"{path.name}: {name} is {shape}, the config asks for "
                        f"{tuple(parameter.shape)}"
                    )
                tensor = file.get_tensor(name)
                if not tensor.isfinite().all():
                    raise CheckpointError(f"{path.name}: {name} holds NaN or infinity")
                with torch.no_grad():
                    parameter.copy_(tensor)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path.name} is not a readable safetensors file: {error}") from error
