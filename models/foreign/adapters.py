"""LoRA adapters: low-rank updates of a base model's weights, stored without the base model.

    W' = W + scale · B A,  scale = alpha / r  (alpha / √r with `use_rslora`)

Hu et al. 2021; Kalajdzievski 2023 (rsLoRA); Liu et al. 2024 (DoRA, which then scales each row of W'
to a learned norm). The file format is that of `peft`.
"""

import json
import math
import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from models.checkpoint import CONFIG, WEIGHTS, CheckpointError
from models.foreign.json_files import read_object
from models.foreign.weights import INDEX, Safetensors, finite
from models.refusals import Refusal

ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
COMMAND = "headlight merge BASE {adapter} --out DIR"
_PREFIX = "base_model.model."
_LORA = re.compile(r"\.(lora_A|lora_B|lora_embedding_A|lora_embedding_B|lora_magnitude_vector)\b")
WHOLE = "whole"  # role of a fully trained tensor
_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight", "shared.weight")
_BESIDE = ("*.json", "*.jinja", "*.spm", "*.txt", "*.model")
_UNLESS: dict[
    str, tuple[Any, ...]
] = {  # per key, the values under which the formula above is complete
    "peft_type": ("LORA",),
    "init_lora_weights": (True, False, "gaussian", "orthogonal", "eva"),
    "layer_replication": (None, []),
    "target_parameters": (None, []),
    "lora_bias": (False,),
    "trainable_token_indices": (None, [], {}),
}


def require_no_adapter(folder: Path) -> None:
    """Raise CheckpointError if a folder contains an adapter but no model weights."""
    has_weights = any((folder / name).is_file() for name in (WEIGHTS, INDEX))
    if has_weights or not (folder / ADAPTER).is_file():
        return
    settings = read_object(folder / ADAPTER)
    raise CheckpointError(
        "adapter",
        kind=str(settings.get("peft_type") or "?"),
        base=str(settings.get("base_model_name_or_path") or "?"),
        command=COMMAND.format(adapter=folder.name),
    )


