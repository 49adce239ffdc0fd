"""What lies on the shelf: every model that the app lists, without opening it.

Only config.json and the headers of the weight files are read, so that a folder of large models is
listed at once. What a header says is kept until one of its files changes.
"""

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from explorer.library import CHECKPOINTS, list_models
from models.checkpoint import CONFIG, CheckpointError
from models.config import ModelConfig
from models.foreign import FAMILIES, found, opening, revision
from models.foreign.gguf_file import gguf_in
from models.foreign.plan import Plan
from models.foreign.weights import Safetensors, Stored, memory

FLOAT32 = 4
"""Bytes a parameter: whatever the file holds, the models compute in float32."""


@dataclass(frozen=True)
class Listed:
    """One model of the shelf. Where it cannot be opened, `problem` says why and what to do, and
    what could not be found out is 0 or "".

    `family` is the `model_type` of another library, or our own family; `n_bytes` what its files
    take on disk, `memory` what its parameters take once it is open, both in bytes.
    """

    name: str
    folder: Path
    own: bool  # from a folder that HEADLIGHT_MODELS names
    family: str = ""
    parameters: int = 0
    n_layers: int = 0
    n_heads: int = 0
    d_model: int = 0
    n_bytes: int = 0
    problem: str = ""

    @property
    def memory(self) -> int:
        """Bytes of the parameters in float32."""
        return FLOAT32 * self.parameters


def survey(shelf: Path = CHECKPOINTS) -> tuple[Listed, ...]:
    """Every model of `library.list_models`, in its order."""
    others = found()
    listed = []
    for name in list_models(shelf):
        own = not (shelf / name).is_dir()
        folder = others[name] if own else shelf / name
        listed.append(_look(name, folder, own, _stamp(folder)))
    return tuple(listed)


Stamp = tuple[tuple[str, int, int], ...]


def _files(folder: Path) -> list[Path]:
    """The files of a model, itself if it is one; snapshots of a training are not among them."""
    folder = revision(folder)
    return sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []


def _stamp(path: Path) -> Stamp:
    """Name, size and time of every file, in order; () for what cannot be looked into."""
    try:
        stats = [(each.name, each.stat()) for each in ([path] if path.is_file() else _files(path))]
    except OSError:
        return ()
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


@lru_cache(maxsize=1024)
def _look(name: str, folder: Path, own: bool, stamp: Stamp) -> Listed:
    n_bytes = sum(size for _, size, _ in stamp)
    family = ""
    try:
        at = revision(folder)
        if not (at / CONFIG).is_file() and (file := gguf_in(at)) is not None:
            return Listed(name, folder, own, "gguf", n_bytes=n_bytes, problem=_of_gguf(file))
        values = json.loads((at / CONFIG).read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise CheckpointError(f"{CONFIG} must be one JSON object")
        family = str(values.get("model_type") or values.get("family") or "")
        if "model_type" in values:
            opening._family(values)  # refuses by name what is known to be impossible
            config, parameters = _planned(family, values, Safetensors(at), CONFIG)
        else:
            config = ModelConfig.from_json((at / CONFIG).read_text(encoding="utf-8"))
            family = config.family
            parameters = sum(map(math.prod, Safetensors(at).shapes.values()))
        if FLOAT32 * parameters > memory():
            raise CheckpointError(
                f"it needs {FLOAT32 * parameters / 1e9:.1f} GB in float32, this machine has "
                f"{memory() / 1e9:.1f} GB"
            )
    except OSError as error:
        why = f"{error.filename or folder} cannot be read: {error.strerror or error}"
        return Listed(name, folder, own, family, n_bytes=n_bytes, problem=why)
    except (CheckpointError, ValueError, TypeError) as error:
        return Listed(name, folder, own, family, n_bytes=n_bytes, problem=str(error))
    return Listed(
        name,
        folder,
        own,
        family,
        parameters,
        config.n_layers,
        config.n_heads,
        config.d_model,
        n_bytes,
    )


def _of_gguf(file: Path) -> str:
    """Why a GGUF file cannot be opened, "" where nothing speaks against it.

    Its header holds the whole vocabulary, which takes seconds to read, so no more is asked here.
    """
    with file.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            return f"{file.name} is not a GGUF file"
    if find_spec("gguf") is None:
        return f"{file.name} needs the package gguf: pip install 'headlight[gguf]'"
    return ""


def _planned(
    kind: str, values: dict[str, object], stored: Stored, file: str
) -> tuple[ModelConfig, int]:
    """The config of a model of another library, and how many numbers its tensors hold.

    Tensors that are ignored do not count. Raises CheckpointError.
    """
    family = FAMILIES[kind]
    named = {opening._plain(name, family.prefixes): name for name in stored.shapes}
    plan: Plan = opening._plan(family, values, named, file)
    used = {named[each] for row in plan.rows for each in row.theirs if each in named}
    lacking = sorted(each for row in plan.rows for each in row.theirs if each not in named)
    if lacking:
        raise CheckpointError(f"the weights lack {lacking[0]}")
    return plan.config, sum(math.prod(stored.shapes[each]) for each in used)
