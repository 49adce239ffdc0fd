"""GPT-NeoX: the Pythia models. Black et al. 2022; Biderman et al. 2023."""

from models.config import ModelConfig
from models.foreign.folds import composed, part_of_heads
from models.foreign.outputs import output
from models.foreign.plan import DECODER, Keys, Plan, blocks, both, weight
from models.foreign.rotation import TABLES, turning


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
