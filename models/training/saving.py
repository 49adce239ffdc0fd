"""Writing checkpoint folders, which `models.checkpoint` reads, and their snapshots; and the mean of
a run's best snapshots."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from models.checkpoint import CARD, CONFIG, SOURCE_TOKENIZER, TOKENIZER, WEIGHTS, load_weights
from models.tokenizer import Tokenizer
from models.transformer import Model


def best_epochs(curve: Sequence[Mapping[str, float | int]], n: int) -> list[int]:
    """The `n` best epochs (from 1) by BLEU, if known, else by validation loss, else the last."""

    def goodness(row: Mapping[str, float | int]) -> tuple[float, float]:
        return (float(row.get("bleu", 0)), -float(row.get("valid_loss", -row["epoch"])))

    best = sorted(curve, key=goodness, reverse=True)[:n]
    return sorted(int(row["epoch"]) for row in best)


def average_snapshots(model: Model, paths: list[Path]) -> None:
    """Set `model`'s weights to the mean of snapshots (Vaswani et al. 2017, §6.1).

    Raises ValueError if `paths` is empty, CheckpointError if a snapshot does not fit the model.
    """
    if not paths:
        raise ValueError("there are no snapshots to average")
    total: dict[str, Tensor] = {}
    for path in paths:
        load_weights(model, path)
        for name, parameter in model.named_parameters():
            total[name] = total.get(name, torch.zeros_like(parameter, dtype=torch.float64))
            total[name] += parameter.detach().double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(total[name] / len(paths))


SNAPSHOTS = "moments"  # the folder of snapshots: weights at earlier training steps


def snapshot_name(step: int) -> str:
    """File name, in the folder SNAPSHOTS, of the weights after `step` steps."""
    return f"step-{step:06d}.safetensors"


def snapshots(folder: Path) -> tuple[int, ...]:
    """The steps whose weights were saved in a checkpoint folder, ascending; empty if the folder
    cannot be read."""
    try:
        names = [path.stem for path in (folder / SNAPSHOTS).glob("step-*.safetensors")]
    except OSError:
        return ()
    return tuple(sorted(int(n.removeprefix("step-")) for n in names if n[5:].isdecimal()))


def save_checkpoint(
    folder: Path,
    model: Model,
    tokenizer: Tokenizer,
    card: str = "",
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write the four files, and a source's own tokenizer; a tied matrix is stored once.

    `dtype` is the dtype of the stored tensors: float16 halves the file (`load_checkpoint` always
    computes in float32). Each file is replaced atomically, the weights last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_whole(folder / CONFIG, model.config.to_json())
    tokenizer.save(folder / TOKENIZER)
    if tokenizer.source:
        tokenizer.source.save(folder / SOURCE_TOKENIZER)
    _write_whole(folder / CARD, card)
    save_tensors(folder / WEIGHTS, {n: p.detach().to(dtype) for n, p in model.named_parameters()})


def save_tensors(
    path: Path, tensors: dict[str, Tensor], about: dict[str, str] | None = None
) -> None:
    """Write a safetensors file atomically: a kill at any moment leaves the old or the new file."""
    part = path.with_name(path.name + ".part")
    contiguous = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    save_file(contiguous, part, metadata=about)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)


def _write_whole(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
