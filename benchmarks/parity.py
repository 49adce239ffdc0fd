"""The same numbers as `transformers`: tiny models of every family that can be opened, compared.

`make parity` builds each with `transformers` (eager attention, float32; norms and biases scattered,
since fresh ones are 1 and 0 and hide faults), saves it as people save models, opens the folder here
and compares the logits, every layer's stream and every pattern, at all positions; then the last
layer with padding on either side, and read token by token with a cache. It needs an
environment of its own, which the Makefile makes. `--write` writes the golden files that the tests
compare with.
"""

import argparse
import io
import json
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from explorer.runs.run import run
from models.cache import KVCache
from models.foreign import open_folder
from models.rows import Rows
from models.transformer import Model

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from foreign import (
    CHINESE,
    COPIED,
    COPIES,
    CORPUS,
    GOLDEN,
    TEXTS,
    TO_CUT,
    VOCABULARY,
    Golden,
    own_numbers,
    weights,
)

LENGTHS = {"first": (14, 13), "second": (12, 12)}  # of tgt, of src

Small = dict[str, Any]
GPT2: Small = {
    "n_embd": 24,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 32,
    "bos_token_id": 3,
    "eos_token_id": 3,
}
NEO: Small = {
    "hidden_size": 24,
    "num_layers": 2,
    "num_heads": 4,
    "max_position_embeddings": 32,
    "window_size": 5,
    "attention_types": [[["global", "local"], 1]],
    "bos_token_id": 3,
    "eos_token_id": 3,
}
LLAMA: Small = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 28,
    "max_position_embeddings": 64,
}

OPT: Small = {
    "hidden_size": 24,
    "word_embed_proj_dim": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "ffn_dim": 28,
    "max_position_embeddings": 40,
}
BERT: Small = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 28,
    "max_position_embeddings": 40,
}
DISTILBERT: Small = {
    "dim": 24,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 28,
    "max_position_embeddings": 40,
}
NEOX: Small = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 28,
    "max_position_embeddings": 64,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
    },
}
LLAMA3: Small = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 60,
}
YARN: Small = {
    "rope_type": "yarn",
    "rope_theta": 1000.0,
    "factor": 4.0,
    "beta_fast": 4.0,
    "original_max_position_embeddings": 40,
}
LONGROPE: Small = {
    "rope_type": "longrope",
    "rope_theta": 1000.0,
    "short_factor": [1.0, 1.5, 2.0],
    "long_factor": [1.0, 3.0, 9.0],
    "original_max_position_embeddings": 13,
}
DYNAMIC: Small = {"rope_type": "dynamic", "rope_theta": 1000.0, "factor": 3.0}
PARTIAL: Small = {"partial_rotary_factor": 0.5}
LINEAR: Small = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
GEMMA: Small = {
    "head_dim": 10,
    "query_pre_attn_scalar": 7,
}
WINDOW: Small = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
CAPS: Small = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
KINDS: Small = {"layer_types": ["sliding_attention", "full_attention"]}
STRETCHED: Small = {
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
    }
}
EIGHTHS: Small = {**LLAMA, "num_attention_heads": 3, "num_key_value_heads": 1}
MULTIPLIERS: Small = {
    "embedding_multiplier": 3.0,
    "logits_scaling": 2.0,
    "residual_multiplier": 0.6,
    "attention_multiplier": 0.3,
}
T5: Small = {
    "d_model": 24,
    "d_kv": 10,
    "d_ff": 28,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
GATED: Small = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
MARIAN: Small = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 28,
    "decoder_ffn_dim": 28,
    "max_position_embeddings": 40,
    "activation_function": "swish",
    "scale_embedding": True,
    "static_position_embeddings": True,
    "decoder_start_token_id": 0,
    "eos_token_id": 1,
    "forced_eos_token_id": 1,
}

BART: Small = {
    key: value
    for key, value in MARIAN.items()
    if key not in ("static_position_embeddings", "activation_function")
}

