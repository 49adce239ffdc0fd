"""Every family of models that can be opened, by the `model_type` of its config.json."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from models.foreign import llama
from models.foreign.bert import albert, bert, distilbert, electra, modernbert, roberta
from models.foreign.gemma import gemma, gemma2, gemma3, gemma3_with_pictures
from models.foreign.gpt2 import bloom, gpt, gpt2, gpt_neo, neox, opt
from models.foreign.plan import Keys, Plan
from models.foreign.translators import bart, m2m, marian, mbart, mt5, pegasus, t5
from models.foreign.variants import granite, olmo, olmo2, phi, phi3, stablelm, starcoder2
from models.foreign.vision import clip, deit, dinov2, dinov2_with_registers, siglip, vit


@dataclass(frozen=True)
class Family:
    """A family's title, its config reader, and the prefixes that stored names may have."""

    title: str
    plan: Callable[[Keys], Plan]
    prefixes: tuple[str, ...] = ("model.",)


FAMILIES: dict[str, Family] = {
    "gpt2": Family("GPT-2", gpt2, ("transformer.",)),
    "openai-gpt": Family("GPT", gpt, ("transformer.",)),
    "gpt_neo": Family("GPT-Neo", gpt_neo, ("transformer.",)),
    "bloom": Family("Bloom", bloom, ("transformer.",)),
    "llama": Family("Llama", llama.llama),
    "mistral": Family("Mistral", llama.mistral),
    "mixtral": Family("Mixtral", llama.mixtral),
    "qwen2": Family("Qwen2", llama.qwen2),
    "qwen2_moe": Family("Qwen2-MoE", llama.qwen2_moe),
    "qwen3": Family("Qwen3", llama.qwen3),
    "qwen3_moe": Family("Qwen3-MoE", llama.qwen3_moe),
    "smollm3": Family("SmolLM3", llama.smollm3),
    "gemma": Family("Gemma", gemma),
    "gemma2": Family("Gemma 2", gemma2),
    "gemma3_text": Family("Gemma 3", gemma3),
    "gemma3": Family(
        "Gemma 3",
        gemma3_with_pictures,
        ("model.language_model.", "language_model.model.", "language_model.", "model."),
    ),
    "phi3": Family("Phi-3", phi3),
    "phi": Family("Phi", phi),
    "starcoder2": Family("StarCoder2", starcoder2),
    "granite": Family("Granite", granite),
    "stablelm": Family("StableLM", stablelm),
    "olmo": Family("OLMo", olmo),
    "olmo2": Family("OLMo 2", olmo2),
    "gpt_neox": Family("GPT-NeoX", neox, ("gpt_neox.",)),
    "marian": Family("Marian", marian),
    "bart": Family("BART", bart),
    "mbart": Family("mBART", mbart),
    "m2m_100": Family("M2M-100 and NLLB", m2m),
    "pegasus": Family("Pegasus", pegasus),
    "opt": Family("OPT", opt, ("model.decoder.", "decoder.")),
    "t5": Family("T5", t5, ()),
    "mt5": Family("mT5", mt5, ()),
    "bert": Family("BERT", bert, ("bert.",)),
    "roberta": Family("RoBERTa", roberta, ("roberta.",)),
    "xlm-roberta": Family("XLM-R", roberta, ("roberta.",)),
    "camembert": Family("CamemBERT", roberta, ("roberta.",)),
    "electra": Family("ELECTRA", electra, ("electra.",)),
    "albert": Family("ALBERT", albert, ("albert.",)),
    "distilbert": Family("DistilBERT", distilbert, ("distilbert.",)),
    "modernbert": Family("ModernBERT", modernbert),
    "vit": Family("ViT", vit, ("vit.",)),
    "deit": Family("DeiT", deit, ("deit.",)),
    "dinov2": Family("DINOv2", dinov2, ("dinov2.",)),
    "dinov2_with_registers": Family(
        "DINOv2 with registers", dinov2_with_registers, ("dinov2_with_registers.",)
    ),
    "clip": Family("CLIP (images)", clip, ("vision_model.",)),
    "clip_vision_model": Family("CLIP (images)", clip, ("vision_model.",)),
    "siglip": Family("SigLIP (images)", siglip, ("vision_model.",)),
    "siglip_vision_model": Family("SigLIP (images)", siglip, ("vision_model.",)),
}
_COMMON = ("hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")
_TRANSLATOR = ("d_model", "encoder_layers", "encoder_attention_heads")
_OWN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("gpt2", "openai-gpt"), ("n_embd", "n_layer", "n_head", "n_positions")),
    "gpt_neo": ("hidden_size", "num_layers", "num_heads"),
    "bloom": ("hidden_size", "n_layer", "n_head"),
    "distilbert": ("dim", "n_layers", "n_heads"),
    **dict.fromkeys(("t5", "mt5"), ("d_model", "num_layers", "num_heads")),
    **dict.fromkeys(("marian", "bart", "mbart", "m2m_100", "pegasus"), _TRANSLATOR),
}
"""The names of these families for `_COMMON` settings, in the same order."""
_FURTHER: dict[str, dict[str, str]] = {
    "bloom": {"n_embed": "hidden_size"},
    "t5": {"head_dim": "d_kv"},
    "mt5": {"head_dim": "d_kv"},
    "mixtral": {"num_experts": "num_local_experts"},
    "qwen3_moe": {"num_local_experts": "num_experts"},
}


def own_names(kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A config with the family's own name of each setting.

    As in `transformers`, a common name that a config also uses takes precedence.
    """
    aliases = dict(zip(_COMMON, _OWN.get(kind, ()), strict=False)) | _FURTHER.get(kind, {})
    settings = {aliases[name]: value for name, value in values.items() if name in aliases}
    return {name: value for name, value in values.items() if name not in aliases} | settings


LACKING = {
    "deberta": "disentangled",
    "deberta-v2": "disentangled",
    "beit": "own_biases",
    "vision-encoder-decoder": "two_designs",
}
"""Families that need something this library lacks: the refusal that says what."""
