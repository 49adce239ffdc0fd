"""ModernBERT: an encoder with RoPE, GEGLU, pre-norm, and windows in two of three layers.

Warner et al. 2024.
"""

from typing import Any

from models.config import ModelConfig
from models.foreign.folds import composed, neighbours, part, zeros
from models.foreign.llama import near_layers
from models.foreign.plan import Keys, Plan, PlanRow, blocks, weight
from models.foreign.rotation import TABLES, two_turnings

EMBED, DECODER = "embeddings.tok_embeddings", "decoder"


def modernbert(keys: Keys) -> Plan:
    """Plan ModernBERT: the embeddings have a norm, so the first attention has none.

    Only the output has a bias. `local_attention` counts the tokens on both sides of a query.
    """
    for name in ("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"):
        keys.only(name, False)
    for name in ("hidden_activation", "classifier_activation"):
        keys.only(name, "gelu")
    keys.only("decoder_bias", True)
    keys.only("rope_scaling", None)
    d_model, n_heads = keys.size("hidden_size"), keys.size("num_attention_heads")
    n_layers, every = keys.layers("num_hidden_layers"), keys.size("global_attn_every_n_layers", 3)
    d_head = max(1, d_model // n_heads)
    turn, near = two_turnings(keys, d_head, 160_000.0, "global_rope_theta", "local_rope_theta")
    has_head = keys.stores(f"{DECODER}.bias") or keys.says_head()
    tied = keys.flag("tie_word_embeddings", True)
    tied = tied and not keys.differs(f"{DECODER}.weight", f"{EMBED}.weight")
    config = ModelConfig(
        family="encoder-only",
        vocab_size=keys.size("vocab_size"),
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        d_ff=keys.size("intermediate_size"),
        n_ctx=keys.size("max_position_embeddings", 8192),
        near_layers=near_layers(keys, [layer for layer in range(n_layers) if layer % every]),
        near_rope_base=near,
        window=keys.size("local_attention", 128) // 2 + 1,
        norm_eps=keys.number("norm_eps", 1e-5),
        norm_placement="pre",
        final_norm=True,
        first_norm=False,
        embed_norm=True,
        scale_embeddings=False,
        ffn="geglu",
        bias=False,
        dropout=0.0,
        lm_head=has_head,
        head_net=has_head,
        unembed_bias=has_head,
        tie_embeddings=tied,
        **turn.settings(d_head),
    )

    def norm(ours: str, theirs: str) -> list[PlanRow]:
        return [weight(ours, theirs), PlanRow(f"{ours}.bias", (), zeros(d_model))]

    rows = [weight("embed", EMBED), *norm("embed_norm", "embeddings.norm")]
    rows += norm("final_norm", "final_norm")
    for layer, (ours, theirs) in enumerate(blocks(n_layers)):
        rows += norm(f"{ours}.attn_norm", f"{theirs}.attn_norm") if layer else []
        rows += norm(f"{ours}.ffn_norm", f"{theirs}.mlp_norm")
        for i, name in enumerate("qkv"):
            its: Any = part(i, 3) if name == "v" else composed(part(i, 3), neighbours(n_heads))
            rows.append(weight(f"{ours}.attn.w_{name}", f"{theirs}.attn.Wqkv", its))
        rows.append(weight(f"{ours}.attn.w_o", f"{theirs}.attn.Wo"))
        for i, name in enumerate(("gate", "up")):
            rows.append(weight(f"{ours}.ffn.w_{name}", f"{theirs}.mlp.Wi", part(i, 2)))
        rows.append(weight(f"{ours}.ffn.w_down", f"{theirs}.mlp.Wo"))
    if has_head:
        rows += [weight("head.linear", "head.dense"), *norm("head.norm", "head.norm")]
        rows += [
            PlanRow("head.linear.bias", (), zeros(d_model)),
            PlanRow("unembed.bias", (f"{DECODER}.bias",)),
        ]
        rows += [] if tied else [weight("unembed", DECODER)]
    ignored = () if has_head else (r"head\..*", r"classifier\..*")
    return Plan(config, tuple(rows), (*TABLES, r"decoder\.weight", *ignored))
