"""GGUF: one file with the config, the (mostly quantised) weights and the tokenizer, which is built
from its lists of tokens, merges and scores.

The format of llama.cpp, read by its own package `gguf` (an extra of the package), which
dequantises all kinds of blocks. Names and config are converted to those of `transformers` for the
Llama, Qwen and Gemma families, so that the same tables apply.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor

from models.checkpoint import CheckpointError
from models.foreign.folds import halves
from models.foreign.gguf_header import header
from models.foreign.prompts import Template
from models.foreign.rotation import GGUF_TURNED
from models.foreign.tokens import ForeignTokenizer, marks_of
from models.foreign.weights import finite
from models.refusals import Refusal

CONTROL, USER_DEFINED = 3, 4  # types of tokens

_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
_OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n%s]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA = _LETTERS % "{1,3}" + _OTHERS % ""
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
SPLITS = {
    "llama-bpe": _LLAMA,
    "llama3": _LLAMA,
    "llama-v3": _LLAMA,
    "qwen2": _LETTERS % "" + _OTHERS % "",
    "tekken": rf"{_BEFORE}{_UPPER}*{_LOWER}+|{_BEFORE}{_UPPER}+{_LOWER}*|\p{{N}}" + _OTHERS % "/",
}
"""Pre-tokenisation patterns of these families, by llama.cpp's names."""

WHOLE = frozenset(SPLITS) - {"qwen2"}
"""Those that use a word of the vocabulary as one token even if no merges build it, and prepend the
start token by default."""


def tokenizer_in(fields: Mapping[str, Any], config: Mapping[str, Any]) -> ForeignTokenizer:
    """Build the tokenizer from a file's fields; `config` has the ids of the special tokens.

    Raises ValueError for an unknown kind.
    """
    listed = fields.get("tokenizer.ggml.tokens") or []
    types = fields.get("tokenizer.ggml.token_type") or [1] * len(listed)
    kind, pre = fields.get("tokenizer.ggml.model"), str(fields.get("tokenizer.ggml.pre"))
    if kind == "gpt2":
        raw, starts = _byte_level(listed, fields["tokenizer.ggml.merges"], pre), pre in WHOLE
    elif kind == "llama":
        raw, starts = _metaspace(listed, types, fields, config["unk_token_id"] or 0), True
    else:
        raise Refusal("gguf_tokenizer", value=repr(kind))
    for token, of in zip(listed, types, strict=True):
        added = tokenizers.AddedToken(token, normalized=False, special=of == CONTROL)
        if of == CONTROL:
            raw.add_special_tokens([added])
        elif of == USER_DEFINED:
            raw.add_tokens([added])
    first = config["bos_token_id"]
    if fields.get("tokenizer.ggml.add_bos_token", starts) and first is not None:
        name = listed[first]
        raw.post_processor = processors.TemplateProcessing(
            single=[name, "$A"], special_tokens=[(name, first)]
        )
    marks, source = marks_of(raw, {}, config), str(fields.get("tokenizer.chat_template") or "")
    usual = {"bos_token": marks.start, "eos_token": marks.end, "unk_token": marks.unknown}
    named = {name: listed[token] for name, token in usual.items() if token is not None}
    return ForeignTokenizer(raw, marks, Template(source, named) if source else None)


def _byte_level(listed: list[str], merged: list[str], pre: str) -> tokenizers.Tokenizer:
    merges = [(first, second) for first, _, second in (merge.partition(" ") for merge in merged)]
    ids = {token: i for i, token in enumerate(listed)}
    raw = tokenizers.Tokenizer(models.BPE(ids, merges, ignore_merges=pre in WHOLE))
    steps: list[Any] = [pre_tokenizers.ByteLevel(False, use_regex=pre not in SPLITS)]
    if pre in SPLITS:
        steps.insert(0, pre_tokenizers.Split(tokenizers.Regex(SPLITS[pre]), "isolated"))
    elif pre == "smollm":
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    elif pre != "gpt-2":
        known = ", ".join(("gpt-2", "smollm", *SPLITS))
        raise Refusal("gguf_words", value=repr(pre), known=known)
    if pre == "qwen2":
        raw.normalizer = normalizers.NFC()
    raw.pre_tokenizer = pre_tokenizers.Sequence(steps)
    raw.decoder = decoders.ByteLevel()
    return raw


