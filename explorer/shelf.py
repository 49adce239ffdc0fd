"""What lies on the shelf: every model that the app lists, without opening it.

Only config.json and the headers of the weight files are read, so that a folder of large models is
listed at once. What a header says is kept until one of its files changes.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from explorer.library import CHECKPOINTS, list_models
from models.checkpoint import CONFIG
from models.foreign import Placing, few, found, look, revision
from models.foreign.finding import unreadable
from models.foreign.json_files import read_object
from models.foreign.placing import name_of
from models.refusals import Refusal


@dataclass(frozen=True)
class Listed:
    """One model of the shelf. Where it cannot be opened, `problem` says why and what to do, and
    what could not be found out is 0 or "".

    `family` is the `model_type` of another library, or our own family; `n_bytes` what its files
    take on disk, `memory` what its parameters take once it is open, both in bytes; `dtype` are the
    floats that it computes in; `n_tokens` of a vocabulary of `vocab_size` are its tokenizer's.
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
    """Every model of `library.list_models`, in its order, as `Placing.asked()` would open it: none
    of them where that asks for a device that is not there."""
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
        name_of(dtype),
        seen.vocab_size,
        seen.n_tokens,
    )


def _said(folder: Path) -> str:
    """The `model_type` of a config, also where the model cannot be opened; "" without one."""
    try:
        return str(read_object(revision(folder) / CONFIG).get("model_type") or "")
    except (OSError, Refusal):
        return ""
