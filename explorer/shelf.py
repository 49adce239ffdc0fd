"""The list of models: every model that the app offers, without opening it.

Only config.json and the headers of the weight files are read, so that a folder of large models is
listed at once. The result of a header is cached until one of its files changes.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from explorer.library import CHECKPOINTS, list_models
from models.checkpoint import CONFIG
from models.foreign import Placing, few, found, look, revision
from models.foreign.finding import unreadable
from models.foreign.json_files import read_object
from models.foreign.placing import dtype_name
from models.refusals import Refusal


@dataclass(frozen=True)
class Listed:
    """One model of the list. If it cannot be opened, `problem` says why and what to do, and
    unknown values are 0 or "".

    `family` is the `model_type` of another library, or our own family; `n_bytes` is the size of its
    files on disk, `memory` the size of its parameters once it is open, both in bytes; `dtype` is
    the data type that it computes in; `n_tokens` of the `vocab_size` entries of its vocabulary are
    in its tokenizer.
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
    memory: int = 0
    dtype: str = ""
    vocab_size: int = 0
    n_tokens: int = 0
    problem: Refusal | None = None

    @property
    def lacks_tokens(self) -> bool:
        """Whether most of its vocabulary is known to have no token."""
        return self.n_tokens > 0 and few(self.n_tokens, self.vocab_size)


def survey(shelf: Path = CHECKPOINTS) -> tuple[Listed, ...]:
    """Every model of `library.list_models`, in its order, as `Placing.asked()` would open it; empty
    if that names a missing device."""
    others = found()
    owns = {name: not (shelf / name).is_dir() for name in list_models(shelf)}
    folders = {name: others[name] if own else shelf / name for name, own in owns.items()}
    try:
        placing = Placing.asked()
    except Refusal as error:
        why = error.alone()
        return tuple(Listed(name, folders[name], own, problem=why) for name, own in owns.items())
    return tuple(
        _look(name, folders[name], own, _stamp(folders[name]), placing)
        for name, own in owns.items()
    )


Stamp = tuple[tuple[str, int, int], ...]


def _files(folder: Path) -> list[Path]:
    """The files of a model, or the model itself if it is one file; without training snapshots."""
    folder = revision(folder)
    return sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []


def _stamp(path: Path) -> Stamp:
    """Name, size and time of every file, in order; () if it cannot be read."""
    try:
        stats = [(file.name, file.stat()) for file in ([path] if path.is_file() else _files(path))]
    except OSError:
        return ()
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


@lru_cache(maxsize=1024)
def _look(name: str, folder: Path, own: bool, stamp: Stamp, placing: Placing) -> Listed:
    n_bytes = sum(size for _, size, _ in stamp)
    family = ""
    try:
        family = _said(folder)
        seen = look(folder)
        dtype = placing.dtype_for(seen.parameters, seen.half)
    except OSError as error:
        why = unreadable(error, folder)
        return Listed(name, folder, own, family, n_bytes=n_bytes, problem=why)
    except Refusal as error:
        return Listed(name, folder, own, family, n_bytes=n_bytes, problem=error.alone())
    return Listed(
        name,
        folder,
        own,
        seen.family,
        seen.parameters,
        seen.n_layers,
        seen.n_heads,
        seen.d_model,
        n_bytes,
        dtype.itemsize * seen.parameters,
        dtype_name(dtype),
        seen.vocab_size,
        seen.n_tokens,
    )


def _said(folder: Path) -> str:
    """The `model_type` of a config, even if the model cannot be opened; "" without one."""
    try:
        return str(read_object(revision(folder) / CONFIG).get("model_type") or "")
    except (OSError, Refusal):
        return ""
