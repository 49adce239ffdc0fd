"""Convert a model for the browser: a config, and tensors in a few scripts.

Matrices are int8 with one float32 scale per row, vectors float32, or everything float32. A browser
reads no binary file next to a page from disk, only scripts, so the compressed bytes are written as
text, seven bits in each character.
"""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from explorer.library import LoadedModel
from explorer.problems import InputProblem
from models.config import ModelConfig
from models.feedforward import GATED
from models.hooks import StackSite
from models.positions import NOWHERE, Positions
from models.transformer import Model

Precision = Literal["int8", "float32"]
MOST_BYTES = 100_000_000
"""Maximum size of all tensors."""
MOST = 64
"""Maximum tokens of a text; the same as in `flow.js`."""
PART = 7 << 17
"""Compressed bytes per script, a multiple of 7: about a megabyte of text."""
ESCAPED = {0: 0xA1, ord("\n"): 0xA2, ord("\r"): 0xA3, ord('"'): 0xA4, ord("\\"): 0xA5}
"""Characters that a string of a script cannot contain as they are, and their substitutes."""


@dataclass(frozen=True, eq=False)
class Tensors:
    """The tensors of a model: `listed` are (name, shape, precision) in the order of `data`; `tied`
    maps further names to those with the same tensor."""

    listed: tuple[tuple[str, tuple[int, ...], Precision], ...]
    data: bytes
    tied: dict[str, str]


def described(loaded: LoadedModel) -> dict[str, Any]:
    """The config for `engine.js`. Raises InputProblem `live_unsupported` with the field's name."""
    config, model, marks = loaded.config, loaded.model, loaded.marks
    _require_supported(config, model)
    return {
        "predicts": "next" if config.generates else "same" if config.fills else None,
        "picture": config.picture,
        "n_ctx": config.n_ctx,
        "d_model": config.d_model,
        "d_head": config.d_head,
        "n_heads": config.n_heads,
        "n_kv_heads": config.kv_heads,
        "norm": config.norm,
        "norm_eps": config.norm_eps,
        "norm_placement": config.norm_placement,
        "acts": _positions(model, model.stacks()[-1]).acts,
        "rope_base": config.rope_base,
        "near_layers": config.near_layers or (),
        "still_layers": config.still_layers or (),
        "unplaced": config.unplaced or (),
        "window": config.window,
        "activation": GATED.get(config.ffn, config.ffn),
        "gated": config.ffn in GATED,
        "parallel": config.parallel,
        "divisor": config.divisor,
        "score_cap": config.score_cap,
        "logit_cap": config.logit_cap,
        "embed_scale": model.last_stack.embed_scale,
        "head_net": config.head_net,
        "marks": {name: getattr(marks, name) for name in ("pad", "start", "mask", "unknown")},
        "ends": list(marks.all_ends),
        "framed": {stream: _around(model, stream) for stream in model.reads},
        "stacks": [
            {
                "path": f"{stack.name}." if stack.name else "",
                "role": stack.role,
                "stream": stack.stream,
                "causal": stack.role == "decoder",
                "crosses": bool(stack.reads_too),
                "layers": stack.n_layers,
            }
            for stack in model.stacks()
        ],
    }


READ = {
    *(
        "family",
        "picture",
        "vocab_size",
        "d_model",
        "n_layers",
        "n_encoder_layers",
        "n_heads",
        "n_kv_heads",
    ),
    *("head_dim", "d_ff", "n_ctx", "norm", "norm_placement", "final_norm", "norm_eps", "positions"),
    *("rope_base", "near_layers", "near_rope_base", "window", "still_layers", "rope_scaling"),
    *("rotary_dim", "ffn", "dropout", "attention_dropout", "bias", "qk_norm", "qk_norm_joint"),
    *("out_norms", "parallel", "score_divisor", "score_cap", "logit_cap", "shared_layers"),
    *("embed_norm", "tie_embeddings", "scale_embeddings", "lm_head", "head_net", "unembed_bias"),
    *("n_types", "unplaced"),  # a text typed there is never a pair
}
"""The fields that the engine honours. A model with any other field set is refused."""
COMPUTED = {
    "norm": {"layernorm", "rmsnorm"},
    "ffn": {"relu", "gelu", "gelu_tanh", "gelu_quick", "silu"},
}
"""The norms and activations that the engine computes. A model with any other is refused."""


def _require_supported(config: ModelConfig, model: Model) -> None:
    lacking = {field.name for field in fields(config) if field.name not in READ}
    lacking = {name for name in lacking if getattr(config, name) != getattr(ModelConfig, name)}
    if not config.lm_head:
        raise InputProblem("live_no_output")
    kinds = {"norm": config.norm, "ffn": GATED.get(config.ffn, config.ffn)}
    lacking |= {name for name, kind in kinds.items() if kind not in COMPUTED[name]}
    for name in sorted(lacking):
        raise _unsupported(f"{name} = {getattr(config, name)}")
    for stack in model.stacks():
        _tables(model, stack)


def _positions(model: Model, stack: StackSite) -> Positions:
    module = model.get_submodule(stack.path("positions"))
    if not isinstance(module, Positions):
        raise _unsupported(f"positions = {type(module).__name__}")
    return module


def _unsupported(part: str) -> InputProblem:
    return InputProblem("live_unsupported", part=part)


