"""Marian: the OPUS-MT translators. Junczys-Dowmunt et al. 2018; Tiedemann & Thottingal 2020."""

from models.checkpoint import MOST_COMPUTED
from models.config import ModelConfig
from models.foreign.folds import only_row, sines_then_cosines
from models.foreign.outputs import shared_output
from models.foreign.plan import Keys, Plan, Row, blocks, both, weight
from models.refusals import Refusal


def marian(keys: Keys) -> Plan:
    """The 2017 design, post-norm, with a bias for each token and a table of sines of its own.

    Its sines fill half of the columns each, not every second one, so the table is taken as a
    learned one, and a stored table is used. Normalisation has the eps of the code, 1e-5.
    """
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        keys.only(name, False)
    keys.only("add_bias_logits", False)
    keys.only("static_position_embeddings", True)
    keys.only("share_encoder_decoder_embeddings", True)
    n_heads, d_ff = keys.size("encoder_attention_heads"), keys.size("encoder_ffn_dim")
    keys.only("decoder_attention_heads", n_heads)
    keys.only("decoder_ffn_dim", d_ff)
    vocab_size = keys.size("vocab_size")
    keys.only("decoder_vocab_size", vocab_size, None)
    d_model, n_ctx = keys.size("d_model"), keys.size("max_position_embeddings")
    shared = shared_output(keys, keys.flag("tie_word_embeddings", True))
    has_head = keys.stores("final_logits_bias") or keys.says_head()
    sizes = n_ctx, d_model
    if 4 * n_ctx * d_model > MOST_COMPUTED:
        limit = f"{MOST_COMPUTED:,}"
        raise Refusal("long_table", name="max_position_embeddings", value=n_ctx, limit=limit)
    config = ModelConfig(
        family="encoder-decoder",
        vocab_size=vocab_size,
        d_model=d_model,
        n_layers=keys.layers("decoder_layers"),
        n_encoder_layers=keys.layers("encoder_layers"),
        n_heads=n_heads,
        d_ff=d_ff,
        n_ctx=n_ctx,
        positions="learned",
        ffn=keys.activation("activation_function", "gelu"),  # type: ignore[arg-type]
        scale_embeddings=keys.flag("scale_embedding", False),
        unembed_bias=has_head,
        dropout=0.0,
        **shared.settings | {"lm_head": has_head},
    )
    rows = [row for row in shared.rows if has_head or row.ours != "unembed.weight"]
    if has_head:
        rows.append(Row("unembed.bias", ("final_logits_bias",), only_row))
    for stack, n_layers in (("encoder", config.encoder_layers), ("decoder", config.n_layers)):
        table, ours = f"{stack}.embed_positions", f"{stack}.positions"
        made = Row(f"{ours}.weight", (), sines_then_cosines(*sizes))
        rows.append(weight(ours, table) if keys.stores(f"{table}.weight") else made)
        for ours, theirs in blocks(n_layers, f"{stack}.blocks", f"{stack}.layers"):
            attention = {"attn": "self_attn"}
            if stack == "decoder":
                attention["cross_attn"] = "encoder_attn"
            for mine, its in attention.items():
                for name, stored in zip("qkvo", ("q", "k", "v", "out"), strict=True):
                    rows += both(f"{ours}.{mine}.w_{name}", f"{theirs}.{its}.{stored}_proj")
                rows += both(f"{ours}.{mine}_norm", f"{theirs}.{its}_layer_norm")
            rows += both(f"{ours}.ffn.w_up", f"{theirs}.fc1")
            rows += both(f"{ours}.ffn.w_down", f"{theirs}.fc2")
            rows += both(f"{ours}.ffn_norm", f"{theirs}.final_layer_norm")
    starts_with = keys.token("decoder_start_token_id", keys.values.get("pad_token_id"))
    return Plan(config, tuple(rows), shared.ignored, starts_with)
