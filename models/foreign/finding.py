"""Where models of one's own lie: the folders that HEADLIGHT_MODELS names, what is in them, and why
one of them cannot be read."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from models.checkpoint import CONFIG
from models.foreign.gguf_file import ENDING
from models.foreign.system import of_system
from models.refusals import Refusal

VARIABLE = "HEADLIGHT_MODELS"
WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin")
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

    Each is a model itself (a folder, or a GGUF file) or holds models, one level down; in the hub's
    cache a model is called org/name. Of two with one name the second has its parent's name before
    it. Whether a model can be opened is not asked here, and what cannot be looked into is listed,
    so that opening it says why.
    """
    models: dict[str, Path] = {}
    for place in places() if where is None else where:
        for path in _models_in(place.expanduser()):
            name = path.stem if path.suffix == ENDING else path.name
            name = name.removeprefix(HUB).replace("--", "/") if _hub(path) else name
            if models.get(name, path) != path:
                name = f"{path.parent.name}/{name}"
            models.setdefault(name, path)
    return models


def _models_in(place: Path) -> Iterator[Path]:
    if _is_model(place) or is_gguf(place):
        yield place
        return
    try:
        inside = sorted(place.iterdir())
    except OSError:
        return
    models = [each for path in inside for each in _models_of(path)]
    yield from models or ([place] if _lacks_config(place) else [])


def _models_of(path: Path) -> list[Path]:
    """What a folder inside a place is or holds: a model, or GGUF files; a file may be one."""
    if _is_model(path) or is_gguf(path) or _lacks_config(path):
        return [path]
    return sorted(each for each in path.glob(f"*{ENDING}") if is_gguf(each))


def _hub(path: Path) -> bool:
    return path.name.startswith(HUB)


def is_gguf(path: Path) -> bool:
    """Whether a path is a GGUF file by its name."""
    return path.suffix == ENDING and not path.is_dir()


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
