"""Variants of Llama: Phi, Phi-3, StarCoder2, Granite, StableLM, OLMo, OLMo 2.

Microsoft 2023 and 2024 (Phi); Lozhkov et al. 2024; IBM 2024; Stability AI 2024; Groeneveld et al.
2024; OLMo team 2024 (OLMo 2).
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models.foreign.folds import composed, times
from models.foreign.llama import NORMS, PROJECTIONS, Style, like_llama, width, window
from models.foreign.plan import Keys, Plan, output
from models.foreign.rotation import turning

SHARE = "partial_rotary_factor"
ONE_NORM = dict.fromkeys(NORMS, "input_layernorm")
"""Attention and FFN share one norm."""


def phi3(keys: Keys) -> Plan:
    """Phi-3: queries, keys and values are stored as one matrix; so are w_gate and w_up."""
    names = {"w_gate": "gate_up_proj", "w_up": "gate_up_proj", "w_down": "down_proj"}
    keys = keys.of({"original_max_position_embeddings": 4096, **keys.values})
    turn = turning(keys, width(keys), shares=(SHARE,))
    more: dict[str, Any] = {"turn": turn, "norm_eps": keys.number("rms_norm_eps", 1e-5)}
    return like_llama(keys, style=Style(net=names, fused=True), window=window(keys), **more)


def phi(keys: Keys) -> Plan:
    """Phi-1.5 and Phi-2: parallel sublayers with a shared norm; RoPE on half of each head."""
    keys.only("qk_layernorm", False)
    style = Style(
        norms=ONE_NORM,
        final_norm="final_layernorm",
        norm_bias=True,
        net={"w_up": "fc1", "w_down": "fc2"},
        projections=PROJECTIONS | {"o": "dense"},
    )
    head = output(keys, keys.flag("tie_word_embeddings", False), biased=True)
    more: dict[str, Any] = {"parallel": True, "ffn": keys.activation("hidden_act", "gelu_new")}
    turn = turning(keys, width(keys), share=0.5, shares=(SHARE,))
    return like_llama(keys, (*"qkvo", "ffn"), style, turn=turn, head=head, **more, **_norm(keys))


def starcoder2(keys: Keys) -> Plan:
    """StarCoder2: LayerNorm, an ungated FFN, and a sliding window in every layer."""
    biased = (*"qkvo", "ffn") if keys.flag("use_bias", True) else ()
    style = Style(norm_bias=True, net={"w_up": "c_fc", "w_down": "c_proj"})
    return like_llama(
        keys,
        biased,
        style,
        head=output(keys, keys.flag("tie_word_embeddings", True)),
        window=window(keys),
        ffn=keys.activation("hidden_act", "gelu_pytorch_tanh"),
        **_norm(keys, "norm_epsilon"),
    )


def stablelm(keys: Keys) -> Plan:
    """StableLM: LayerNorm, RoPE on a quarter of each head; the sublayers may be parallel."""
    keys.only("qk_layernorm", False)
    parallel = keys.flag("use_parallel_residual", False)
    biased = tuple("qkv") if keys.flag("use_qkv_bias", False) else ()
    turn = turning(keys, width(keys), share=0.25, shares=(SHARE,))
    style = Style(norms=ONE_NORM if parallel else NORMS, norm_bias=True)
    return like_llama(keys, biased, style, turn=turn, parallel=parallel, **_norm(keys))


def olmo(keys: Keys) -> Plan:
    """OLMo: LayerNorms without parameters."""
    keys.only("clip_qkv", None)
    biased = tuple("qkvo") if keys.flag("attention_bias", False) else ()
    more: dict[str, Any] = {"norm": "layernorm", "norm_eps": 1e-5}
    return like_llama(keys, biased, Style(norm_weight=False), **more)


def olmo2(keys: Keys) -> Plan:
    """OLMo 2: norms on the output of each sublayer, and on the queries and keys of all heads."""
    biased = tuple("qkvo") if keys.flag("attention_bias", False) else ()
    names = {"attn_norm": "post_attention_layernorm", "ffn_norm": "post_feedforward_layernorm"}
    return like_llama(
        keys,
        biased,
        Style(norms=names),
        norm_placement="sublayer",
        norm_eps=keys.number("rms_norm_eps", 1e-5),
        qk_norm=True,
        qk_norm_joint=True,
    )


def granite(keys: Keys) -> Plan:
    """Granite: Llama with factors for scores, embeddings, sublayer outputs and logits.

    If embeddings are tied, the final norm compensates for the factor of the embeddings.
    """
    biased = tuple("qkvo") if keys.flag("attention_bias", False) else ()
    biased = (*biased, "ffn") if keys.flag("mlp_bias", False) else biased
    scores = 1 / keys.number("attention_multiplier", 1.0)
    plan = like_llama(keys, biased, score_divisor=scores)
    embedded, logits = keys.number("embedding_multiplier", 1.0), keys.number("logits_scaling", 1.0)
    tied = plan.config.tie_embeddings
    factors = {
        r"embed\.weight": embedded,
        r".*\.(w_o|w_down)\..*": keys.number("residual_multiplier", 1.0),
        r"final_norm\.weight": 1 / (embedded * logits) if tied else 1.0,
        r"unembed\.weight": 1 / logits,
    }
    return _multiplied(plan, factors)


def _norm(keys: Keys, eps: str = "layer_norm_eps") -> dict[str, Any]:
    return {"norm": "layernorm", "norm_eps": keys.number(eps, 1e-5)}


def _multiplied(plan: Plan, factors: Mapping[str, float]) -> Plan:
    """The plan with constants folded into the parameters whose names match."""

    rows = list(plan.rows)
    for i, row in enumerate(rows):
        for name, factor in factors.items():
            if re.fullmatch(name, row.ours) and factor != 1:
                rows[i] = replace(row, fold=composed(row.fold, times(factor)))
    return replace(plan, rows=tuple(rows))
