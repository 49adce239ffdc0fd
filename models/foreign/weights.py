"""The tensors of a folder, read one at a time: a safetensors file, or shards with an index."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from models.checkpoint import WEIGHTS, CheckpointError
from models.config import ModelConfig
from models.fast import without_numbers
from models.foreign.json_files import LFS, read_json, read_object
from models.foreign.placing import Placing, place
from models.foreign.plan import PlanRow
from models.refusals import Refusal
from models.transformer import Model, build_model

_LENGTH = 8  # bytes of the header's length; the header and the tensors follow
_MOST_HEADER = 100_000_000  # the largest header that safetensors reads


def require_all_of(path: Path) -> None:
    """Raise CheckpointError if a safetensors file is a Git LFS pointer (`lfs_pointer`) or has fewer
    bytes than its header requires (`cut_short`); OSError if it cannot be read."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(len(LFS))
        if start == LFS.encode():
            raise CheckpointError("lfs_pointer", file=path.name)
        n_header = int.from_bytes(start[:_LENGTH], "little")
        wanted = _LENGTH + n_header
        if len(start) < _LENGTH or n_header > _MOST_HEADER:
            return
        if size >= wanted:
            file.seek(_LENGTH)
            wanted += _n_bytes(file.read(n_header))
    if size < wanted:
        there, all_of_it = f"{size:,}", f"{wanted:,}"
        raise CheckpointError("cut_short", file=path.name, size=there, wanted=all_of_it)


def _n_bytes(header: bytes) -> int:
    """Total size of the tensors in bytes according to the header; 0 if it cannot be parsed."""
    try:
        listed = json.loads(header)
        return max(int(listed[key]["data_offsets"][1]) for key in listed if key != "__metadata__")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return 0


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
"""Converts one or several pickles; each tensor is cloned, as safetensors refuses shared memory."""
ADAPTER = "adapter_config.json"
MERGING = (
    'python -c "import peft, transformers as t; '
    "peft.AutoPeftModelForCausalLM.from_pretrained('.').merge_and_unload().save_pretrained('DIR'); "
    "t.AutoTokenizer.from_pretrained('.').save_pretrained('DIR')\""
)


def require_no_adapter(folder: Path) -> None:
    """Raise CheckpointError if a folder contains an adapter but no model weights."""
    has_weights = any((folder / name).is_file() for name in (WEIGHTS, INDEX))
    if has_weights or not (folder / ADAPTER).is_file():
        return
    settings = read_object(folder / ADAPTER)
    kind, base = (settings.get(name) for name in ("peft_type", "base_model_name_or_path"))
    raise CheckpointError("adapter", kind=str(kind or "?"), base=str(base or "?"), command=MERGING)


class StoredTensors(Protocol):
    """Stored tensors by name; their shapes are known before they are read."""

    name: str
    """Name of the file, or of the index of several files."""
    shapes: Mapping[str, tuple[int, ...]]
    half: torch.dtype | None
    """The half-precision dtype of all tensors; None if they have another or several dtypes."""

    def read(self, name: str) -> Tensor:
        """Read one tensor in float32. Raises CheckpointError if that fails."""
        ...


