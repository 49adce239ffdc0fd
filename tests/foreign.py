"""Tiny models of other libraries as folders, made from what `benchmarks/parity.py` wrote down.

A golden file holds a config, the names and shapes of the stored tensors, and what `transformers`
computed. The weights themselves follow from their names, so a file has a few KB.
"""

import json
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from models.checkpoint import CheckpointError
from models.foreign import FAMILIES, open_folder
from models.foreign.folds import neighbours
from models.foreign.gguf_file import FAMILIES as GGUF_FAMILIES

GOLDEN = Path(__file__).parent / "models" / "foreign" / "golden"
VOCABULARY = 61  # of every golden model; no other size is 61
TEXTS = ("first", "second")
COPIES = (
    ("llama-tied", "lm_head.weight", "model.embed_tokens.weight"),
    ("gpt2", "lm_head.weight", "transformer.wte.weight"),
    ("gemma2", "lm_head.weight", "model.embed_tokens.weight"),
    ("bert", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    ("bert", "cls.predictions.decoder.bias", "cls.predictions.bias"),
    ("roberta", "lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
    ("distilbert", "vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"),
    ("t5", "lm_head.weight", "shared.weight"),
    ("t5", "encoder.embed_tokens.weight", "shared.weight"),
    ("t5", "decoder.embed_tokens.weight", "shared.weight"),
    ("marian", "lm_head.weight", "model.shared.weight"),
    ("marian", "model.encoder.embed_tokens.weight", "model.shared.weight"),
    ("marian", "model.decoder.embed_tokens.weight", "model.shared.weight"),
)
"""Of a golden model: a tensor that its file may also have, and the one that it usually copies."""
COPIED = GOLDEN.parent / "copies.npz"
"""The logits of the first text where such a tensor differs (`own_numbers`)."""
PREPARED = GOLDEN.parent / "prepared.npz"
"""Pictures of `ODD` modes and sizes, prepared by the processors of `transformers`."""
ODD = (("RGB", (7, 31)), ("RGBA", (33, 9)), ("L", (21, 22)), ("RGB", (16, 16)), ("RGB", (3, 1)))
NAMES = tuple(sorted(path.stem for path in GOLDEN.glob("*.npz")))


def family_list(lang: str) -> str:
    """All families by title, as the documents list them."""
    titles = list(dict.fromkeys(family.title for family in FAMILIES.values()))
    if lang == "en":
        return ", ".join(titles) + "."
    listed = "、".join(titles) + "。"
    words = {" and ": "、", " with registers": "（带寄存器）", " (images)": "（图像）"}
    for english, chinese in words.items():
        listed = listed.replace(english, chinese)
    return listed


def weights(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """The numbers of a tensor, which follow from its name: norms and biases are scattered too."""
    random = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    values = 2 * random.random(shape) - 1
    if len(shape) == 1 or shape[0] == 1:
        values = 0.5 * values + (1.0 if name.endswith("weight") else 0.0)
    elif shape[0] == VOCABULARY:
        values *= 0.9
    else:
        values *= 2.5 / shape[-1] ** 0.5
    return torch.tensor(values, dtype=torch.float32)


def own_numbers(name: str, like: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor that differs from it."""
    return weights(f"{name}, not copied", tuple(like.shape))


OWN = ("gpt2", "llama", "qwen3", "gemma2", "gemma3_text", "gpt_neox", "bert", "marian", "t5")
"""One model of each kind, each with its own kind of tokenizer, for whole pages."""


@dataclass(frozen=True)
class Golden:
    """What `transformers` computed for the texts of one tiny model."""

    name: str
    config: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    arrays: dict[str, np.ndarray]
    processor: dict[str, Any] | None = None

    @classmethod
    def load(cls, name: str) -> "Golden":
        with np.load(GOLDEN / f"{name}.npz") as file:
            arrays = dict(file)
        said = json.loads(bytes(arrays.pop("described")).decode())
        shapes = {key: tuple(shape) for key, shape in said["shapes"].items()}
        return cls(name, said["config"], shapes, arrays, said.get("processor"))

    def tensors(self, vocab: int = VOCABULARY) -> dict[str, torch.Tensor]:
        """The stored tensors; `vocab` is another size of the vocabulary, for a tokenizer."""
        shapes = {
            name: tuple(vocab if size == VOCABULARY else size for size in shape)
            for name, shape in self.shapes.items()
        }
        return {name: weights(name, shape) for name, shape in shapes.items()}

    def write(self, folder: Path, kind: str = "none", vocab: int = VOCABULARY) -> Path:
        """The model as a folder, with a tokenizer of this kind; "own": of that of the family.

        With "none" it has the golden vocabulary, and a tokenizer that nobody asks.
        """
        folder.mkdir(parents=True, exist_ok=True)
        kind = KINDS.get(self.name, "byte_level") if kind == "own" else kind
        kind = "pair" if kind == "none" and self.name.endswith("-pair") else kind
        tokenizer = TOKENIZERS[kind]()
        vocab = vocab if kind in ("none", "pair") else tokenizer.get_vocab_size()
        sized = [k for k in self.config if k.endswith("vocab_size") and k != "type_vocab_size"]
        config = self.config | dict.fromkeys(sized, vocab)
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        save_file(self.tensors(vocab), folder / "model.safetensors")
        if self.processor:
            (folder / "preprocessor_config.json").write_text(json.dumps(self.processor))
            return folder
        if self.config.get("share_encoder_decoder_embeddings") is False:
            names = ["</s>", "<unk>", *(f"word {i}" for i in range(2, vocab))]
            for side, table in (("source", "vocab"), ("target", "target_vocab")):
                shutil.copy(GOLDEN / f"{side}.spm", folder / f"{side}.spm")
                ids = {name: i for i, name in enumerate(names)}
                (folder / f"{table}.json").write_text(json.dumps(ids), encoding="utf-8")
        else:
            tokenizer.save(str(folder / "tokenizer.json"))
        named = json.dumps(MARKS.get(kind or "", {}))
        (folder / "tokenizer_config.json").write_text(named, encoding="utf-8")
        return folder


CORPUS = (
    "I like you because you are kind. She reads a book every morning.",
    "We went to the park yesterday.",
    "Once upon a time there was a little fox who lived in a dark wood with her two brothers.",
    "The animal didn't cross the street because it was too tired. I love you.",
)
CHINESE = "我喜欢你，因为你很善良。", "她每天早上看书。", "我们昨天去了公园。", "我爱你。你爱我们。"
TO_CUT = (
    *CORPUS,
    *CHINESE,
    "  leading and   double blanks ",
    "We loved the parks, 我 too.",
    "😀 wholly unknown ①",
    "</s> <unk> typed",
    "",
)
REST = [(f"<{number}>", -9.0) for number in range(40)]
"""Most of a vocabulary of 61 tokens: the app says where a tokenizer has few."""
WORDS = sorted({word for line in CORPUS for word in line.replace(".", " .").split()})


def byte_level(*more: str) -> Tokenizer:
    """As GPT-2, Llama 3 and Qwen have it: no word is unknown, and no mark stands around a text.

    `more` are further tokens, written as such vocabularies write bytes.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {char: i for i, char in enumerate([*alphabet, *more])}
    merges = [("Ġ", "t"), ("h", "e"), ("Ġt", "he")]
    for first, second in merges:
        vocab[first + second] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def metaspace() -> Tokenizer:
    """As Llama 2, Mistral and TinyLlama have it: BPE that falls back to bytes, `<s>` before."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    vocab |= {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    characters = ["▁", *sorted({c for line in CORPUS for c in line if not c.isspace()})]
    vocab |= {char: len(vocab) + i for i, char in enumerate(characters)}
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he")]
    for first, second in merges:
        vocab[first + second] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return tokenizer


def word_pieces() -> Tokenizer:
    """As BERT has it: `[CLS]` before a text and `[SEP]` behind it."""
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = sorted({c for line in CORPUS for c in line.lower() if not c.isspace()})
    pieces = dict.fromkeys([*marks, *[w.lower() for w in WORDS], *letters, "我", "你"])
    pieces |= dict.fromkeys(f"##{c}" for c in letters)
    vocab = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(marks)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def unigram() -> Tokenizer:
    """As T5 and Marian have it: `</s>` behind a text; the decoder begins with the padding."""
    letters = sorted({c for line in CORPUS for c in line if not c.isspace()})
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -20.0), ("▁", -4.0)]
    pieces += [(f"▁{word}", -5.0 - 0.01 * i) for i, word in enumerate(WORDS) if word != "."]
    pieces += [(letter, -8.0 - 0.01 * i) for i, letter in enumerate([*letters, "我", "你"])]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.normalizer = normalizers.Replace(Regex(" {2,}"), " ")
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return tokenizer


def without_unknown() -> Tokenizer:
    """A Unigram model whose unknown token is null: the library fails on any other letter."""
    pieces = [*REST, ("▁the", -1.0), ("▁cat", -1.0), ("▁", -2.0)]
    pieces += [(letter, -3.0) for letter in "thecafs"]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=None))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def dropping() -> Tokenizer:
    """A BPE model without an unknown token: the library leaves out any other letter."""
    vocab = {piece: i for i, piece in enumerate([*dict(REST), *"thecas"])}
    tokenizer = Tokenizer(models.BPE(vocab, []))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def none() -> Tokenizer:
    """Hardly a tokenizer: a model is read without it."""
    vocab = {"a": 0, "<unk>": 1} | {f"word {i}": i for i in range(2, VOCABULARY)}
    return Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))


def pair() -> Tokenizer:
    """The same with a template for pairs."""
    tokenizer = none()
    tokenizer.post_processor = processors.BertProcessing(("word 3", 3), ("word 2", 2))
    return tokenizer


TOKENIZERS = {
    make.__name__: make for make in (none, pair, byte_level, metaspace, word_pieces, unigram)
}
MARKS = {
    "byte_level": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
    "metaspace": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
    "word_pieces": {
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "mask_token": "[MASK]",
        "unk_token": "[UNK]",
    },
    "unigram": {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"},
}
KINDS = {
    name: kind
    for kind, names in (
        ("metaspace", "llama llama-headless mistral gemma2 gemma3_text"),
        ("word_pieces", "bert bert-headless distilbert labels/bert labels/bert-tokens modernbert"),
        ("unigram", "marian marian-apart marian-headless t5 t5-encoder t5-gated mt5"),
    )
    for name in names.split()
}
CODES = ("deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans")


def of_many(
    path: Path, template: str, codes: tuple[str, ...] = CODES, name: str = "m2m_100", **said: int
) -> tuple[Path, Tokenizer]:
    """A translator whose tokenizer puts `template` around a text."""
    raw = unigram()
    raw.add_special_tokens([*codes, "<s>"])
    used = [(part, raw.token_to_id(part)) for part in template.split() if part != "$A"]
    raw.post_processor = processors.TemplateProcessing(single=template, special_tokens=used)
    golden = Golden.load(name)
    folder = golden.write(path, "unigram", vocab=raw.get_vocab_size())
    change_config(folder, vocab_size=raw.get_vocab_size(), **said)
    raw.save(str(folder / "tokenizer.json"))
    save_file(golden.tensors(raw.get_vocab_size()), folder / "model.safetensors")
    return folder, raw


def refused(folder: Path, *said: str) -> None:
    """The folder cannot be opened, and the reason names it and says all this."""
    with pytest.raises(CheckpointError) as error:
        open_folder(folder)
    for each in (f"{folder.name}: ", *said):
        assert each in str(error.value), str(error.value)


def change_config(folder: Path, **changes: Any) -> None:
    """Other values in its config.json; "absent": none."""
    path = folder / "config.json"
    values = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in values.items() if v != "absent"}))


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    """What `change` makes of its tensors."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def write_gguf(
    golden: Golden,
    path: Path,
    quantised: bool = False,
    vocab: int = 61,
    split: int = 0,
    **fields: Any,
) -> Path:
    """The golden model as llama.cpp's converter writes it, without a tokenizer's words; `split`:
    into parts of so many tensors."""
    import gguf  # here, since it takes half a second, and each worker collects every test

    kind = golden.config["model_type"].removesuffix("_text")
    _, names, keys = GGUF_FAMILIES[kind]
    writer = gguf.GGUFWriter(path, kind, split_max_tensors=split)
    rotation = golden.config["rope_parameters"]
    config = golden.config | rotation.get("full_attention", rotation)
    for theirs, ours in keys.items():
        value = config.get(ours)
        if isinstance(value, float):
            writer.add_float32(f"{kind}.{theirs}", value)
        elif value is not None:
            writer.add_uint32(f"{kind}.{theirs}", value)
    back = {theirs: ours for ours, theirs in names.items()}
    n_turned = fields.pop("turned", config.get("head_dim") or 6)
    writer.add_uint32(f"{kind}.rope.dimension_count", n_turned)
    if (factors := fields.pop("factors", None)) is not None:
        writer.add_tensor("rope_freqs.weight", np.array(factors, dtype=np.float32))
    for name, tensor in golden.tensors(vocab).items():
        plain = name.removeprefix("model.").rpartition(".")[0]
        number = ""
        if plain.startswith("layers."):
            _, number, plain = plain.split(".", 2)
        if kind == "llama" and plain in ("self_attn.q_proj", "self_attn.k_proj"):
            key = "num_attention_heads" if "q_" in plain else "num_key_value_heads"
            tensor = neighbours(config[key], n_turned)(tensor)
        if kind.startswith("gemma") and plain.endswith("norm"):
            tensor = tensor + 1
        ours = f"blk.{number}.{back[plain]}" if number else back[plain]
        numbers, leaf = tensor.numpy(), name.rpartition(".")[2]
        if quantised and numbers.ndim == 2:
            numbers = numbers.astype(np.float16)
        writer.add_tensor(f"{ours}.{leaf}", numbers)
    words = fields.pop("words", ["a", "b", "ab", *(f"<{i}>" for i in range(vocab - 3))])
    writer.add_token_list(words)
    for key in [key for key in fields if key.startswith(kind)]:
        value = fields.pop(key)
        writer.add_key_value(key, value, *_type(value))
    for key, value in ({"model": "gpt2", "pre": "gpt-2", "merges": ["a b"]} | fields).items():
        writer.add_key_value(f"tokenizer.ggml.{key}", value, *_type(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _type(value: Any) -> tuple[Any, ...]:
    import gguf

    kinds = {
        str: gguf.GGUFValueType.STRING,
        bool: gguf.GGUFValueType.BOOL,
        int: gguf.GGUFValueType.UINT32,
        float: gguf.GGUFValueType.FLOAT32,
    }
    if isinstance(value, list):
        return gguf.GGUFValueType.ARRAY, kinds[type(value[0])]
    return (kinds[type(value)],)
