"""Finding the user's own models in the folders of HEADLIGHT_MODELS, and explaining why one cannot
be read."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from models.checkpoint import CONFIG
from models.foreign.gguf_header import ENDING, models_among
from models.foreign.system import of_system
from models.refusals import Refusal

VARIABLE = "HEADLIGHT_MODELS"
WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin", "adapter_model.bin")
HUB = "models--"  # prefix of a model's folder in the hub's cache: models--org--name


def places() -> tuple[Path, ...]:
    """The folders listed in HEADLIGHT_MODELS, separated as in PATH."""
    return tuple(Path(name) for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name)


def missing() -> tuple[Path, ...]:
    """The folders listed in HEADLIGHT_MODELS that do not exist."""
    return tuple(place for place in places() if not place.expanduser().exists())


def without_models() -> tuple[Path, ...]:
    """The folders listed in HEADLIGHT_MODELS that contain no model."""
    there = (place.expanduser() for place in places())
    return tuple(place for place in there if place.exists() and not any(_models_in(place)))


def found(where: Sequence[Path] | None = None) -> dict[str, Path]:
    """Every model in these folders (None: `places()`) by its name, in the order of the folders.

    Each folder is a model itself (a folder or a GGUF file) or contains models one or two levels
    down. Models two levels down, and in the hub's cache, are named like org/name or
    run/checkpoint-500. If two have the same name, the second is prefixed with its parent's name.
    Models are not opened here; unreadable folders are listed, so that opening them gives the
    reason.
    """
    models: dict[str, Path] = {}
    for place in places() if where is None else where:
        place = place.expanduser()
        for path in _models_in(place):
            name = _name(path, place)
            if models.get(name, path) != path:
                name = f"{path.parent.name}/{name}"
            models.setdefault(name, path)
    return models


def _models_in(place: Path) -> Iterator[Path]:
    if _is_model(place) or is_gguf(place):
        yield place
        return
    inside = _inside(place)
    files = models_among([entry for entry in inside if is_gguf(entry)])
    inside = [entry for entry in inside if not is_gguf(entry) or entry in files]
    models = [entry for path in inside for entry in _models_of(path)]
    yield from models or ([place] if _lacks_config(place) else [])


def _models_of(path: Path, deeper: bool = True) -> list[Path]:
    """The models that a path is or contains: a model, GGUF files, or, if `deeper`, models in its
    subfolders."""
    if _is_model(path) or is_gguf(path) or _lacks_config(path):
        return [path]
    files = models_among(sorted(entry for entry in path.glob(f"*{ENDING}") if is_gguf(entry)))
    if files or not deeper or path.name.startswith((".", HUB)):
        return files
    folders = (entry for entry in _inside(path) if entry.is_dir())
    return [model for entry in folders for model in _models_of(entry, deeper=False)]


def _inside(folder: Path) -> list[Path]:
    """The contents of a folder; empty if it is not a folder or cannot be listed."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _name(path: Path, place: Path) -> str:
    """The name of a model found in a place."""
    if path.suffix == ENDING:
        return path.stem
    if _hub(path):
        return path.name.removeprefix(HUB).replace("--", "/")
    return path.name if path in (place, place / path.name) else f"{path.parent.name}/{path.name}"


def _hub(path: Path) -> bool:
    return path.name.startswith(HUB)


def is_gguf(path: Path) -> bool:
    """Whether a path is a GGUF file, judging by its name."""
    return path.suffix == ENDING and not os.path.isdir(path)  # unlike Path, never raises


def _is_model(path: Path) -> bool:
    """Whether a path is a folder with a config. Dead links and unreadable folders count as well:
    opening them gives the reason."""
    try:
        if any(place.is_symlink() and not place.exists() for place in (path, path / CONFIG)):
            return True
        return (path / CONFIG).is_file() or (_hub(path) and (path / "snapshots").is_dir())
    except OSError:  # no permission
        return True


def _lacks_config(path: Path) -> bool:
    return path.is_dir() and any(any(path.glob(file)) for file in WEIGHT_FILES)


def unreadable(error: OSError, path: object) -> Refusal:
    """The reason for an OSError, for the file named by the error or else `path`."""
    name = Path(str(error.filename or path)).name  # do not reveal the server's folders
    return Refusal("unreadable", path=name, reason=of_system(error))
