"""GGUF: one file with the config, the weights, mostly quantised, and the tokenizer.

The format of llama.cpp, read by its own package `gguf` (`pip install headlight[gguf]`), which turns
every kind of quantised block into floats. Names and config become those of the Llama and Qwen
families, so that their tables serve here too.
"""

import math
import re
import struct
from collections.abc import Mapping
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor

from models.checkpoint import CheckpointError
from models.foreign.folds import halves
from models.foreign.prompts import prompt_in
from models.foreign.tokens import ForeignTokenizer, marks_of
from models.foreign.weights import finite
from models.refusals import Refusal

ENDING = ".gguf"
NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
KEYS = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
}
ARCHITECTURES = ("llama", "qwen2", "qwen3")
CONTROL, USER_DEFINED = 3, 4  # types of tokens

_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
_OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {"llama-bpe": _LETTERS % "{1,3}" + _OTHERS, "qwen2": _LETTERS % "" + _OTHERS}
"""Where the tokenizers of these families cut a text before any merge, by llama.cpp's names."""


class GGUF:
    """An opened file; `named` are its tensors' names by those that `transformers` has for them.

    `values` is its config as a config.json would have it. Raises CheckpointError for a file that
    cannot be read, and for one of another family.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        header(path)  # whether the file is whole
        from gguf import GGUFReader, dequantize

        self._dequantize: Any = dequantize
        try:
            reader = GGUFReader(path)
            self.fields = {name: field.contents() for name, field in reader.fields.items()}
        except (ValueError, IndexError, KeyError, UnicodeDecodeError) as error:
            raise CheckpointError("broken_gguf", file=path.name, reason=error) from error
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.named = {_name(each): each for each in self._tensors}
        self.shapes: Mapping[str, tuple[int, ...]] = {
            name: tuple(int(size) for size in reversed(tensor.shape))
            for name, tensor in self._tensors.items()
        }
        self.name = path.name
        self.half: torch.dtype | None = None  # its blocks are read as float32
        self.values = self._config()

    def _config(self) -> dict[str, Any]:
        kind = architecture(self.fields, self.path.name)
        found = {ours: self.fields.get(f"{kind}.{theirs}") for theirs, ours in KEYS.items()}
        tokens = ("bos", "eos", "eot", "padding", "unknown")
        ids = {name: self.fields.get(f"tokenizer.ggml.{name}_token_id") for name in tokens}
        return {
            "model_type": kind,
            **{name: value for name, value in found.items() if value is not None},
            "vocab_size": self.shapes.get("token_embd.weight", (0,))[0],
            "tie_word_embeddings": "output.weight" not in self.shapes,
            "attention_bias": "blk.0.attn_q.bias" in self.shapes,
            "bos_token_id": ids["bos"],
            "eos_token_id": [each for each in (ids["eos"], ids["eot"]) if each is not None],
            "pad_token_id": ids["padding"],
            "unk_token_id": ids["unknown"],
        }

    def read(self, name: str) -> Tensor:
        """One tensor in float32. Raises CheckpointError for a kind of block that is not known."""
        tensor = self._tensors[name]
        try:
            numbers = self._dequantize(tensor.data, tensor.tensor_type)
        except RuntimeError as error:  # a kind of block that the package does not unpack
            raise CheckpointError(
                "gguf_block", file=self.path.name, tensor=tensor.name, reason=error
            ) from error
        values = torch.from_numpy(np.array(numbers, dtype=np.float32).reshape(self.shapes[name]))
        values = finite(values, self.path.name, tensor.name)
        # llama.cpp pairs neighbours, as this library does, in files of the Llama family alone.
        turned = re.search(r"\.attn_(q|k)\.", name)
        if turned and self.values["model_type"] == "llama":
            heads = "num_attention_heads" if turned[1] == "q" else "num_key_value_heads"
            return halves(self.values.get(heads, self.values["num_attention_heads"]))(values)
        return values

    def tokenizer(self) -> ForeignTokenizer:
        """The tokenizer inside. Raises ValueError for a kind that is not known."""
        said = {key: self.fields.get(f"tokenizer.ggml.{key}") for key in ("model", "pre")}
        listed = self.fields.get("tokenizer.ggml.tokens") or []
        types = self.fields.get("tokenizer.ggml.token_type") or [1] * len(listed)
        if said["model"] == "gpt2":
            raw, starts = self._byte_level(listed, str(said["pre"])), False
        elif said["model"] == "llama":
            raw, starts = self._metaspace(listed, types), True
        else:
            raise Refusal("gguf_tokenizer", value=repr(said["model"]))
        for token, kind in zip(listed, types, strict=True):
            added = tokenizers.AddedToken(token, normalized=False, special=kind == CONTROL)
            if kind == CONTROL:
                raw.add_special_tokens([added])
            elif kind == USER_DEFINED:
                raw.add_tokens([added])
        first = self.values["bos_token_id"]
        if self.fields.get("tokenizer.ggml.add_bos_token", starts) and first is not None:
            name = listed[first]
            raw.post_processor = processors.TemplateProcessing(
                single=[name, "$A"], special_tokens=[(name, first)]
            )
        prompt = prompt_in(str(self.fields.get("tokenizer.chat_template") or ""))
        return ForeignTokenizer(raw, marks_of(raw, {}, self.values), prompt)

    def _byte_level(self, listed: list[str], pre: str) -> tokenizers.Tokenizer:
        merges = [tuple(each.split(" ", 1)) for each in self.fields["tokenizer.ggml.merges"]]
        raw = tokenizers.Tokenizer(models.BPE({t: i for i, t in enumerate(listed)}, merges))
        steps: list[Any] = [pre_tokenizers.ByteLevel(False, use_regex=pre not in SPLITS)]
        if pre in SPLITS:
            steps.insert(0, pre_tokenizers.Split(tokenizers.Regex(SPLITS[pre]), "isolated"))
        elif pre == "smollm":
            steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
        elif pre != "gpt-2":
            known = ", ".join(("gpt-2", "smollm", *SPLITS))
            raise Refusal("gguf_words", value=repr(pre), known=known)
        raw.pre_tokenizer = pre_tokenizers.Sequence(steps)
        raw.decoder = decoders.ByteLevel()
        return raw

    def _metaspace(self, listed: list[str], types: list[int]) -> tokenizers.Tokenizer:
        """SentencePiece's BPE: of two neighbours the pair with the best score merges first."""
        ids = {token: i for i, token in enumerate(listed)}
        scores = self.fields["tokenizer.ggml.scores"]
        merges = []
        for token, i in ids.items():
            if types[i] == 1:
                halves_of = ((token[:at], token[at:]) for at in range(1, len(token)))
                found = [pair for pair in halves_of if pair[0] in ids and pair[1] in ids]
                found.sort(key=lambda pair: (ids[pair[0]], ids[pair[1]]))
                merges += [(scores[i], pair) for pair in found]
        merges.sort(key=lambda merge: -merge[0])
        raw = tokenizers.Tokenizer(
            models.BPE(
                ids,
                [pair for _, pair in merges],
                unk_token=listed[self.values["unk_token_id"] or 0],
                fuse_unk=True,
                byte_fallback=True,
            )
        )
        blanks = normalizers.Replace(" ", "▁")
        begins = self.fields.get("tokenizer.ggml.add_space_prefix", True)
        steps = [normalizers.Prepend("▁"), blanks] if begins else [blanks]
        raw.normalizer = normalizers.Sequence(steps)
        raw.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        )
        return raw


