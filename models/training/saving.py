"""Writing checkpoint folders, which `models.checkpoint` reads, and their snapshots."""

import os
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from models.checkpoint import CARD, CONFIG, TOKENIZER, WEIGHTS
from models.tokenizer import Tokenizer
from models.transformer import Model

SNAPSHOTS = "moments"  # the folder of snapshots: the same model earlier in its training


def snapshot_name(step: int) -> str:
    """The file of the weights after `step` steps, in the folder SNAPSHOTS."""
    return f"step-{step:06d}.safetensors"


def snapshots(folder: Path) -> tuple[int, ...]:
    """The steps of a checkpoint's training whose weights were kept, rising; none where the folder
    cannot be looked into."""
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
    """Write the four files; a tied matrix is stored once.

    `dtype` is that of the stored tensors: float16 halves the file (`load_checkpoint` computes in
    float32 whatever was stored). Each file appears whole or not at all, the weights last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_whole(folder / CONFIG, model.config.to_json())
    tokenizer.save(folder / TOKENIZER)
    _write_whole(folder / CARD, card)
    save_tensors(folder / WEIGHTS, {n: p.detach().to(dtype) for n, p in model.named_parameters()})


def save_tensors(
    path: Path, tensors: dict[str, Tensor], about: dict[str, str] | None = None
) -> None:
    """Write a safetensors file so that a kill at any moment leaves the old one or the new one."""
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
