"""GPT, GPT-2, GPT-Neo, GPT-NeoX (the Pythia models) and OPT; and Bloom, which has ALiBi, a score
penalty linear in distance.

Radford et al. 2018 and 2019; Black et al. 2021 and 2022; Zhang et al. 2022; Le Scao et al. 2022;
Biderman et al. 2023.
"""

from typing import Any

from models.config import ModelConfig
from models.foreign.folds import Fold, composed, part, part_of_heads, transposed, without_first
from models.foreign.plan import (
    DECODER,
    POST_NORM,
    Keys,
    LMHead,
    Plan,
    block_rows,
    both,
    output,
    sizes,
    weight,
)
from models.foreign.rotation import TABLES, turning
from models.foreign.translators import BART_BLOCK, OFFSET
from models.refusals import Refusal

MASKS = (r"h\.\d+\.attn\.(bias|masked_bias)",)
"""The causal mask in old files, stored under the name of a bias."""
PROJECTIONS = ("attn.w_q", "attn.w_k", "attn.w_v")
GPT2_BLOCK = {
    "attn_norm": "ln_1",
    **dict.fromkeys(PROJECTIONS, "attn.c_attn"),
    "attn.w_o": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn.w_up": "mlp.c_fc",
    "ffn.w_down": "mlp.c_proj",
}
NEO_BLOCK = GPT2_BLOCK | {
    **{f"attn.w_{name}": f"attn.attention.{name}_proj" for name in "qkv"},
    "attn.w_o": "attn.attention.out_proj",
}
BLOOM_BLOCK = {
    **dict.fromkeys(PROJECTIONS, "self_attention.query_key_value"),
    "attn.w_o": "self_attention.dense",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn.w_up": "mlp.dense_h_to_4h",
    "ffn.w_down": "mlp.dense_4h_to_h",
}
NEOX_BLOCK = BLOOM_BLOCK | {
    **dict.fromkeys(PROJECTIONS, "attention.query_key_value"),
    "attn.w_o": "attention.dense",
}


def gpt2(keys: Keys) -> Plan:
    """Pre-norm, learned positions, fused and transposed projections (Conv1D)."""
    keys.only("scale_attn_weights", True)
    keys.only("scale_attn_by_inverse_layer_idx", False)
    keys.only("add_cross_attention", False)
    head = output(keys, keys.flag("tie_word_embeddings", True), embed="wte")
    config = ModelConfig(
        **DECODER,
        **_of_gpt(keys, head),
        d_ff=keys.size("n_inner", 4 * keys.size("n_embd")),
        ffn=keys.activation("activation_function", "gelu_new"),
    )
    rows = [weight("embed", "wte"), weight("positions", "wpe"), *both("final_norm", "ln_f")]
    rows += block_rows(config.n_layers, GPT2_BLOCK, "h", folds=_transposed())
    return Plan(config, (*rows, *head.rows), (*MASKS, *head.ignored))


def gpt(keys: Keys) -> Plan:
    """The first GPT: GPT-2 with post-norm. Its "gelu" is the tanh approximation."""
    keys.only("afn", "gelu", "relu", "swish", "silu")
    by_tanh = keys.values.get("afn") in (None, "gelu")
    head = output(keys, keys.flag("tie_word_embeddings", True), embed="tokens_embed")
    config = ModelConfig(
        **DECODER | POST_NORM,
        **_of_gpt(keys, head),
        d_ff=4 * keys.size("n_embd"),
        ffn="gelu_tanh" if by_tanh else keys.activation("afn", "gelu"),
    )
    rows = [weight("embed", "tokens_embed"), weight("positions", "positions_embed")]
    rows += block_rows(config.n_layers, GPT2_BLOCK, "h", folds=_transposed())
    return Plan(config, (*rows, *head.rows), (*MASKS, r"position_ids", *head.ignored))


def _of_gpt(keys: Keys, head: LMHead) -> dict[str, Any]:
    """Settings shared by GPT and GPT-2."""
    return {
        **sizes(keys, "n_embd", "n_layer", "n_head"),
        "n_ctx": keys.size("n_positions", keys.values.get("n_ctx")),
        "norm_eps": keys.number("layer_norm_epsilon", 1e-5),
        "positions": "learned",
        **head.settings,
    }


def _transposed() -> dict[str, Fold]:
    """Of a block of GPT and GPT-2, whose matrices are [in, out]."""
    fused = {name: composed(transposed, part(i, 3)) for i, name in enumerate(PROJECTIONS)}
    return fused | dict.fromkeys(("attn.w_o", "ffn.w_up", "ffn.w_down"), transposed)