MODELS: dict[str, tuple[str, Small]] = {
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "openai-gpt": ("OpenAIGPTLMHeadModel", GPT2),
    "gpt_neo": ("GPTNeoForCausalLM", NEO),
    "gptj": ("GPTJForCausalLM", {**GPT2, "rotary_dim": 4}),
    "bloom": ("BloomForCausalLM", {"hidden_size": 24, "n_layer": 2, "n_head": 3}),
    "mpt": ("MptForCausalLM", {"d_model": 24, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}),
    "llama": ("LlamaForCausalLM", {**LLAMA, "attention_bias": True, "mlp_bias": True}),
    "llama-tied": (
        "LlamaForCausalLM",
        {
            **LLAMA,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
        },
    ),
    "llama-headless": ("LlamaModel", LLAMA),
    "llama3": ("LlamaForCausalLM", {**LLAMA, "rope_parameters": LLAMA3}),
    "llama-linear": ("LlamaForCausalLM", {**LLAMA, "rope_parameters": LINEAR}),
    "llama-yarn": ("LlamaForCausalLM", {**LLAMA, "rope_parameters": YARN}),
    "llama-longrope": ("LlamaForCausalLM", {**LLAMA, "rope_parameters": LONGROPE}),
    "llama-dynamic": (
        "LlamaForCausalLM",
        {**LLAMA, "rope_parameters": DYNAMIC, "max_position_embeddings": 13},
    ),
    "mistral": ("MistralForCausalLM", {**LLAMA, "sliding_window": 5}),
    "qwen2": ("Qwen2ForCausalLM", LLAMA),
    "qwen2-window": ("Qwen2ForCausalLM", {**LLAMA, **WINDOW}),
    "qwen3": ("Qwen3ForCausalLM", {**LLAMA, "head_dim": 10}),
    "qwen3-yarn": (
        "Qwen3ForCausalLM",
        {
            **LLAMA,
            "head_dim": 10,
            "rope_parameters": {**YARN, "mscale": 2.0, "mscale_all_dim": 0.5, "truncate": False},
        },
    ),
    "gemma": ("GemmaForCausalLM", {**LLAMA, "head_dim": 10}),
    "gemma2": ("Gemma2ForCausalLM", {**LLAMA, **GEMMA, **CAPS, "sliding_window": 6}),
    "gemma3_text": ("Gemma3ForCausalLM", {**LLAMA, **GEMMA, "sliding_window": 6, **KINDS}),
    "gemma3_text-linear": (
        "Gemma3ForCausalLM",
        {**LLAMA, **GEMMA, "sliding_window": 6, **KINDS, **STRETCHED},
    ),
    "phi3": (
        "Phi3ForCausalLM",
        {**LLAMA, "rope_parameters": LONGROPE, "original_max_position_embeddings": 13},
    ),
    "phi": ("PhiForCausalLM", {**LLAMA, "num_attention_heads": 3, "num_key_value_heads": 3}),
    "starcoder2": ("Starcoder2ForCausalLM", {**LLAMA, "sliding_window": 5}),
    "granite": ("GraniteForCausalLM", {**LLAMA, **MULTIPLIERS, "attention_bias": True}),
    "granite-tied": (
        "GraniteForCausalLM",
        {**LLAMA, **MULTIPLIERS, "tie_word_embeddings": True},
    ),
    "stablelm": ("StableLmForCausalLM", {**EIGHTHS, "use_qkv_bias": True}),
    "stablelm-parallel": ("StableLmForCausalLM", {**EIGHTHS, "use_parallel_residual": True}),
    "olmo": ("OlmoForCausalLM", LLAMA),
    "cohere": ("CohereForCausalLM", {**LLAMA, "logit_scale": 0.5}),
    "gpt_neox": ("GPTNeoXForCausalLM", NEOX),
    "gpt_neox-in-turn": ("GPTNeoXForCausalLM", {**NEOX, "use_parallel_residual": False}),
    "gpt_neox-yarn": ("GPTNeoXForCausalLM", {**NEOX, "rope_parameters": {**YARN, **PARTIAL}}),
    "gpt_neox-linear": ("GPTNeoXForCausalLM", {**NEOX, "rope_parameters": {**LINEAR, **PARTIAL}}),
    "marian": ("MarianMTModel", MARIAN),
    "marian-headless": ("MarianModel", MARIAN),
    "bart": ("BartForConditionalGeneration", BART),
    "bart-headless": ("BartModel", BART),
    "mbart": ("MBartForConditionalGeneration", BART),
    "m2m_100": ("M2M100ForConditionalGeneration", {**BART, "pad_token_id": 1}),
    "pegasus": ("PegasusForConditionalGeneration", BART),
    "opt": ("OPTForCausalLM", {**OPT, "activation_function": "gelu"}),
    "opt-post": ("OPTForCausalLM", {**OPT, "do_layer_norm_before": False}),
    "t5": ("T5ForConditionalGeneration", T5),
    "t5-gated": ("T5ForConditionalGeneration", {**T5, **GATED}),
    "t5-encoder": ("T5EncoderModel", T5),
    "mt5": ("MT5ForConditionalGeneration", {**T5, **GATED}),
    "bert": ("BertForMaskedLM", BERT),
    "bert-headless": ("BertModel", BERT),
    "roberta": ("RobertaForMaskedLM", {**BERT, "pad_token_id": 1, "type_vocab_size": 1}),
    "xlm-roberta": ("XLMRobertaForMaskedLM", {**BERT, "pad_token_id": 1, "type_vocab_size": 1}),
    "camembert": ("CamembertForMaskedLM", {**BERT, "pad_token_id": 1, "type_vocab_size": 1}),
    "distilbert": ("DistilBertForMaskedLM", DISTILBERT),
}
EXTRA = {"mt5": {"lm_head.weight": (VOCABULARY, 24)}}
"""Tensors that files of some models have, and newly saved ones do not."""


