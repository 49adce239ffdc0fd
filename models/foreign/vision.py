"""Models that read a picture: ViT, DeiT, DINOv2, and the vision towers of CLIP and SigLIP.

Dosovitskiy et al. 2021; Touvron et al. 2021; Oquab et al. 2023; Darcet et al. 2023 (registers);
Radford et al. 2021; Zhai et al. 2023. Patches are read row by row, after the class token and the
registers. Normalising the picture is folded into the map that embeds its patches.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor, nn

from models.config import ModelConfig
from models.foreign.folds import Fold, as_is, only, zeros
from models.foreign.json_files import read_object
from models.foreign.plan import QKV, Keys, Plan, PlanRow, blocks, both
from models.foreign.tokens import ForeignTokenizer
from models.marks import Marks
from models.pictures import PictureTokenizer
from models.pictures.processing import Processing
from models.refusals import Refusal
from models.rows import Stream
from models.tokenizer import Tokenizer

PROCESSOR, NEWER = "preprocessor_config.json", "processor_config.json"
"""The file with the sizes and colours of a picture; its values are under this key of `Keys`."""
IGNORED = (
    r"embeddings\.(position_ids|mask_token)",
    # Heads of other tasks, and what reads the text of CLIP and SigLIP.
    r"(pooler|head|decoder|(cls_|distillation_)?classifier|visual_projection)\..*",
    r"text_model\..*|text_projection\..*|logit_(scale|bias)",
)
NAMES = ("[CLS]", "[DIST]")
VIT = {
    **{f"attn.w_{name}": f"attention.attention.{stored}" for name, stored in QKV.items()},
    "attn.w_o": "attention.output.dense",
    "attn_norm": "layernorm_before",
    "ffn.w_up": "intermediate.dense",
    "ffn.w_down": "output.dense",
    "ffn_norm": "layernorm_after",
}
DINO = VIT | {
    "attn_norm": "norm1",
    "ffn_norm": "norm2",
    "ffn.w_up": "mlp.fc1",
    "ffn.w_down": "mlp.fc2",
}
CLIP = {
    **{f"attn.w_{name}": f"self_attn.{name}_proj" for name in "qkv"},
    "attn.w_o": "self_attn.out_proj",
    "attn_norm": "layer_norm1",
    "ffn.w_up": "mlp.fc1",
    "ffn.w_down": "mlp.fc2",
    "ffn_norm": "layer_norm2",
}
SCALED = {"attn.w_o": "layer_scale1.lambda1", "ffn.w_down": "layer_scale2.lambda1"}
"""DINOv2's factor of each feature of a sublayer's output."""


def prepared(folder: Path) -> dict[str, Any]:
    """What a folder's file of the processor says, as a key for `Keys`; {} without a file."""
    if (folder / PROCESSOR).is_file():
        return {PROCESSOR: read_object(folder / PROCESSOR)}
    if (folder / NEWER).is_file():
        return {PROCESSOR: read_object(folder / NEWER).get("image_processor")}
    return {}


class VisionTokenizer(PictureTokenizer, ForeignTokenizer):
    """Cuts a picture of colours into patches, after what the model's processor does to it."""

    def of(self, stream: Stream) -> Tokenizer:
        return self  # nothing is written

    @classmethod
    def planned(cls, plan: Plan) -> "VisionTokenizer":
        """The tokenizer of a plan that reads pictures."""
        assert plan.pictures is not None
        assert plan.config.picture is not None
        model = tokenizers.models.WordLevel({"?": 0}, unk_token="?")
        tokenizer = cls(Tokenizer(tokenizers.Tokenizer(model), Marks()), plan.config.picture)
        tokenizer.processing, tokenizer.names = plan.pictures
        return tokenizer


def vit(keys: Keys) -> Plan:
    """ViT: a class token before the patches."""
    return _vit(keys, ("embeddings.cls_token",))


def deit(keys: Keys) -> Plan:
    """DeiT: a class token and a distillation token."""
    return _vit(keys, ("embeddings.cls_token", "embeddings.distillation_token"))