def merge(base: Path, adapter: Path, out: Path) -> int:
    """Merge `adapter` into the model in `base` and write it to the new folder `out`.

    Tensors keep the dtype of the base. The adapter's tokenizer is used if it has one. Returns the
    number of tensors changed or added. Raises CheckpointError, naming the file and the reason, if
    the adapter is of an unsupported kind or belongs to another model, and OSError.
    """
    settings, config = read_object(adapter / ADAPTER), read_object(base / CONFIG)
    for name, allowed in _UNLESS.items():
        if settings.get(name, allowed[0]) not in allowed:
            value, known = repr(settings.get(name)), ", ".join(map(repr, allowed))
            raise CheckpointError(
                "adapter_kind", file=ADAPTER, name=name, value=value, allowed=known
            )
    stored = Safetensors(base)
    parts = {_stored_name(name, stored): part for name, part in _parts(adapter).items()}
    source = {name: name for name in parts}
    if (head := next((name for name in parts if name.endswith("lm_head.weight")), "")) and (
        head not in stored.shapes
    ):
        source[head] = _embedding(stored)  # untie the LM head, which has its own update
        config["tie_word_embeddings"] = False
    _require_one_meaning(parts, head, stored)
    tensors: dict[str, Tensor] = {}
    for name in (*stored.shapes, *(part for part in parts if part not in stored.shapes)):
        tensor = _changed(name, source.get(name, name), parts.get(name, {}), stored, settings)
        tensors[name] = tensor.to(stored.half or torch.float32).contiguous()
    embedding = tensors[_embedding(stored)] if any(map(_is_embedding, parts)) else None
    if embedding is not None and "vocab_size" in config:
        config["vocab_size"] = len(embedding)  # tokens may have been added
    out.mkdir(parents=True)
    for pattern in _BESIDE:
        _copy(base, out, pattern)
    for pattern in ("*token*.json", "*.jinja"):
        _copy(adapter, out, pattern)
    (out / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_file(tensors, out / WEIGHTS, metadata={"format": "pt"})
    return len(parts)


def _parts(adapter: Path) -> dict[str, dict[str, Tensor]]:
    """An adapter's tensors, by the base tensor they change and by role: A, B, …, or WHOLE."""
    path = adapter / ADAPTER_WEIGHTS
    tensors: dict[str, dict[str, Tensor]] = {}
    try:
        with safe_open(path, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118
                name = key.removeprefix(_PREFIX)
                name = name.replace(".base_layer.", ".").replace(".modules_to_save.", ".")
                lora = _LORA.search(name)
                role = lora[1] if lora else WHOLE
                name = f"{name[: lora.start()]}.weight" if lora else name
                tensor = finite(file.get_tensor(key).float(), path.name, key)
                tensors.setdefault(name, {})[role] = tensor
    except (SafetensorError, OSError) as error:
        if not path.is_file():
            raise CheckpointError("missing_file", file=path.name) from error
        raise CheckpointError("no_safetensors", file=path.name, reason=error) from error
    return tensors


def _stored_name(name: str, stored: Safetensors) -> str:
    """The base model's name of an adapter's tensor; their prefixes may differ."""
    if name in stored.shapes:
        return name
    alike = [e for e in stored.shapes if e.endswith(f".{name}") or name.endswith(f".{e}")]
    return alike[0] if len(alike) == 1 else name


def _is_embedding(name: str) -> bool:
    return name.endswith(_EMBEDDINGS)


def _embedding(stored: Safetensors) -> str:
    """The name of the base model's embedding. Raises CheckpointError if it has none."""
    names = [name for name in stored.shapes if _is_embedding(name)]
    if not names:
        raise CheckpointError("lacks", file=stored.name, tensor=_EMBEDDINGS[0])
    return names[0]


def _require_one_meaning(parts: Collection[str], head: str, stored: Safetensors) -> None:
    """Raise CheckpointError for a changed embedding if it is unclear whether the output is tied."""
    own = any(name.endswith(("lm_head.weight", "embed_out.weight")) for name in stored.shapes)
    for name in parts:
        if _is_embedding(name) and not head and not own:
            raise CheckpointError("adapter_tied", file=ADAPTER_WEIGHTS, tensor=name)


def _changed(
    name: str, source: str, part: Mapping[str, Tensor], stored: Safetensors, said: Mapping[str, Any]
) -> Tensor:
    """A tensor of the merged model in float32. Raises CheckpointError if names or shapes differ."""
    if source not in stored.shapes and WHOLE not in part:
        raise CheckpointError("adapter_other", file=ADAPTER_WEIGHTS, tensor=name)
    before = part[WHOLE] if WHOLE in part else stored.read(source)
    if not part.keys() - {WHOLE}:
        return before
    try:
        of_table = "lora_embedding_A" in part
        a, b = (part[f"lora_embedding_{x}" if of_table else f"lora_{x}"] for x in "AB")
        flipped = of_table or bool(said.get("fan_in_fan_out"))  # stored as [in, out]
        after = before + _scale(name, len(a), said) * ((b @ a).T if flipped else b @ a)
        if (lengths := part.get("lora_magnitude_vector")) is not None:
            rows = after.T if flipped else after
            rows = rows * (lengths.flatten() / rows.norm(dim=1))[:, None]
            after = rows.T if flipped else rows
    except (KeyError, RuntimeError) as error:
        raise CheckpointError("adapter_other", file=ADAPTER_WEIGHTS, tensor=name) from error
    if after.shape != before.shape:
        raise CheckpointError("adapter_other", file=ADAPTER_WEIGHTS, tensor=name)
    return after


def _scale(name: str, rank: int, said: Mapping[str, Any]) -> float:
    """The scale of B A for one module. Raises CheckpointError for an invalid alpha or pattern."""
    module, alpha = name.removesuffix(".weight"), said.get("lora_alpha")
    for pattern, value in (said.get("alpha_pattern") or {}).items():
        try:
            matches = re.match(rf"(.*\.)?({pattern})$", module)
        except re.error as error:
            raise CheckpointError("within", file=ADAPTER, reason=error) from error
        if matches:
            alpha = value
            break
    if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not math.isfinite(alpha):
        why = Refusal("number", name="lora_alpha", value=repr(alpha))
        raise CheckpointError("within", file=ADAPTER, reason=why)
    return alpha / (math.sqrt(rank) if said.get("use_rslora") else rank)


def _copy(source: Path, out: Path, pattern: str) -> None:
    for path in sorted(source.glob(pattern)):
        if path.is_file() and not path.name.endswith(".index.json") and path.name != ADAPTER:
            shutil.copyfile(path, out / path.name)