def built(name: str, folder: Path) -> torch.nn.Module:
    """The model of `transformers`, saved to `folder` and read from there."""
    kind, sizes = MODELS[name]
    cls = getattr(hf, kind)
    config = cls.config_class(**{"vocab_size": VOCABULARY, "pad_token_id": 0, **sizes})
    cls(config).save_pretrained(folder)
    path = folder / "model.safetensors"
    shapes = {key: tuple(tensor.shape) for key, tensor in load_file(path).items()}
    shapes |= EXTRA.get(name, {})
    stored = {key: weights(key, shape) for key, shape in shapes.items()}
    save_file(stored, path, metadata={"format": "pt"})
    return cls.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()


def texts(name: str) -> dict[str, torch.Tensor]:
    """The ids of two texts, and of their sources."""
    random = np.random.Generator(np.random.PCG64(7))
    return {
        f"{text}.{stream}": torch.tensor(random.integers(4, VOCABULARY, (1, length)))
        for text, lengths in LENGTHS.items()
        for stream, length in zip(("tgt", "src"), lengths, strict=True)
    }


def layers(model: Any) -> dict[str, list[torch.nn.Module]]:
    """The blocks of a model of `transformers`, by what we call their stack."""
    found: dict[str, list[torch.nn.Module]] = {}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.ModuleList) and name.rpartition(".")[2] in (
            "h",
            "layers",
            "layer",
            "block",
            "blocks",
        ):
            whole = name.split(".")
            stack = next((s for s in ("encoder", "decoder") if s in whole[:2]), "")
            if len(module) == 2 and not any(part.isdecimal() for part in whole):
                found[stack if model.config.is_encoder_decoder else ""] = list(module)
    return found