def _vit(keys: Keys, marks: tuple[str, ...]) -> Plan:
    processing, n_marks = _processing(keys), len(marks)
    config = _config(keys, processing, n_marks, keys.size("intermediate_size", 3072), 1e-12)
    if processing.sides != _pair(keys, "image_size", 224):
        raise Refusal("picture_sides", sides=str(processing.sides))
    positions = PlanRow("positions.weight", ("embeddings.position_embeddings",), only(0))
    rows = [*_embedded(processing, marks), positions, *both("final_norm", "layernorm")]
    rows += _blocks(config, VIT, "encoder.layer", keys)
    return Plan(config, tuple(rows), IGNORED, pictures=(processing, NAMES[:n_marks]))


def dinov2(keys: Keys) -> Plan:
    """DINOv2: positions are resized to the picture, and sublayer outputs scaled by feature."""
    return _dinov2(keys, 0, 14)


def dinov2_with_registers(keys: Keys) -> Plan:
    """DINOv2 with registers, which have no position, between the class token and the patches."""
    return _dinov2(keys, keys.size("num_register_tokens", 4), 16)


def _dinov2(keys: Keys, n_registers: int, patch: int) -> Plan:
    keys.only("use_swiglu_ffn", False)
    processing, width = _processing(keys), keys.size("hidden_size", 768)
    d_ff = width * keys.size("mlp_ratio", 4)
    config = _config(keys, processing, 1 + n_registers, d_ff, 1e-6, patch=patch)
    assert config.picture is not None
    height, width, high, wide = config.picture[:4]
    resized = _resized(height // high, width // wide, n_registers, antialias=n_registers > 0)
    marks = ["embeddings.cls_token", *["embeddings.register_tokens"] * bool(n_registers)]
    positions = PlanRow("positions.weight", ("embeddings.position_embeddings",), resized)
    rows = [*_embedded(processing, tuple(marks)), positions, *both("final_norm", "layernorm")]
    rows += _blocks(config, DINO, "encoder.layer", keys, SCALED)
    names = NAMES[0], *(f"[REG {i + 1}]" for i in range(n_registers))
    return Plan(config, tuple(rows), IGNORED, pictures=(processing, names))


def clip(keys: Keys) -> Plan:
    """The vision tower of CLIP: a norm before the first block, and no bias of the patches."""
    plan = _tower(keys, ("embeddings.class_embedding",), "quick_gelu", 1e-5, 32)
    return replace(plan, rows=(*plan.rows, *both("embed_norm", "pre_layrnorm")))


def siglip(keys: Keys) -> Plan:
    """The vision tower of SigLIP: patches alone, without a class token."""
    return _tower(keys, (), "gelu_pytorch_tanh", 1e-6, 16)


def _tower(keys: Keys, marks: tuple[str, ...], activation: str, eps: float, patch: int) -> Plan:
    processing = _processing(keys)
    if "vision_config" in keys.values:
        keys = keys.of(keys.object("vision_config"))
    d_ff, n_marks = keys.size("intermediate_size", 3072), len(marks)
    more: dict[str, Any] = {"embed_norm": n_marks > 0, "activation": activation, "patch": patch}
    config = _config(keys, processing, n_marks, d_ff, eps, **more)
    if processing.sides != _pair(keys, "image_size", 224):
        raise Refusal("picture_sides", sides=str(processing.sides))
    theirs = "embeddings.patch_embedding"
    rows = [
        *_embedded(processing, marks, theirs, biased=n_marks == 0),
        PlanRow("positions.weight", ("embeddings.position_embedding.weight",)),
        *both("final_norm", "post_layernorm"),
    ]
    rows += _blocks(config, CLIP, "encoder.layers", keys)
    return Plan(config, tuple(rows), IGNORED, pictures=(processing, NAMES[:n_marks]))


def _processing(keys: Keys) -> Processing:
    values = keys.values.get(PROCESSOR)
    if not isinstance(values, Mapping):
        raise Refusal("missing_file", file=PROCESSOR)
    return Processing.of(values)


def _pair(keys: Keys, name: str, default: int) -> tuple[int, int]:
    """A size that is written as one number or as two: (height, width)."""
    value = keys.values.get(name)
    if isinstance(value, list) and len(value) == 2:
        height, width = (Keys({name: edge}).size(name) for edge in value)
        return height, width
    side = keys.size(name, default)
    return side, side


def _config(
    keys: Keys,
    processing: Processing,
    n_marks: int,
    d_ff: int,
    eps: float,
    activation: str = "gelu",
    patch: int = 16,
    **more: Any,
) -> ModelConfig:
    keys.only("num_channels", 3)
    sides, patches = processing.sides, _pair(keys, "patch_size", patch)
    read = [side // edge * edge for side, edge in zip(sides, patches, strict=True)]
    picture = (*read, *patches, 3)  # the convolution drops what is left at the right and below
    d_model, n_heads = keys.size("hidden_size", 768), keys.size("num_attention_heads", 12)
    if d_model % n_heads:
        of = f"num_attention_heads = {n_heads}"
        raise Refusal("multiple", name="hidden_size", value=d_model, of=of)
    if not all(read):
        raise Refusal("at_most", name="patch_size", value=max(patches), most=min(sides))
    return ModelConfig(
        family="encoder-only",
        vocab_size=1,
        d_model=d_model,
        n_layers=keys.layers("num_hidden_layers", 12),
        n_heads=n_heads,
        d_ff=d_ff,
        n_ctx=n_marks + (picture[0] // picture[2]) * (picture[1] // picture[3]),
        picture=picture,
        n_marks=n_marks or None,
        norm_placement="pre",
        final_norm=True,
        norm_eps=keys.number("layer_norm_eps", eps),
        positions="learned",
        ffn=keys.activation("hidden_act", activation),
        scale_embeddings=False,
        tie_embeddings=False,
        lm_head=False,
        dropout=0.0,
        **more,
    )


def _embedded(
    processing: Processing,
    marks: tuple[str, ...],
    theirs: str = "embeddings.patch_embeddings.projection",
    biased: bool = True,
) -> list[PlanRow]:
    kernels, bias = f"{theirs}.weight", (f"{theirs}.bias",) if biased else ()
    rows = [
        PlanRow("embed.weight", (kernels,), processing.folded),
        PlanRow("embed.bias", (kernels, *bias), processing.shifted),
    ]
    return [*rows, PlanRow("embed.marks", marks, _stacked)] if marks else rows


def _blocks(
    config: ModelConfig,
    names: Mapping[str, str],
    theirs: str,
    keys: Keys,
    scales: Mapping[str, str] | None = None,
) -> list[PlanRow]:
    rows = []
    for our_block, block in blocks(config.n_layers, theirs=theirs):
        for ours, name in names.items():
            scale = (f"{block}.{scales[ours]}",) if scales and ours in scales else ()
            fold = _scaled if scale else as_is
            of_attention = names is not CLIP and ours[-2:] in ("_q", "_k", "_v")
            biased = not of_attention or keys.flag("qkv_bias", True)
            bias = (f"{block}.{name}.bias", *scale) if biased else ()
            rows += [
                PlanRow(f"{our_block}.{ours}.weight", (f"{block}.{name}.weight", *scale), fold),
                PlanRow(
                    f"{our_block}.{ours}.bias", bias, fold if biased else zeros(config.d_model)
                ),
            ]
    return rows


def _stacked(*tensors: Tensor) -> Tensor:
    """Learned tokens of any number of axes, one below the other: [mark, d_model]."""
    return torch.cat([tensor.reshape(-1, tensor.shape[-1]) for tensor in tensors])


def _scaled(tensor: Tensor, scale: Tensor) -> Tensor:
    """A matrix [out, in] or a bias, each output times its factor."""
    return (tensor.t() * scale).t() if tensor.ndim == 2 else tensor * scale


def _resized(rows: int, columns: int, n_registers: int, antialias: bool) -> Fold:
    """DINOv2's table of positions, resized to this grid; registers add nothing."""

    def fold(table: Tensor) -> Tensor:
        table = table.squeeze(0)
        side = round((len(table) - 1) ** 0.5)
        own, patches = table[:1], table[1:]
        if (side, side) != (rows, columns):
            grid = patches.reshape(1, side, side, -1).permute(0, 3, 1, 2)
            if not grid.is_meta:
                size = {"size": (rows, columns), "mode": "bicubic", "align_corners": False}
                grid = nn.functional.interpolate(grid, **size, antialias=antialias)  # type: ignore[arg-type]
                patches = grid.permute(0, 2, 3, 1).reshape(rows * columns, -1)
            else:
                patches = patches.new_empty(rows * columns, patches.shape[1])
        return torch.cat((own, own.new_zeros(n_registers, own.shape[1]), patches))

    return fold
