"""GPT, GPT-2, GPT-Neo, GPT-J, GPT-NeoX (the Pythia models) and OPT; and Bloom and MPT, which have
ALiBi, a score penalty linear in distance.

Radford et al. 2018 and 2019; Black et al. 2021 and 2022; Wang & Komatsuzaki 2021; Zhang et al.
2022; Le Scao et al. 2022; Biderman et al. 2023; MosaicML 2023.
"""

from typing import Any

from models.config import ModelConfig
from models.foreign.folds import composed, part, part_of_heads, transposed, without_first, zeros
from models.foreign.plan import (
    DECODER,
    POST_NORM,
    Keys,
    Plan,
    PlanRow,
    blocks,
    both,
    output,
    weight,
)
from models.foreign.rotation import TABLES, Turning, turning
from models.foreign.translators import OFFSET, attention_rows
from models.refusals import Refusal

MASKS = (r"h\.\d+\.attn\.(bias|masked_bias)",)
"""The causal mask in old files, stored under the name of a bias."""


def gpt2(keys: Keys) -> Plan:
    """Pre-norm, learned positions, fused and transposed projections (Conv1D)."""
    keys.only("scale_attn_weights", True)
    keys.only("scale_attn_by_inverse_layer_idx", False)
    keys.only("add_cross_attention", False)
    d_model = keys.size("n_embd")
    head = output(keys, keys.flag("tie_word_embeddings", True), embed="wte")
    config = ModelConfig(
        **DECODER,
        vocab_size=keys.size("vocab_size"),
        d_model=d_model,
        n_layers=keys.layers("n_layer"),
        n_heads=keys.size("n_head"),
        d_ff=keys.size("n_inner", 4 * d_model),
        n_ctx=keys.size("n_positions", keys.values.get("n_ctx")),
        norm_eps=keys.number("layer_norm_epsilon", 1e-5),
        positions="learned",
        ffn=keys.activation("activation_function", "gelu_new"),
        **head.settings,
    )
    rows = [weight("embed", "wte"), weight("positions", "wpe"), *both("final_norm", "ln_f")]
    for ours, theirs in blocks(config.n_layers, theirs="h"):
        rows += _fused(ours, theirs)
    return Plan(config, (*rows, *head.rows), (*MASKS, *head.ignored))


def _fused(ours: str, theirs: str) -> list[PlanRow]:
    """A block of GPT and GPT-2, whose matrices are [in, out]."""
    rows = both(f"{ours}.attn_norm", f"{theirs}.ln_1")
    for index, name in enumerate("qkv"):
        fold = composed(transposed, part(index, 3))
        rows += both(f"{ours}.attn.w_{name}", f"{theirs}.attn.c_attn", fold)
    rows += both(f"{ours}.attn.w_o", f"{theirs}.attn.c_proj", transposed)
    rows += both(f"{ours}.ffn_norm", f"{theirs}.ln_2")
    rows += both(f"{ours}.ffn.w_up", f"{theirs}.mlp.c_fc", transposed)
    rows += both(f"{ours}.ffn.w_down", f"{theirs}.mlp.c_proj", transposed)
    return rows


def gpt(keys: Keys) -> Plan:
    """The first GPT: GPT-2 with post-norm. Its "gelu" is the tanh approximation."""
    keys.only("afn", "gelu", "relu", "swish", "silu")
    by_tanh = keys.values.get("afn") in (None, "gelu")
    d_model = keys.size("n_embd")
    head = output(keys, keys.flag("tie_word_embeddings", True), embed="tokens_embed")
    config = ModelConfig(
        **DECODER | POST_NORM,
        vocab_size=keys.size("vocab_size"),
        d_model=d_model,
        n_layers=keys.layers("n_layer"),
        n_heads=keys.size("n_head"),
        d_ff=4 * d_model,
        n_ctx=keys.size("n_positions", keys.values.get("n_ctx")),
        norm_eps=keys.number("layer_norm_epsilon", 1e-5),
        positions="learned",
        ffn="gelu_tanh" if by_tanh else keys.activation("afn", "gelu"),
        **head.settings,
    )
    rows = [weight("embed", "tokens_embed"), weight("positions", "positions_embed")]
    for ours, theirs in blocks(config.n_layers, theirs="h"):
        rows += _fused(ours, theirs)
    return Plan(config, (*rows, *head.rows), (*MASKS, r"position_ids", *head.ignored))


