"""Models with ALiBi, a score penalty linear in distance: Bloom and MPT. Le Scao et al. 2022;
MosaicML 2023."""

from models.config import ModelConfig
from models.foreign.folds import part, part_of_heads, zeros
from models.foreign.outputs import output
from models.foreign.plan import DECODER, Keys, Plan, PlanRow, blocks, both, weight
from models.refusals import Refusal


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
