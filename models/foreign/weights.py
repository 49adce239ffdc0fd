"""The tensors of a folder: one safetensors file, or shards with an index. Read one at a time."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from models.checkpoint import WEIGHTS, CheckpointError
from models.config import ModelConfig
from models.fast.memory import without_numbers
from models.foreign.damage import require_all_of
from models.foreign.json_files import read_json
from models.foreign.placing import Placing, place
from models.foreign.plan import Row
from models.refusals import Refusal
from models.transformer import Model, build_model

INDEX = f"{WEIGHTS}.index.json"
FLOATS = {"F64", "F32", "F16", "BF16"}
HALVES = {"F16": torch.float16, "BF16": torch.bfloat16}
PICKLES = "pytorch_model*.bin"
CONVERSION = (
    'python -c "import glob, torch, safetensors.torch as s; '
    f"s.save_file({{k: v.contiguous().clone() for f in glob.glob('{PICKLES}') "
    "for k, v in torch.load(f, map_location='cpu', weights_only=True).items()}, "
    "'model.safetensors')\""
)
"""Of one file or of several: each tensor for itself, since safetensors shares no memory."""


class Stored(Protocol):
    """Tensors by their names, whose shapes are known before they are read."""

    name: str
    """That of the file, or of the index of several."""
    shapes: Mapping[str, tuple[int, ...]]
    half: torch.dtype | None
    """The half precision that its floats are stored in, if they all are."""

    def read(self, name: str) -> Tensor:
        """One tensor, in float32. Raises CheckpointError where that fails."""
        ...


class Safetensors:
    """The tensors of a folder, none of them read yet.

    Raises CheckpointError for a folder without such files, and for one that is truncated or is not
    what the index says, and OSError for a file that cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.name = WEIGHTS if (folder / WEIGHTS).is_file() else INDEX
        self._in: dict[str, tuple[str, Any]] = {}  # name of a tensor -> its file's name and handle
        shapes: dict[str, tuple[int, ...]] = {}
        kinds: set[str] = set()
        for file_name, wanted in _files(folder).items():
            (folder / file_name).open("rb").close()  # safetensors takes no rights for no file
            try:
                # Closed when it is collected: no tensor is read yet.
                file: Any = safe_open(folder / file_name, framework="pt")
                found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            except (SafetensorError, OSError) as error:
                require_all_of(folder / file_name)
                raise CheckpointError("no_safetensors", file=file_name, reason=error) from error
            lacking = sorted((wanted or set()) - found.keys())
            if lacking:
                raise CheckpointError(
                    "lacks_listed", file=file_name, tensor=lacking[0], index=INDEX
                )
            for name, part in found.items():
                if name in shapes:
                    other = f"{name} ({self._in[name][0]})"
                    raise CheckpointError("twice", file=file_name, tensor=name, other=other)
                shapes[name] = tuple(part.get_shape())
                self._in[name] = (file_name, file)
                kinds.add(part.get_dtype())
        self.shapes: Mapping[str, tuple[int, ...]] = shapes
        self.half = HALVES.get(kinds.pop()) if len(kinds) == 1 else None

    def require_floats(self, name: str) -> None:
        """Raise CheckpointError for a tensor of other numbers."""
        file_name, file = self._in[name]
        kind = file.get_slice(name).get_dtype()
        if kind not in FLOATS:
            raise CheckpointError("integers", file=file_name, tensor=name, kind=kind)

    def read(self, name: str) -> Tensor:
        self.require_floats(name)
        file_name, file = self._in[name]
        return finite(file.get_tensor(name).float(), file_name, name)


def finite(tensor: Tensor, file_name: str, name: str) -> Tensor:
    """The tensor. Raises CheckpointError where it holds NaN or infinity."""
    if not tensor.isfinite().all():
        raise CheckpointError("not_finite", file=file_name, tensor=name)
    return tensor


