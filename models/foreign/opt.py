"""OPT. Zhang et al. 2022."""

from models.config import ModelConfig
from models.foreign.folds import without_first
from models.foreign.outputs import output
from models.foreign.plan import DECODER, POST_NORM, Keys, Plan, blocks, both, weight
from models.foreign.translators import OFFSET, attention_rows


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