def _metaspace(
    listed: list[str], types: list[int], fields: Mapping[str, Any], unknown: int
) -> tokenizers.Tokenizer:
    """SentencePiece's BPE: the adjacent pair with the best score is merged first."""
    ids = {token: i for i, token in enumerate(listed)}
    scores = fields["tokenizer.ggml.scores"]
    merges = []
    for token, i in ids.items():
        if types[i] == 1:
            halves_of = ((token[:at], token[at:]) for at in range(1, len(token)))
            pairs = [pair for pair in halves_of if pair[0] in ids and pair[1] in ids]
            pairs.sort(key=lambda pair: (ids[pair[0]], ids[pair[1]]))
            merges += [(scores[i], pair) for pair in pairs]
    merges.sort(key=lambda merge: -merge[0])
    raw = tokenizers.Tokenizer(
        models.BPE(
            ids,
            [pair for _, pair in merges],
            unk_token=listed[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    blanks = normalizers.Replace(" ", "▁")
    begins = fields.get("tokenizer.ggml.add_space_prefix", True)
    steps = [normalizers.Prepend("▁"), blanks] if begins else [blanks]
    raw.normalizer = normalizers.Sequence(steps)
    raw.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return raw


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
BETWEEN = NAMES | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
"""Names since Gemma 2, which has norms before and after each sublayer."""

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
WINDOWS = KEYS | {
    "attention.sliding_window": "sliding_window",
    "attention.sliding_window_pattern": "sliding_window_pattern",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "rope.freq_base_swa": "rope_local_base_freq",
}
FAMILIES = {  # per architecture: its family, names and keys
    "llama": ("llama", NAMES, KEYS),
    "qwen2": ("qwen2", NAMES, KEYS),
    "qwen3": ("qwen3", NAMES, KEYS),
    "gemma": ("gemma", NAMES, KEYS),
    "gemma2": ("gemma2", BETWEEN, WINDOWS),
    "gemma3": ("gemma3_text", BETWEEN, WINDOWS),
}
OF_OTHERS = {"vocab_size", "tensor_data_layout", "expert_count", "expert_used_count"}
OF_ROTATION = {f"rope.{name}" for name in ("dimension_count", "scaling.type", "scaling.factor")}
USUAL = {"attention.causal": True, "rope.scaling.attn_factor": 1.0, "rope.scaling.finetuned": False}
"""Further keys that are read or have no effect, and keys that have no effect at these values."""

FACTORS = "rope_freqs.weight"
LARGEST = {"gemma2": 46, "gemma3": 62}  # layers of the 27B models


class GGUF:
    """An open file; `named` maps the `transformers` names of its tensors to the stored names.

    `values` is its config in the form of a config.json. Raises CheckpointError if the file cannot
    be read, belongs to another family, or has a setting that is not supported.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        contents = header(path)
        self.fields, self._tensors, self.name = contents.values, contents.tensors, path.name
        self.kind = architecture(self.fields, path.name)
        self._names = FAMILIES[self.kind][1]
        self.named = {self._name(key): key for key in self._tensors if key != FACTORS}
        self.shapes: Mapping[str, tuple[int, ...]] = {
            name: tensor.shape for name, tensor in self._tensors.items()
        }
        self.half: torch.dtype | None = None  # blocks are dequantised to float32
        self.values = self._config()

    def _config(self) -> dict[str, Any]:
        family, _, keys = FAMILIES[self.kind]
        metadata = {
            name.removeprefix(f"{self.kind}."): value
            for name, value in self.fields.items()
            if name.startswith(f"{self.kind}.")
        }
        for name, value in metadata.items():
            if name == "attention.value_length":
                wanted = metadata.get("attention.key_length", value)
            else:
                wanted = USUAL.get(name)
            known = name in keys or name in OF_OTHERS or name in OF_ROTATION
            if not known and value != wanted:
                raise CheckpointError("gguf_key", file=self.name, name=name, value=repr(value))
        settings = {ours: metadata[theirs] for theirs, ours in keys.items() if theirs in metadata}
        tokens = ("bos", "eos", "eot", "padding", "unknown")
        ids = {name: self.fields.get(f"tokenizer.ggml.{name}_token_id") for name in tokens}
        return {
            "model_type": family,
            **settings,
            **self._rotation(metadata),
            "vocab_size": self.shapes.get("token_embd.weight", (0,))[0],
            "tie_word_embeddings": "output.weight" not in self.shapes,
            "attention_bias": "blk.0.attn_q.bias" in self.shapes,
            "bos_token_id": ids["bos"],
            "eos_token_id": [end for end in (ids["eos"], ids["eot"]) if end is not None],
            "pad_token_id": ids["padding"],
            "unk_token_id": ids["unknown"],
        }

    def _rotation(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """The head width, the rotated share of it, and the scaling of the angles."""
        try:
            usual = said["embedding_length"] // said["attention.head_count"]
            d_head = said.get("attention.key_length", usual)
            self._turned = said.get("rope.dimension_count", d_head)
        except (KeyError, TypeError, ZeroDivisionError):  # the family refuses it, naming the key
            return {}
        scaled: dict[str, Any] = {}
        if said.get("rope.scaling.type", "none") == "linear":
            scaled = {"type": "linear", "factor": said.get("rope.scaling.factor", 1.0)}
        if FACTORS in self.shapes:
            factors = self.read(FACTORS).tolist()
            scaled = {"type": "longrope", "short_factor": factors, "long_factor": factors}
            scaled |= {"attention_factor": 1.0}
        of_gemma = {}
        if self.kind in LARGEST:
            largest = said.get("block_count") == LARGEST[self.kind]
            of_gemma = {"query_pre_attn_scalar": usual if largest else d_head}
        return {
            "head_dim": d_head,
            GGUF_TURNED: self._turned,
            "rope_scaling": scaled or None,
            **of_gemma,
        }

    def read(self, name: str) -> Tensor:
        """One tensor in float32. Raises CheckpointError for an unknown kind of block."""
        from gguf import GGMLQuantizationType, dequantize

        tensor = self._tensors[name]
        blocks = np.fromfile(tensor.file, np.uint8, tensor.size, offset=tensor.at)
        try:
            rows = blocks.reshape(*tensor.shape[:-1], -1)
            numbers = dequantize(rows, GGMLQuantizationType(tensor.kind))
        except RuntimeError as error:  # a kind of block that the package cannot dequantise
            raise CheckpointError(
                "gguf_block", file=tensor.file.name, tensor=name, reason=error
            ) from error
        values = torch.from_numpy(np.array(numbers, dtype=np.float32).reshape(self.shapes[name]))
        values = finite(values, tensor.file.name, name)
        if self.kind.startswith("gemma") and name.endswith("norm.weight"):
            return values - 1  # stored with 1 added, which the family's fold adds again
        # Only in files of the Llama family does llama.cpp pair adjacent features, as here.
        turned = re.search(r"\.attn_(q|k)\.", name)
        if turned and self.kind == "llama":
            heads = "num_attention_heads" if turned[1] == "q" else "num_key_value_heads"
            n_heads = self.values.get(heads, self.values["num_attention_heads"])
            return halves(n_heads, self._turned)(values)
        return values

    def tokenizer(self) -> ForeignTokenizer:
        """The file's tokenizer. Raises ValueError for an unknown kind."""
        return tokenizer_in(self.fields, self.values)

    def _name(self, theirs: str) -> str:
        """The `transformers` name of a tensor, without prefix; unknown names are unchanged."""
        block, dot, rest = theirs.partition(".")
        if block == "blk" and dot:
            number, _, rest = rest.partition(".")
            kind, _, leaf = rest.rpartition(".")
            return f"layers.{number}.{self._names.get(kind, kind)}.{leaf}"
        return f"{self._names.get(block, block)}{dot}{rest}"

    def real_name(self, ours: str) -> str:
        """The file's name for a `transformers` name, whether or not the file has the tensor."""
        kind, _, leaf = ours.rpartition(".")
        layer = ""
        if kind.startswith("layers."):
            _, number, kind = kind.split(".", 2)
            layer = f"blk.{number}."
        theirs = next((key for key, name in self._names.items() if name == kind), kind)
        return f"{layer}{theirs}.{leaf}"


def architecture(fields: Mapping[str, Any], file_name: str) -> str:
    """The architecture of a file. Raises CheckpointError if it cannot be reproduced exactly."""
    kind = fields.get("general.architecture")
    if kind not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise CheckpointError("gguf_family", file=file_name, value=repr(kind), known=known)
    scaled = fields.get(f"{kind}.rope.scaling.type", "none")
    if scaled not in ("none", "linear") or fields.get(f"{kind}.expert_count"):
        raise CheckpointError("gguf_angles", file=file_name)
    return str(kind)