def gpt_neo(keys: Keys) -> Plan:
    """GPT-2 with untransposed matrices, unscaled scores, and windows in some layers."""
    n_layers, d_model = keys.layers("num_layers"), keys.size("hidden_size")
    head = output(keys, keys.flag("tie_word_embeddings", True), embed="wte")
    kinds = _attention_layers(keys, n_layers)
    config = ModelConfig(
        **_usual(keys, "max_position_embeddings"),
        d_model=d_model,
        n_layers=n_layers,
        n_heads=keys.size("num_heads"),
        d_ff=keys.size("intermediate_size", 4 * d_model),
        positions="learned",
        score_divisor=1.0,
        window=keys.size("window_size", 256) if "local" in kinds else None,
        near_layers=tuple(layer for layer, kind in enumerate(kinds) if kind == "local"),
        **head.settings,
    )
    rows = [weight("embed", "wte"), weight("positions", "wpe"), *both("final_norm", "ln_f")]
    for ours, theirs in blocks(n_layers, theirs="h"):
        for name in "qkv":
            rows.append(weight(f"{ours}.attn.w_{name}", f"{theirs}.attn.attention.{name}_proj"))
            rows.append(PlanRow(f"{ours}.attn.w_{name}.bias", (), zeros(d_model)))
        rows += both(f"{ours}.attn.w_o", f"{theirs}.attn.attention.out_proj")
        for mine, its in (("attn_norm", "ln_1"), ("ffn_norm", "ln_2")):
            rows += both(f"{ours}.{mine}", f"{theirs}.{its}")
        for mine, its in (("w_up", "c_fc"), ("w_down", "c_proj")):
            rows += both(f"{ours}.ffn.{mine}", f"{theirs}.mlp.{its}")
    masks = r"h\.\d+\.attn\.attention\.(bias|masked_bias)"
    return Plan(config, (*rows, *head.rows), (masks, *head.ignored))


def gptj(keys: Keys) -> Plan:
    """Parallel sublayers with a shared norm; RoPE on the first features of each head, in adjacent
    pairs. Attention has no biases."""
    keys.only("rope_scaling", None)
    keys.only("rope_parameters", None)
    d_model, n_heads = keys.size("n_embd"), keys.size("n_head")
    d_head = d_model // n_heads
    head = output(keys, keys.flag("tie_word_embeddings", False), embed="wte", biased=True)
    turn = Turning(10000.0, keys.size("rotary_dim", 64))
    config = ModelConfig(
        **_usual(keys, "n_positions"),
        d_model=d_model,
        n_layers=keys.layers("n_layer"),
        n_heads=n_heads,
        d_ff=keys.size("n_inner", 4 * d_model),
        parallel=True,
        **turn.settings(d_head),
        **head.settings,
    )
    rows = [weight("embed", "wte"), *both("final_norm", "ln_f")]
    for ours, theirs in blocks(config.n_layers, theirs="h"):
        for name, its in zip("qkvo", ("q", "k", "v", "out"), strict=True):
            rows.append(weight(f"{ours}.attn.w_{name}", f"{theirs}.attn.{its}_proj"))
            rows.append(PlanRow(f"{ours}.attn.w_{name}.bias", (), zeros(d_model)))
        for norm in ("attn_norm", "ffn_norm"):
            rows += both(f"{ours}.{norm}", f"{theirs}.ln_1")
        rows += both(f"{ours}.ffn.w_up", f"{theirs}.mlp.fc_in")
        rows += both(f"{ours}.ffn.w_down", f"{theirs}.mlp.fc_out")
    tables = r"h\.\d+\.attn\.(bias|masked_bias|embed_positions)"
    return Plan(config, (*rows, *head.rows), (tables, *head.ignored))