def _files(folder: Path) -> dict[str, set[str] | None]:
    """The weight files of a folder, and the tensors that an index says are in each."""
    if (folder / WEIGHTS).is_file():
        return {WEIGHTS: None}
    if not (folder / INDEX).is_file():
        for path in sorted(folder.glob(PICKLES)):
            raise CheckpointError("pickle", file=path.name, command=CONVERSION)
        raise CheckpointError("missing_file", file=WEIGHTS)
    try:
        listed = read_json(folder / INDEX)["weight_map"]
        files: dict[str, set[str] | None] = {}
        for name, file_name in listed.items():
            if Path(file_name).name != file_name:
                raise CheckpointError("leads_away", index=INDEX, file=repr(file_name))
            tensors = files.setdefault(file_name, set())
            assert tensors is not None
            tensors.add(name)
    except CheckpointError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = Refusal("no_weight_map")
        raise CheckpointError("no_index", file=INDEX, reason=reason) from error
    for file_name in files:
        if not (folder / file_name).is_file():
            raise CheckpointError("missing_shard", file=file_name, index=INDEX)
    return files


def fill(
    config: ModelConfig,
    rows: tuple[Row, ...],
    stored: Stored,
    real_name: Callable[[str], str],
    placing: Placing,
) -> Model:
    """A model of this config in eval mode, each of its parameters filled by its row.

    `real_name` gives the name under which a row's tensor is stored. Every shape is compared, and
    the memory that is needed, before a number is read.
    Raises CheckpointError for a parameter that no row or two rows fill, for a tensor that is
    missing, misshapen or not finite, and for a model that is larger than the machine's memory.
    """
    model = shaped(config, rows, stored, real_name)
    dtype = placing.dtype_for(sum(each.numel() for each in model.parameters()), stored.half)
    for row in rows:
        tensor = row.fold(*(stored.read(real_name(each)) for each in row.theirs)).contiguous()
        tensor = tensor.to(placing.device, dtype)
        if tensor.untyped_storage().nbytes() > tensor.nbytes:
            tensor = tensor.clone()  # a part of a fused matrix would keep the whole in memory
        path, _, leaf = row.ours.rpartition(".")
        owner = model.get_submodule(path)
        setattr(owner, leaf, nn.Parameter(tensor, requires_grad=False))
    if config.lm_head and config.tie_embeddings:
        model.unembed.weight = model.last_stack.embed.weight
    place(model, placing, dtype)
    return model.eval().requires_grad_(False)


def shaped(
    config: ModelConfig,
    rows: tuple[Row, ...],
    stored: Stored,
    real_name: Callable[[str], str],
) -> Model:
    """A model of this config as shapes alone, each of them held against the stored ones.

    Raises CheckpointError as `fill`; no number is read.
    """
    with without_numbers():
        model = build_model(config)
    parameters = dict(model.named_parameters())
    by_name = {row.ours: row for row in rows}
    if len(by_name) != len(rows) or by_name.keys() != parameters.keys():
        wrong = sorted(by_name.keys() ^ parameters.keys())
        raise CheckpointError("table", names=", ".join(wrong[:3]))
    _check_shapes(parameters, by_name, stored, real_name)
    return model


def _check_shapes(
    parameters: Mapping[str, nn.Parameter],
    rows: Mapping[str, Row],
    stored: Stored,
    real_name: Callable[[str], str],
) -> None:
    for name, parameter in parameters.items():
        row = rows[name]
        for each in row.theirs:
            if real_name(each) not in stored.shapes:
                raise CheckpointError("lacks", file=stored.name, tensor=real_name(each))
        shapes = [stored.shapes[real_name(each)] for each in row.theirs]
        try:
            with torch.device("meta"):
                made = tuple(row.fold(*(torch.empty(shape) for shape in shapes)).shape)
        except (RuntimeError, IndexError):
            made = ()
        if made != tuple(parameter.shape):
            raise CheckpointError(
                "shape_of",
                file=stored.name,
                tensors=", ".join(map(real_name, row.theirs)),
                shapes=", ".join(map(str, shapes)),
                name=name,
                asked=str(tuple(parameter.shape)),
            )