def _tables(model: Model, stack: StackSite) -> dict[str, Tensor]:
    """The effect of a stack's positions as tables, by path: the vectors `added` [pos, width], the
    cosines and then the sines of the `rotation` and of the `near_rotation` [pos, 2 pair], the
    `bias` [head, offset], where the offset key - query is at least 1 - pos, and the vector
    `unplaced` [1, width] of tokens without a position.

    Raises InputProblem for positions whose effect depends on more, such as the number of tokens.
    """
    positions, config = _positions(model, stack), model.config
    n = config.n_ctx if config.picture else min(config.longest or MOST, MOST)
    tables = _acting(positions, n)
    for name, values in tables.items():
        if name == "bias":
            tables[name] = torch.cat((values[:, -1], values[:, 0, 1:]), dim=-1)
    for some in range(1, n + 1):
        offsets = torch.arange(some)[None, :] - torch.arange(some)[:, None] + n - 1
        for name, values in _acting(positions, some).items():
            told = tables[name][:, offsets] if name == "bias" else tables[name][:some]
            if not torch.allclose(values, told, atol=1e-6):
                raise _unsupported(f"positions = {type(positions).__name__}")
    if config.unplaced:
        tables["unplaced"] = _acting(positions, 1, start=-1)["added"]
    return {stack.path("positions", name): table for name, table in tables.items()}


def _acting(positions: Positions, n: int, start: int = 0) -> dict[str, Tensor]:
    """The effect of n positions; a bias is [head, query, key]."""
    parameter = next(positions.parameters(), torch.empty(0))
    at = torch.arange(start, start + n, device=parameter.device)[None]
    with torch.inference_mode():
        added, placement = positions.added(at), positions.place(at, at)
    near = placement.near or NOWHERE
    effects = {"added": added, "bias": placement.bias}
    for name, rotation in (("rotation", placement.rotation), ("near_rotation", near.rotation)):
        effects[name] = rotation and torch.cat(rotation, dim=-1)[0]
    return {name: tensor[0].float().cpu() for name, tensor in effects.items() if tensor is not None}


def _around(model: Model, stream: Any) -> tuple[list[int], list[int]]:
    """The special tokens before and after a sequence."""
    inside = -1
    whole = model.with_marks(stream, (inside,))
    at = whole.index(inside)
    return list(whole[:at]), list(whole[at + 1 :])


def tensors_of(model: Model, precision: Precision = "int8") -> Tensors:
    """The parameters, rounded to `precision`, and the tables of the positions.

    Raises InputProblem `live_too_large`.
    """
    stacks = model.stacks()
    tables = {name: array for stack in stacks for name, array in _tables(model, stack).items()}
    replaced = tuple(stack.path("positions", "") for stack in stacks)
    names: dict[int | bytes, str] = {}
    tied: dict[str, str] = {}
    listed: list[tuple[str, tuple[int, ...], Precision]] = []
    parts: list[bytes] = []
    n_bytes = 0
    for name, tensor in (*model.named_parameters(remove_duplicate=False), *tables.items()):
        is_table = name in tables
        if name.startswith(replaced) and not is_table:
            continue
        same = tensor.numpy().tobytes() if is_table else id(tensor)
        if same in names:
            tied[name] = names[same]
            continue
        names[same] = name
        n_bytes += tensor.numel() * (4 if precision == "float32" or is_table else 1)
        if n_bytes > MOST_BYTES:
            raise InputProblem("live_too_large", limit=MOST_BYTES // 10**6)
        values = tensor.detach().float().cpu().contiguous().numpy()
        rounds = precision == "int8" and values.ndim == 2 and not is_table
        listed.append((name, values.shape, "int8" if rounds else "float32"))
        parts += [array.tobytes() for array in (rounded(values) if rounds else (values,))]
    return Tensors(tuple(listed), b"".join(parts), tied)


def rounded(matrix: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """The scale of each row and its int8 codes: matrix ≈ scale[:, None] * code, with an error of at
    most half a scale, which is 1/127 of the row's largest magnitude."""
    scales = np.abs(matrix).max(1).astype(np.float32) / np.float32(127)
    scales[scales == 0] = 1
    return scales, np.rint(matrix / scales[:, None]).astype(np.int8)


def scripts(tensors: Tensors) -> Iterator[str]:
    """The compressed tensors as the texts of scripts; each calls `headlightPart(index, text)`."""
    level = 9 if any(kind == "int8" for *_, kind in tensors.listed) else 1  # floats hardly shrink
    packed = zlib.compress(tensors.data, level)
    for index, start in enumerate(range(0, len(packed), PART)):
        yield f'headlightPart({index},"{in_characters(packed[start : start + PART])}");\n'


def in_characters(data: bytes) -> str:
    """Bytes as text, seven bits per character, for a string in double quotes."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8))
    sevens = np.pad(bits, (0, -len(bits) % 7)).reshape(-1, 7)
    codes = np.packbits(sevens, axis=1)[:, 0] >> 1
    return codes.tobytes().decode("ascii").translate(ESCAPED)


def as_script(name: str, value: Any) -> str:
    """A script that sets a property of `window`. JSON is JavaScript since ES2019."""
    return f"window.{name} = {json.dumps(value, ensure_ascii=False, separators=(',', ':'))};\n"