def _usual(keys: Keys, n_ctx: str) -> dict[str, Any]:
    """Settings shared by GPT-Neo and GPT-J."""
    return {
        **DECODER,
        "vocab_size": keys.size("vocab_size"),
        "n_ctx": keys.size(n_ctx),
        "norm_eps": keys.number("layer_norm_epsilon", 1e-5),
        "ffn": keys.activation("activation_function", "gelu_new"),
    }


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
    n_heads, d_model = keys.size("num_attention_heads"), keys.size("hidden_size")
    d_head = d_model // n_heads
    bases, shares = ("rotary_emb_base",), ("rotary_pct",)
    turn = turning(keys, d_head, bases=bases, share=0.25, shares=shares)
    head = output(keys, keys.flag("tie_word_embeddings", False), "embed_out", "embed_in")
    config = ModelConfig(
        **DECODER,
        vocab_size=keys.size("vocab_size"),
        d_model=d_model,
        n_layers=keys.layers("num_hidden_layers"),
        n_heads=n_heads,
        d_ff=keys.size("intermediate_size"),
        n_ctx=keys.size("max_position_embeddings"),
        norm_eps=keys.number("layer_norm_eps", 1e-5),
        parallel=keys.flag("use_parallel_residual", True),
        ffn=keys.activation("hidden_act", "gelu"),
        **turn.settings(d_head),
        **head.settings,
    )
    rows = [weight("embed", "embed_in"), *both("final_norm", "final_layer_norm")]
    for ours, theirs in blocks(config.n_layers):
        for index, name in enumerate("qkv"):
            fold = part_of_heads(index, 3, n_heads)
            if name != "v":
                fold = composed(fold, turn.fold(n_heads))
            rows += both(f"{ours}.attn.w_{name}", f"{theirs}.attention.query_key_value", fold)
        rows += both(f"{ours}.attn.w_o", f"{theirs}.attention.dense")
        rows += both(f"{ours}.attn_norm", f"{theirs}.input_layernorm")
        rows += both(f"{ours}.ffn.w_up", f"{theirs}.mlp.dense_h_to_4h")
        rows += both(f"{ours}.ffn.w_down", f"{theirs}.mlp.dense_4h_to_h")
        rows += both(f"{ours}.ffn_norm", f"{theirs}.post_attention_layernorm")
    masks = r"layers\.\d+\.attention\.(bias|masked_bias)"  # causal masks in old files
    return Plan(config, (*rows, *head.rows), (masks, *TABLES, *head.ignored))


def opt(keys: Keys) -> Plan:
    """BART's decoder without cross-attention; pre-norm or post-norm as configured."""
    d_model = keys.size("hidden_size")
    keys.only("word_embed_proj_dim", d_model, None)
    keys.only("_remove_final_layer_norm", False)
    keys.only("enable_bias", True)
    keys.only("layer_norm_elementwise_affine", True)
    pre = keys.flag("do_layer_norm_before", True)
    head = output(keys, keys.flag("tie_word_embeddings", True))
    config = ModelConfig(
        **(DECODER if pre else DECODER | POST_NORM),
        vocab_size=keys.size("vocab_size"),
        d_model=d_model,
        n_layers=keys.layers("num_hidden_layers"),
        n_heads=keys.size("num_attention_heads"),
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
    ]
    for ours, theirs in blocks(config.n_layers):
        rows += attention_rows(f"{ours}.attn", f"{theirs}.self_attn")
        rows += both(f"{ours}.attn_norm", f"{theirs}.self_attn_layer_norm")
        rows += both(f"{ours}.ffn.w_up", f"{theirs}.fc1")
        rows += both(f"{ours}.ffn.w_down", f"{theirs}.fc2")
        rows += both(f"{ours}.ffn_norm", f"{theirs}.final_layer_norm")
    return Plan(config, (*rows, *head.rows), head.ignored)


