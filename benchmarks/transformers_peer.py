"""Runs in the peer's environment: time forward passes and decoding of `transformers` on request.

One JSON line in, one out. Attention is eager, since with torch's fused kernel `transformers`
returns no patterns.
"""

import json
import sys
import time
from typing import Any

import torch
from resident import growth
from transformers import GPT2Config, GPT2LMHeadModel, MarianConfig, MarianMTModel

NO_END = 3  # the end token: random weights hardly ever predict it


def build(shape: str) -> Any:
    """A model of that shape with random weights."""
    torch.manual_seed(0)
    if shape == "gpt2":
        config = GPT2Config(bos_token_id=1, eos_token_id=NO_END, attn_implementation="eager")
        return GPT2LMHeadModel(config).eval()
    config = MarianConfig(
        vocab_size=8000, d_model=512, encoder_layers=6, decoder_layers=6,
        encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048,
        decoder_ffn_dim=2048, max_position_embeddings=256, pad_token_id=0, eos_token_id=NO_END,
        bos_token_id=1, decoder_start_token_id=1, forced_eos_token_id=None,
        attn_implementation="eager",
    )  # fmt: skip
    return MarianMTModel(config).eval()


@torch.inference_mode()
def decode(model: Any, question: dict[str, Any]) -> float:
    """Seconds for `new` tokens."""
    tokens = torch.tensor([question["tokens"]])
    started = time.perf_counter()
    out = model.generate(
        tokens,
        attention_mask=torch.ones_like(tokens),
        max_new_tokens=question["new"],
        min_new_tokens=question["new"],
        num_beams=question["beams"],
        do_sample=False,
        use_cache=question["cache"],
        output_attentions=question["patterns"],
        return_dict_in_generate=True,
        pad_token_id=0,
    )
    seconds = time.perf_counter() - started
    if question["patterns"]:
        seen = getattr(out, "decoder_attentions", None) or out.attentions
        assert len(seen) >= question["new"]
        assert seen[-1][0] is not None
    return seconds


@torch.inference_mode()
def read(model: Any, question: dict[str, Any]) -> float:
    """Seconds for one pass that gives every pattern."""
    tokens = torch.tensor([question["read"]])
    started = time.perf_counter()
    out = model(tokens, output_attentions=True, use_cache=False)
    seconds = time.perf_counter() - started
    assert out.attentions[-1].shape[-1] == len(question["read"])
    return seconds


@torch.inference_mode()
def memory(model: Any, question: dict[str, Any]) -> dict[str, float]:
    """MB for one pass that keeps every pattern and nothing else, after one of eight tokens."""
    tokens = torch.tensor([question["read"]])
    model(tokens[:, :8], output_attentions=True, use_cache=False)
    return growth(lambda: model(tokens, output_attentions=True, use_cache=False).attentions)


def main() -> None:
    """Answer requests until the other side exits."""
    torch.set_num_threads(1)
    models: dict[str, Any] = {}
    for line in sys.stdin:
        question = json.loads(line)
        if "hello" in question:
            answer: dict[str, Any] = {"ready": True}
        else:
            shape = question["shape"]
            if shape not in models:
                models = {shape: build(shape)}  # one at a time: they are large
            measure = read if "read" in question else decode
            if question.get("memory"):
                answer = memory(models[shape], question)
            else:
                answer = {"seconds": measure(models[shape], question)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
