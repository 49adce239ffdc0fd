"""Gemma 1 and 2, and the text models of Gemma 3. Gemma team 2024 and 2025."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models.foreign.folds import plus_one
from models.foreign.llama import Style, like_llama, near_layers, window
from models.foreign.plan import Keys, Plan, output
from models.foreign.rotation import turning, two_turnings
from models.refusals import Refusal

FOUR_NORMS = Style(
    norms={
        "attn_norm": "input_layernorm",
        "attn_out_norm": "post_attention_layernorm",  # here it does follow attention
        "ffn_norm": "pre_feedforward_layernorm",
        "ffn_out_norm": "post_feedforward_layernorm",
    },
    norm_fold=plus_one,
)


def gemma(keys: Keys) -> Plan:
    """Llama with a GELU gate, scaled embeddings and norms stored as weight minus 1.

    "gelu" in older configs also means the tanh approximation.
    """
    keys.only("hidden_act", "gelu_pytorch_tanh", "gelu")
    no_window = {"out_norms": False, "window": None, "near": None, "score_divisor": None}
    return _plan(keys, 1, no_window, Style(norm_fold=plus_one))


def gemma2(keys: Keys) -> Plan:
    """Norms before and after each sublayer, caps on scores and logits, alternating windows."""
    caps = {
        "score_cap": _cap(keys, "attn_logit_softcapping", 50.0),
        "logit_cap": _cap(keys, "final_logit_softcapping", 30.0),
    }
    return _plan(keys, 2, caps)


def gemma3(keys: Keys) -> Plan:
    """Gemma 2 with norms on queries and keys instead of caps; every sixth layer has global
    attention, and only these layers use the large RoPE base."""
    keys.only("attn_logit_softcapping", None)
    keys.only("final_logit_softcapping", None)
    return _plan(keys, keys.size("sliding_window_pattern", 6), {"qk_norm": True})


WITH_PICTURES = {
    "vocab_size": 262208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131072,
}
"""Defaults that multimodal Gemma 3 configs omit for the text model."""


def gemma3_with_pictures(keys: Keys) -> Plan:
    """The text model of a multimodal Gemma 3; the image encoder is ignored."""
    settings = keys.values.get("text_config")
    if not isinstance(settings, Mapping):
        raise Refusal("text_config", name="text_config", value=repr(settings))
    plan = gemma3(keys.of({**WITH_PICTURES, **settings}))
    return replace(plan, ignored=(*plan.ignored, r"vision_tower\..*", r"multi_modal_projector\..*"))


def _cap(keys: Keys, name: str, usual: float | None) -> float | None:
    cap = keys.values.get(name, usual)
    return None if cap is None else keys.number(name, usual)


def _plan(keys: Keys, full_every: int, more: Mapping[str, Any], style: Style = FOUR_NORMS) -> Plan:
    keys.only("attention_bias", False)
    keys.only("hidden_activation", "gelu_pytorch_tanh", None)
    keys.only("use_bidirectional_attention", False, None)
    n_ctx = keys.size("max_position_embeddings", 8192)
    keys = keys.of({**keys.values, "max_position_embeddings": n_ctx})
    n_layers, d_head = keys.layers("num_hidden_layers"), keys.size("head_dim", 256)
    usual = [layer for layer in range(n_layers) if (layer + 1) % full_every]
    two = "qk_norm" in more
    turn, near = two_turnings(keys, d_head, 1e6) if two else (turning(keys, d_head), None)
    scalar = keys.number("query_pre_attn_scalar", 256.0)
    between: dict[str, Any] = {
        "out_norms": True,
        "near": near_layers(keys, usual),
        "window": window(keys, 4096),
        "score_divisor": None if scalar == d_head else scalar**0.5,
    }
    return like_llama(
        keys,
        style=style,
        turn=turn,
        head=output(keys, keys.flag("tie_word_embeddings", True)),
        d_head=d_head,
        scale_embeddings=True,
        ffn="geglu_tanh",
        near_rope_base=near,
        **{**between, **more},
    )