def gpt_neo(keys: Keys) -> Plan:
    """GPT-2 with untransposed matrices, unscaled scores, and windows in some layers."""
    shape = sizes(keys, "hidden_size", "num_layers", "num_heads")
    head = output(keys, keys.flag("tie_word_embeddings", True), embed="wte")
    kinds = _attention_layers(keys, shape["n_layers"])
    config = ModelConfig(
        **DECODER,
        **shape,
        d_ff=keys.size("intermediate_size", 4 * shape["d_model"]),
        n_ctx=keys.size("max_position_embeddings"),
        norm_eps=keys.number("layer_norm_epsilon", 1e-5),
        ffn=keys.activation("activation_function", "gelu_new"),
        positions="learned",
        score_divisor=1.0,
        window=keys.size("window_size", 256) if "local" in kinds else None,
        near_layers=tuple(layer for layer, kind in enumerate(kinds) if kind == "local"),
        **head.settings,
    )
    rows = [weight("embed", "wte"), weight("positions", "wpe"), *both("final_norm", "ln_f")]
    zero = dict.fromkeys(PROJECTIONS, config.d_model)
    rows += block_rows(config.n_layers, NEO_BLOCK, "h", zero=zero)
    masks = r"h\.\d+\.attn\.attention\.(bias|masked_bias)"
    return Plan(config, (*rows, *head.rows), (masks, *head.ignored))


def _attention_layers(keys: Keys, n_layers: int) -> list[str]:
    """ "global" or "local" for each layer: in a list, or as [[kinds, times], …]."""
    groups = keys.values.get("attention_types", [[["global", "local"], n_layers // 2]])
    listed = keys.values.get("attention_layers")
    kinds = listed or [kind for some, times in groups for _ in range(times) for kind in some]
    if len(kinds) != n_layers or not set(kinds) <= {"global", "local"}:
        raise Refusal("attention_types", name="attention_types", value=repr(listed or groups))
    return list(kinds)


def neox(keys: Keys) -> Plan:
    """Parallel attention and FFN; RoPE on the first features of each head."""
    keys.only("attention_bias", True)
    shape = sizes(keys)
    d_head = shape["d_model"] // shape["n_heads"]
    bases, shares = ("rotary_emb_base",), ("rotary_pct",)
    turn = turning(keys, d_head, bases=bases, share=0.25, shares=shares)
    head = output(keys, keys.flag("tie_word_embeddings", False), "embed_out", "embed_in")
    config = ModelConfig(
        **DECODER,
        **shape,
        d_ff=keys.size("intermediate_size"),
        n_ctx=keys.size("max_position_embeddings"),
        norm_eps=keys.number("layer_norm_eps", 1e-5),
        parallel=keys.flag("use_parallel_residual", True),
        ffn=keys.activation("hidden_act", "gelu"),
        **turn.settings(d_head),
        **head.settings,
    )
    rows = [weight("embed", "embed_in"), *both("final_norm", "final_layer_norm")]
    folds = _by_head(config.n_heads)
    for name in PROJECTIONS[:2]:
        folds[name] = composed(folds[name], turn.fold(config.n_heads))
    rows += block_rows(config.n_layers, NEOX_BLOCK, folds=folds)
    masks = r"layers\.\d+\.attention\.(bias|masked_bias)"  # causal masks in old files
    return Plan(config, (*rows, *head.rows), (masks, *TABLES, *head.ignored))


def _by_head(n_heads: int) -> dict[str, Fold]:
    """Of queries, keys and values that are interleaved per head."""
    return {name: part_of_heads(i, 3, n_heads) for i, name in enumerate(PROJECTIONS)}


def opt(keys: Keys) -> Plan:
    """BART's decoder without cross-attention; pre-norm or post-norm as configured."""
    keys.only("word_embed_proj_dim", keys.size("hidden_size"), None)
    keys.only("_remove_final_layer_norm", False)
    keys.only("enable_bias", True)
    keys.only("layer_norm_elementwise_affine", True)
    pre = keys.flag("do_layer_norm_before", True)
    head = output(keys, keys.flag("tie_word_embeddings", True))
    config = ModelConfig(
        **(DECODER if pre else DECODER | POST_NORM),
        **sizes(keys),
        d_ff=keys.size("ffn_dim"),
        n_ctx=keys.size("max_position_embeddings"),
        positions="learned",
        ffn=keys.activation("activation_function", "relu"),
        **head.settings,
    )
    rows = [
        weight("embed", "embed_tokens"),
        weight("positions", "embed_positions", without_first(OFFSET)),
        *(both("final_norm", "final_layer_norm") if pre else ()),
        *block_rows(config.n_layers, BART_BLOCK),
    ]
    return Plan(config, (*rows, *head.rows), head.ignored)


def bloom(keys: Keys) -> Plan:
    """Bloom: a norm on the embedding; queries, keys and values interleaved per head."""
    keys.only("apply_residual_connection_post_layernorm", False)
    head = output(keys, keys.flag("tie_word_embeddings", True), embed="word_embeddings")
    config = ModelConfig(
        **DECODER,
        **sizes(keys, "hidden_size", "n_layer", "n_head"),
        positions="alibi",
        d_ff=4 * keys.size("hidden_size"),
        n_ctx=keys.size("seq_length", 2048),
        norm_eps=keys.number("layer_norm_epsilon", 1e-5),
        embed_norm=True,
        ffn="gelu_tanh",
        **head.settings,
    )
    rows = [weight("embed", "word_embeddings"), *both("final_norm", "ln_f")]
    rows += both("embed_norm", "word_embeddings_layernorm")
    rows += block_rows(config.n_layers, BLOOM_BLOCK, "h", folds=_by_head(config.n_heads))
    return Plan(config, (*rows, *head.rows), head.ignored)