def bloom(keys: Keys) -> Plan:
    """Bloom: a norm on the embedding; queries, keys and values interleaved per head."""
    keys.only("apply_residual_connection_post_layernorm", False)
    head = output(keys, keys.flag("tie_word_embeddings", True), embed="word_embeddings")
    d_model = keys.size("hidden_size")
    n_heads = keys.size("n_head")
    config = ModelConfig(
        **DECODER,
        positions="alibi",
        vocab_size=keys.size("vocab_size"),
        d_model=d_model,
        n_layers=keys.layers("n_layer"),
        n_heads=n_heads,
        d_ff=4 * d_model,
        n_ctx=keys.size("seq_length", 2048),
        norm_eps=keys.number("layer_norm_epsilon", 1e-5),
        embed_norm=True,
        ffn="gelu_tanh",
        **head.settings,
    )
    rows = [weight("embed", "word_embeddings"), *both("final_norm", "ln_f")]
    rows += both("embed_norm", "word_embeddings_layernorm")
    for ours, theirs in blocks(config.n_layers, theirs="h"):
        for index, name in enumerate("qkv"):
            fold = part_of_heads(index, 3, n_heads)
            rows += both(f"{ours}.attn.w_{name}", f"{theirs}.self_attention.query_key_value", fold)
        rows += both(f"{ours}.attn.w_o", f"{theirs}.self_attention.dense")
        rows += both(f"{ours}.attn_norm", f"{theirs}.input_layernorm")
        rows += both(f"{ours}.ffn_norm", f"{theirs}.post_attention_layernorm")
        rows += both(f"{ours}.ffn.w_up", f"{theirs}.mlp.dense_h_to_4h")
        rows += both(f"{ours}.ffn.w_down", f"{theirs}.mlp.dense_4h_to_h")
    return Plan(config, (*rows, *head.rows), head.ignored)


def mpt(keys: Keys) -> Plan:
    """MPT: no biases, not even in LayerNorms.

    Its slopes equal ours if the number of heads is a power of two; otherwise their order differs,
    so such models are refused.
    """
    keys.only("no_bias", True)
    keys.only("embedding_fraction", 1.0, 1)
    keys.only("logit_scale", None)
    attention = keys.of(keys.object("attn_config"))
    for name, value in (("clip_qkv", None), ("qk_ln", False), ("prefix_lm", False)):
        attention.only(name, value)
    attention.only("alibi", True)
    attention.only("alibi_bias_max", 8)
    attention.only("attn_type", "multihead_attention")
    n_heads, d_model = keys.size("n_heads"), keys.size("d_model")
    if n_heads & (n_heads - 1):
        raise Refusal("power_of_two", name="n_heads", value=n_heads)
    scale = attention.values.get("softmax_scale")
    head = output(keys, keys.flag("tie_word_embeddings", True), embed="wte")
    config = ModelConfig(
        **DECODER,
        positions="alibi",
        vocab_size=keys.size("vocab_size"),
        d_model=d_model,
        n_layers=keys.layers("n_layers"),
        n_heads=n_heads,
        d_ff=4 * d_model,
        n_ctx=keys.size("max_seq_len", 2048),
        norm_eps=keys.number("layer_norm_epsilon", 1e-5),
        score_divisor=None if scale is None else 1 / attention.number("softmax_scale"),
        bias=False,
        ffn="gelu",
        **head.settings,
    )
    rows = [weight("embed", "wte")]
    norms = [("final_norm", "norm_f")]
    for ours, theirs in blocks(config.n_layers, theirs="blocks"):
        for index, name in enumerate("qkv"):
            rows.append(weight(f"{ours}.attn.w_{name}", f"{theirs}.attn.Wqkv", part(index, 3)))
        rows.append(weight(f"{ours}.attn.w_o", f"{theirs}.attn.out_proj"))
        rows.append(weight(f"{ours}.ffn.w_up", f"{theirs}.ffn.up_proj"))
        rows.append(weight(f"{ours}.ffn.w_down", f"{theirs}.ffn.down_proj"))
        norms += [
            (f"{ours}.{mine}", f"{theirs}.norm_{i}")
            for i, mine in ((1, "attn_norm"), (2, "ffn_norm"))
        ]
    for ours, theirs in norms:
        rows += [weight(ours, theirs), PlanRow(f"{ours}.bias", (), zeros(d_model))]
    return Plan(config, (*rows, *head.rows), head.ignored)