INSTALL = "pip install 'headlight[gguf]'"
SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
STRING, ARRAY, MOST_AXES = 8, 9, 8
USUAL_ALIGNMENT = 32  # bytes, of the place where the tensors begin
"""Types of values in a header, as struct formats; the two others are a string and an array."""


def architecture(fields: Mapping[str, Any], file_name: str) -> str:
    """The family of a file. Raises CheckpointError for one that cannot be opened exactly."""
    kind = fields.get("general.architecture")
    if kind not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise CheckpointError("gguf_family", file=file_name, value=repr(kind), known=known)
    scaled = fields.get(f"{kind}.rope.scaling.type", "none")
    if scaled != "none" or fields.get(f"{kind}.expert_count"):
        raise CheckpointError("gguf_angles", file=file_name)
    return str(kind)


def header(path: Path) -> tuple[dict[str, Any], int]:
    """The single values of a file's header and how many numbers its tensors hold, in a fraction of
    the time that reading its vocabulary takes. Raises CheckpointError for no readable header, and
    for a file that ends before its last tensor does.

    The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    """
    require_gguf(path)
    try:
        with path.open("rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as data:
            return _Header(data).read()
    except struct.error as error:
        reason = Refusal("ends_early")
        raise CheckpointError("broken_gguf", file=path.name, reason=reason) from error
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        raise CheckpointError("broken_gguf", file=path.name, reason=error) from error


class _Header:
    def __init__(self, data: mmap) -> None:
        self.data, self.at = data, 4

    def read(self) -> tuple[dict[str, Any], int]:
        from gguf import GGML_QUANT_SIZES  # of each kind: numbers and bytes of a block

        self._scalar("I")  # the version
        n_tensors, n_values = self._scalar("Q"), self._scalar("Q")
        values = {}
        for _ in range(n_values):
            name = self._string()
            values[name] = self._value(self._scalar("I"))
        total = last = 0
        for _ in range(n_tensors):
            self._string()
            n_axes = self._scalar("I")
            if n_axes > MOST_AXES:
                raise Refusal("gguf_axes", count=n_axes)
            count = math.prod(self._scalar("Q") for _ in range(n_axes))
            total += count
            in_block, n_bytes = GGML_QUANT_SIZES[self._scalar("I")]
            last = max(last, self._scalar("Q") + count // in_block * n_bytes)
        step = values.get("general.alignment") or USUAL_ALIGNMENT
        if -(-self.at // step) * step + last > len(self.data):
            raise Refusal("ends_early")
        return {name: value for name, value in values.items() if value is not None}, total

    def _scalar(self, kind: str) -> Any:
        (value,) = struct.unpack_from(f"<{kind}", self.data, self.at)
        self.at += struct.calcsize(f"<{kind}")
        return value

    def _string(self) -> str:
        size = self._scalar("Q")
        if size > len(self.data) - self.at:
            raise Refusal("gguf_string", size=size)
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        """One value; of an array nothing, it is passed by."""
        if kind == STRING:
            return self._string()
        if kind != ARRAY:
            return self._scalar(SCALARS[kind])
        inner, n = self._scalar("I"), self._scalar("Q")
        if inner in SCALARS:
            self.at += n * struct.calcsize(f"<{SCALARS[inner]}")
            return None
        if inner != STRING:
            raise Refusal("gguf_array", kind=inner)
        for _ in range(n):
            self.at += struct.unpack_from("<Q", self.data, self.at)[0] + 8
        return None


def require_gguf(path: Path) -> None:
    """Raise CheckpointError for a file that is no GGUF file, or that nothing here can read."""
    with path.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise CheckpointError("no_gguf", file=path.name)
    try:
        import gguf  # noqa: F401
    except ImportError as error:
        raise CheckpointError("no_gguf_package", file=path.name, command=INSTALL) from error


def gguf_in(path: Path) -> Path | None:
    """The GGUF file that a path is, or that a folder holds; None for neither, or for several."""
    if path.suffix == ENDING and path.is_file():
        return path
    inside = sorted(path.glob(f"*{ENDING}")) if path.is_dir() else []
    return inside[0] if len(inside) == 1 else None


def _name(theirs: str) -> str:
    """The name without its prefix that `transformers` has for a tensor; others stay."""
    block, found, rest = theirs.partition(".")
    if block == "blk" and found:
        number, _, rest = rest.partition(".")
        kind, _, leaf = rest.rpartition(".")
        return f"layers.{number}.{NAMES.get(kind, kind)}.{leaf}"
    return f"{NAMES.get(block, block)}{found}{rest}"


def real_name(ours: str) -> str:
    """The name in a file of what `transformers` calls so, whether the file has it or not."""
    kind, _, leaf = ours.rpartition(".")
    layer = ""
    if kind.startswith("layers."):
        _, number, kind = kind.split(".", 2)
        layer = f"blk.{number}."
    theirs = next((each for each, name in NAMES.items() if name == kind), kind)
    return f"{layer}{theirs}.{leaf}"
