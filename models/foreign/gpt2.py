"""GPT-2 and DistilGPT-2. Radford et al. 2019."""

from models.config import ModelConfig
from models.foreign.folds import in_turn, part, transposed
from models.foreign.outputs import output
from models.foreign.plan import Keys, Plan, blocks, both, weight


def gpt2(keys: Keys) -> Plan:
    """Pre-norm, learned positions, fused and transposed projections (Conv1D)."""
    keys.only("scale_attn_weights", True)
    keys.only("scale_attn_by_inverse_layer_idx", False)
    keys.only("add_cross_attention", False)
    d_model = keys.size("n_embd")
    head = output(keys, keys.flag("tie_word_embeddings", True), embed="wte")
    config = ModelConfig(
        family="decoder-only",
        vocab_size=keys.size("vocab_size"),
        d_model=d_model,
        n_layers=keys.layers("n_layer"),
        n_heads=keys.size("n_head"),
        d_ff=keys.size("n_inner", 4 * d_model),
        n_ctx=keys.size("n_positions", keys.values.get("n_ctx")),
        norm_eps=keys.number("layer_norm_epsilon", 1e-5),
        norm_placement="pre",
        final_norm=True,
        positions="learned",
        ffn=keys.activation("activation_function", "gelu_new"),  # type: ignore[arg-type]
        scale_embeddings=False,
        dropout=0.0,
        **head.settings,
    )
    rows = [weight("embed", "wte"), weight("positions", "wpe"), *both("final_norm", "ln_f")]
    for ours, theirs in blocks(config.n_layers, theirs="h"):
        rows += both(f"{ours}.attn_norm", f"{theirs}.ln_1")
        for index, name in enumerate("qkv"):
            fold = in_turn(transposed, part(index, 3))
            rows += both(f"{ours}.attn.w_{name}", f"{theirs}.attn.c_attn", fold)
        rows += both(f"{ours}.attn.w_o", f"{theirs}.attn.c_proj", transposed)
        rows += both(f"{ours}.ffn_norm", f"{theirs}.ln_2")
        rows += both(f"{ours}.ffn.w_up", f"{theirs}.mlp.c_fc", transposed)
        rows += both(f"{ours}.ffn.w_down", f"{theirs}.mlp.c_proj", transposed)
    # Old files also store the causal mask, under a name that reads like a bias.
    masks = r"h\.\d+\.attn\.(bias|masked_bias)"
    return Plan(config, (*rows, *head.rows), (masks, *head.ignored))
