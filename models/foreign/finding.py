"""Where models of one's own lie: the folders that HEADLIGHT_MODELS names, what is in them, and why
one of them cannot be read."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from models.checkpoint import CONFIG
from models.foreign.gguf_header import ENDING
from models.foreign.system import of_system
from models.refusals import Refusal

VARIABLE = "HEADLIGHT_MODELS"
WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin", "adapter_model.bin")
HUB = "models--"  # how the hub's cache names the folder of a model: models--org--name


def places() -> tuple[Path, ...]:
    """The folders that HEADLIGHT_MODELS names, separated as in PATH."""
    return tuple(Path(name) for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name)


def missing() -> tuple[Path, ...]:
    """The folders that HEADLIGHT_MODELS names and that are not there."""
    return tuple(place for place in places() if not place.expanduser().exists())


def without_models() -> tuple[Path, ...]:
    """The folders that HEADLIGHT_MODELS names in which there is no model."""
    there = (place.expanduser() for place in places())
    return tuple(place for place in there if place.exists() and not any(_models_in(place)))


def found(where: Sequence[Path] | None = None) -> dict[str, Path]:
    """Every model in these folders (None: `places()`) by its name, in the order of the folders.

    Each is a model itself (a folder, or a GGUF file) or holds models, one level down or two, as
    org/name and run/checkpoint-500 do; a folder two levels down is called so, and so is a model in
    the hub's cache. Of two with one name the second has its parent's name before it. Whether a
    model can be opened is not asked here, and what cannot be looked into is listed, so that opening
    it says why.
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
    models = [each for path in _inside(place) for each in _models_of(path)]
    yield from models or ([place] if _lacks_config(place) else [])


def _models_of(path: Path, deeper: bool = True) -> list[Path]:
    """What a folder inside a place is or holds: a model, GGUF files, or, if `deeper`, folders that
    are or hold such. A file may be a model too.
    """
    if _is_model(path) or is_gguf(path) or _lacks_config(path):
        return [path]
    files = sorted(each for each in path.glob(f"*{ENDING}") if is_gguf(each))
    if files or not deeper or path.name.startswith((".", HUB)):
        return files
    folders = (each for each in _inside(path) if each.is_dir())
    return [model for each in folders for model in _models_of(each, deeper=False)]


def _inside(folder: Path) -> list[Path]:
    """All in a folder; nothing where it is none, or may not be listed."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _name(path: Path, place: Path) -> str:
    """What a model that was found in a place is called."""
    if path.suffix == ENDING:
        return path.stem
    if _hub(path):
        return path.name.removeprefix(HUB).replace("--", "/")
    return path.name if path in (place, place / path.name) else f"{path.parent.name}/{path.name}"


def _hub(path: Path) -> bool:
    return path.name.startswith(HUB)


def is_gguf(path: Path) -> bool:
    """Whether a path is a GGUF file by its name."""
    return path.suffix == ENDING and not os.path.isdir(path)  # never raises, as Path does


def _is_model(path: Path) -> bool:
    """Whether a path is a folder with a config. So are a dead link and what cannot be looked into:
    opening it says why it cannot be opened.
    """
    try:
        if any(each.is_symlink() and not each.exists() for each in (path, path / CONFIG)):
            return True
        return (path / CONFIG).is_file() or (_hub(path) and (path / "snapshots").is_dir())
    except OSError:  # no rights
        return True


def _lacks_config(path: Path) -> bool:
    return path.is_dir() and any(any(path.glob(each)) for each in WEIGHT_FILES)


def unreadable(error: OSError, path: object) -> Refusal:
    """Why the system does not let a file be read, for an error that may name the file itself."""
    name = Path(str(error.filename or path)).name  # visitors need not know where a server has it
    return Refusal("unreadable", path=name, reason=of_system(error))
