"""GPT-NeoX: the Pythia models. Black et al. 2022; Biderman et al. 2023."""

from models.config import ModelConfig
from models.foreign.folds import in_turn, neighbours, part_of_heads
from models.foreign.llama import rope_parameters
from models.foreign.outputs import output
from models.foreign.plan import Keys, Plan, blocks, both, weight


def neox(keys: Keys) -> Plan:
    """Attention and net read the same stream; the first features of each head are turned."""
    keys.only("attention_bias", True)
    keys.only("rope_scaling", None)
    usual = keys.number("rotary_pct", 0.25)
    base, share = rope_parameters(keys, "rotary_emb_base", usual)
    n_heads, d_model = keys.size("num_attention_heads"), keys.size("hidden_size")
    turned = int(d_model // n_heads * share)
    head = output(keys, keys.flag("tie_word_embeddings", False), "embed_out", "embed_in")
    config = ModelConfig(
        family="decoder-only",
        vocab_size=keys.size("vocab_size"),
        d_model=d_model,
        n_layers=keys.layers("num_hidden_layers"),
        n_heads=n_heads,
        d_ff=keys.size("intermediate_size"),
        n_ctx=keys.size("max_position_embeddings"),
        norm_eps=keys.number("layer_norm_eps", 1e-5),
        norm_placement="pre",
        final_norm=True,
        parallel=keys.flag("use_parallel_residual", True),
        positions="rotary",
        rope_base=base,
        rotary_dim=turned,
        ffn=keys.activation("hidden_act", "gelu"),  # type: ignore[arg-type]
        scale_embeddings=False,
        dropout=0.0,
        **head.settings,
    )
    rows = [weight("embed", "embed_in"), *both("final_norm", "final_layer_norm")]
    for ours, theirs in blocks(config.n_layers):
        for index, name in enumerate("qkv"):
            fold = part_of_heads(index, 3, n_heads)
            if name != "v":
                fold = in_turn(fold, neighbours(n_heads, turned))
            rows += both(f"{ours}.attn.w_{name}", f"{theirs}.attention.query_key_value", fold)
        rows += both(f"{ours}.attn.w_o", f"{theirs}.attention.dense")
        rows += both(f"{ours}.attn_norm", f"{theirs}.input_layernorm")
        rows += both(f"{ours}.ffn.w_up", f"{theirs}.mlp.dense_h_to_4h")
        rows += both(f"{ours}.ffn.w_down", f"{theirs}.mlp.dense_4h_to_h")
        rows += both(f"{ours}.ffn_norm", f"{theirs}.post_attention_layernorm")
    # Old files also store the causal mask and the angles.
    stored_tables = r"layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)"
    return Plan(config, (*rows, *head.rows), (stored_tables, *head.ignored))