def computed(model: Any, ids: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Logits, streams and patterns of every text, by our names."""
    arrays: dict[str, np.ndarray] = {}
    for text in TEXTS:
        tgt, src = ids[f"{text}.tgt"], ids[f"{text}.src"]
        handles = []

        def keep(name: str) -> Callable[..., None]:
            def hook(module: Any, args: Any, output: Any) -> None:
                arrays[name] = (output[0] if isinstance(output, tuple | list) else output)[
                    0
                ].numpy()

            return hook

        for stack, blocks in layers(model).items():
            for layer, block in enumerate(blocks):
                path = ".".join(filter(None, (stack, f"blocks.{layer}.hook_resid_post")))
                handles.append(block.register_forward_hook(keep(f"{text}/{path}")))
        given = {"input_ids": tgt}
        if model.config.is_encoder_decoder:
            given = {"input_ids": src, "decoder_input_ids": tgt}
        with torch.no_grad():
            out = model(**given, output_attentions=True, use_cache=False)
        for handle in handles:
            handle.remove()
        if "logits" in out:
            arrays[f"{text}/hook_logits"] = out.logits[0].numpy()
        patterns = {"": "attentions"}
        if model.config.is_encoder_decoder:
            patterns = {
                "encoder.": "encoder_attentions",
                "decoder.": "decoder_attentions",
                "decoder.cross": "cross_attentions",
            }
        for prefix, key in patterns.items():
            stack, _, cross = prefix.partition(".")
            for layer, pattern in enumerate(out[key]):
                site = f"blocks.{layer}.{'cross_attn' if cross else 'attn'}.hook_pattern"
                path = f"{stack}.{site}" if stack else site
                arrays[f"{text}/{path}"] = pattern[0].numpy()
    return arrays


def off(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, over the largest value."""
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def padded_and_cached(
    model: Model, ids: dict[str, torch.Tensor], theirs: dict[str, np.ndarray]
) -> Small:
    """How far the last layer is off where both texts stand in one batch with padding on either
    side, and where one is read token by token with a cache (an encoder has none)."""
    by_stream = {
        stream: [ids[f"{text}.{stream}"][0].tolist() for text in TEXTS] for stream in ("tgt", "src")
    }
    source = by_stream["src"] if "src" in model.reads else None
    rows = Rows.of(by_stream["tgt"], source, 0, left=3, right=2)
    stack = next(stack for stack in model.stacks() if stack.stream == "tgt")
    name = "hook_logits" if model.predicts else stack.block_hook(stack.n_layers - 1, "resid_post")
    found = run(model, rows, {name})[name].numpy()
    worst = {"padded": 0.0, "cached": 0.0}
    for row, text in enumerate(TEXTS):
        expected = theirs[f"{text}/{name}"]
        worst["padded"] = max(worst["padded"], off(found[row, 3 : 3 + len(expected)], expected))
    longest = ids["first.tgt"].shape[1]
    if model.predicts != "next" or longest > model.config.cacheable:
        return worst | {"cached": math.nan}
    tgt, src = ids["first.tgt"], ids["first.src"] if source else None
    cache, steps = KVCache(model.config.n_layers), []
    with torch.inference_mode():
        memory = model.memory_of(Rows(tgt, None, src))
        for at in range(tgt.shape[1]):
            steps.append(model.read(Rows(tgt[:, at : at + 1], None, src), memory, cache))
    return worst | {"cached": off(torch.cat(steps, 1)[0].numpy(), theirs["first/hook_logits"])}


def differences(folder: Path, ids: dict[str, torch.Tensor], theirs: dict[str, np.ndarray]) -> Small:
    """The largest difference of each kind, over the largest value of it."""
    model = open_folder(folder).model
    worst = {"logits": 0.0 if model.predicts else math.nan, "stream": 0.0, "pattern": 0.0}
    for text in TEXTS:
        src = ids[f"{text}.src"] if "src" in model.reads else None
        names = [key.partition("/")[2] for key in theirs if key.startswith(f"{text}/")]
        ours = run(model, Rows(ids[f"{text}.tgt"], None, src), names)
        for name in names:
            expected = theirs[f"{text}/{name}"]
            kind = next((k for k in worst if k in name), "stream")
            worst[kind] = max(worst[kind], off(ours[name][0].numpy(), expected))
    return worst | padded_and_cached(model, ids, theirs)


def main() -> int:
    """Compare every model, or those that are named; exit status 1 where one is off by over 1e-4."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*MODELS, []])
    parser.add_argument("--write", action="store_true", help="write the golden files of the tests")
    args = parser.parse_args()
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    print(f"transformers {hf.__version__}, torch {torch.__version__}, float32, eager\n")
    print("| model | logits | streams | patterns | padded | cached |")
    print("| --- | --: | --: | --: | --: | --: |")
    if args.write and not args.names:
        write_pieces()
        write_copies()
    failed = False
    for name in args.names or MODELS:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            model = built(name, folder)
            ids = texts(name)
            theirs = computed(model, ids)
            if args.write:
                write(name, folder, ids, theirs)
            Golden.load(name).write(folder)  # the same folder, with a tokenizer
            worst = differences(folder, ids, theirs)
        numbers = ("–" if math.isnan(value) else f"{value:.1e}" for value in worst.values())
        print(f"| {name} | {' | '.join(numbers)} |", flush=True)
        failed = failed or any(value > 1e-4 for value in worst.values())
    return int(failed)


def write_copies() -> None:
    """The logits of models whose file has a tensor that usually copies another one, and differs."""
    logits = {}
    for name, tensor, copied in COPIES:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            cls = type(built(name, folder))
            path = folder / "model.safetensors"
            stored = load_file(path)
            stored[tensor] = own_numbers(tensor, stored[copied])
            save_file(stored, path, metadata={"format": "pt"})
            model = cls.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
            found = computed(model.eval(), texts(name))
        logits[f"{name}/{tensor}"] = found["first/hook_logits"].astype(np.float32)
    np.savez_compressed(COPIED, **logits)


def write_pieces() -> None:
    """Two small SentencePiece models, and how `sentencepiece` itself cuts texts with them."""
    import sentencepiece

    cut = {}
    for side, lines, size in (("source", CORPUS, 90), ("target", CHINESE, 60)):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            vocab_size=size,
            hard_vocab_limit=False,
            normalization_rule_name="identity",  # the usual table has 240 KB
            minloglevel=2,
        )
        (GOLDEN / f"{side}.spm").write_bytes(model.getvalue())
        pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        cut[side] = {text: pieces.encode(text, out_type=str) for text in TO_CUT}
    text = json.dumps(cut, ensure_ascii=False, indent=1)
    (GOLDEN / "pieces.json").write_text(text + "\n", encoding="utf-8")


def write(
    name: str, folder: Path, ids: dict[str, torch.Tensor], theirs: dict[str, np.ndarray]
) -> None:
    """The golden file of one model: config, names and shapes, ids, and what was computed."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    stored = load_file(folder / "model.safetensors")
    said = {"config": config, "shapes": {key: list(t.shape) for key, t in stored.items()}}
    described = np.frombuffer(json.dumps(said).encode(), dtype=np.uint8)
    inputs = {key: tokens[0].numpy() for key, tokens in ids.items()}
    arrays = {key: array.astype(np.float32) for key, array in theirs.items()}
    np.savez_compressed(GOLDEN / f"{name}.npz", described=described, **inputs, **arrays)


if __name__ == "__main__":
    sys.exit(main())