class Safetensors:
    """The tensors of a folder, read on demand.

    Raises CheckpointError if the folder has no safetensors files, or a file is truncated or does
    not match the index; OSError if a file cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.name = WEIGHTS if (folder / WEIGHTS).is_file() else INDEX
        self._in: dict[str, tuple[str, Any]] = {}  # name of a tensor -> its file's name and handle
        shapes: dict[str, tuple[int, ...]] = {}
        kinds: set[str] = set()
        for file_name, wanted in _files(folder).items():
            (folder / file_name).open(
                "rb"
            ).close()  # safetensors reports missing permission as a missing file
            try:
                # Closed by garbage collection; tensors are read later.
                file: Any = safe_open(folder / file_name, framework="pt")
                slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            except (SafetensorError, OSError) as error:
                require_all_of(folder / file_name)
                raise CheckpointError("no_safetensors", file=file_name, reason=error) from error
            lacking = sorted((wanted or set()) - slices.keys())
            if lacking:
                raise CheckpointError(
                    "lacks_listed", file=file_name, tensor=lacking[0], index=INDEX
                )
            for name, part in slices.items():
                if name in shapes:
                    other = f"{name} ({self._in[name][0]})"
                    raise CheckpointError("twice", file=file_name, tensor=name, other=other)
                shapes[name] = tuple(part.get_shape())
                self._in[name] = (file_name, file)
                kinds.add(part.get_dtype())
        self.shapes: Mapping[str, tuple[int, ...]] = shapes
        self.half = HALVES.get(kinds.pop()) if len(kinds) == 1 else None

    def require_floats(self, name: str) -> None:
        """Raise CheckpointError if a tensor is not floating point."""
        file_name, file = self._in[name]
        kind = file.get_slice(name).get_dtype()
        if kind not in FLOATS:
            raise CheckpointError("integers", file=file_name, tensor=name, kind=kind)

    def read(self, name: str) -> Tensor:
        self.require_floats(name)
        file_name, file = self._in[name]
        return finite(file.get_tensor(name).float(), file_name, name)


def finite(tensor: Tensor, file_name: str, name: str) -> Tensor:
    """Return the tensor. Raises CheckpointError if it contains NaN or infinity."""
    if not tensor.isfinite().all():
        raise CheckpointError("not_finite", file=file_name, tensor=name)
    return tensor


def _files(folder: Path) -> dict[str, set[str] | None]:
    """The weight files of a folder, and the tensors that the index lists for each."""
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
    rows: tuple[PlanRow, ...],
    stored: StoredTensors,
    real_name: Callable[[str], str],
    placing: Placing,
) -> Model:
    """Build a model of this config in eval mode and fill each parameter by its row.

    `real_name` maps a row's tensor to its stored name. All shapes and the required memory are
    checked before any data is read. Raises CheckpointError if a parameter has no row or several, if
    a tensor is missing, has the wrong shape or is not finite, or if the model does not fit into
    memory.
    """
    model = shaped(config, rows, stored, real_name)
    dtype = placing.dtype_for(sum(weight.numel() for weight in model.parameters()), stored.half)
    for row in rows:
        tensor = row.fold(*(stored.read(real_name(weight)) for weight in row.theirs)).contiguous()
        tensor = tensor.to(placing.device, dtype)
        if tensor.untyped_storage().nbytes() > tensor.nbytes:
            tensor = tensor.clone()  # a view would keep the whole fused matrix in memory
        path, _, leaf = row.ours.rpartition(".")
        owner = model.get_submodule(path)
        setattr(owner, leaf, nn.Parameter(tensor, requires_grad=False))
    model.tie()
    place(model, placing, dtype)
    return model.eval().requires_grad_(False)


def shaped(
    config: ModelConfig,
    rows: tuple[PlanRow, ...],
    stored: StoredTensors,
    real_name: Callable[[str], str],
) -> Model:
    """A model of this config without storage, its shapes checked against the stored ones.

    Raises CheckpointError as `fill` does; no data is read.
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
    rows: Mapping[str, PlanRow],
    stored: StoredTensors,
    real_name: Callable[[str], str],
) -> None:
    for name, parameter in parameters.items():
        row = rows[name]
        for each in row.theirs:
            if real_name(each) not in stored.shapes:
                raise CheckpointError("lacks", file=stored.name, tensor=real_name(each))
        shapes = [stored.shapes[real_name(each)] for each in row.theirs]
        try:
            with without_numbers():
                dims = tuple(row.fold(*(torch.empty(shape) for shape in shapes)).shape)
        except (RuntimeError, IndexError):
            dims = ()
        if dims != tuple(parameter.shape):
            raise CheckpointError(
                "shape_of",
                file=stored.name,
                tensors=", ".join(map(real_name, row.theirs)),
                shapes=", ".join(map(str, shapes)),
                name=name,
                asked=str(tuple(parameter.shape)),
            )
