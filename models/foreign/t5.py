"""T5, T5 v1.1 and mT5. Raffel et al. 2020; Shazeer 2020; Xue et al. 2021."""

from dataclasses import replace

from models.config import ModelConfig
from models.feedforward import GATED
from models.foreign.folds import as_is, times
from models.foreign.outputs import shared_output
from models.foreign.plan import Keys, Plan, blocks, weight
from models.positions import T5Bias
from models.refusals import Refusal

NETS: dict[str, tuple[str, str]] = {
    "relu": ("relu", "relu"),
    "gated-gelu": ("geglu_tanh", "gelu_new"),
}
"""Feed-forward networks by `feed_forward_proj`: our name, and that of the activation."""


def mt5(keys: Keys) -> Plan:
    """mT5: T5 v1.1, whose decoder output is never scaled."""
    return t5(keys, scales=False, net="gated-gelu")


def t5(keys: Keys, scales: bool = True, net: str = "relu") -> Plan:
    """Pre-norm without biases; a score bias per distance, shared by all layers; unscaled scores.

    The original T5 divides the decoder's output by √d_model, which is folded into the final norm. A
    file without a decoder is opened as an encoder.
    """
    keys.only("relative_attention_num_buckets", T5Bias.n_buckets)
    keys.only("relative_attention_max_distance", 128)
    keys.only("is_decoder", False)
    alone = not keys.says_head() and not any(name.startswith("decoder.") for name in keys.names)
    tied = keys.flag("tie_word_embeddings", True)
    shared = shared_output(keys, tied)
    scales = scales and bool(keys.values.get("scale_decoder_outputs", tied))
    d_model, d_head = keys.size("d_model"), keys.size("d_kv")
    n_layers = keys.layers("num_layers")
    n_decoder_layers = keys.layers("num_decoder_layers", n_layers)
    config = ModelConfig(
        family="encoder-only" if alone else "encoder-decoder",
        vocab_size=keys.size("vocab_size"),
        d_model=d_model,
        n_encoder_layers=n_layers,
        n_layers=n_layers if alone else n_decoder_layers,
        n_heads=keys.size("num_heads"),
        head_dim=d_head,
        d_ff=keys.size("d_ff"),
        n_ctx=keys.size("n_positions", 512),
        norm="rmsnorm",
        norm_eps=keys.number("layer_norm_epsilon", 1e-6),
        norm_placement="pre",
        final_norm=True,
        positions="t5",
        ffn=_net(keys, net),
        score_divisor=1.0,
        bias=False,
        scale_embeddings=False,
        dropout=0.0,
        **shared.settings | ({"lm_head": False} if alone else {}),
    )
    rows = [row for row in shared.rows if not alone or row.ours.startswith("encoder.")]
    stacks = {"encoder": n_layers} | ({} if alone else {"decoder": n_decoder_layers})
    for stack, n in stacks.items():
        first = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias"
        rows.append(weight(f"{stack}.positions", first))
        scaled = times(d_model**-0.5) if scales and stack == "decoder" else as_is
        rows.append(weight(f"{stack}.final_norm", f"{stack}.final_layer_norm", scaled))
        for ours, theirs in blocks(n, f"{stack}.blocks", f"{stack}.block"):
            sublayers = {"attn": "SelfAttention"}
            if stack == "decoder":
                sublayers["cross_attn"] = "EncDecAttention"
            for number, (mine, its) in enumerate(sublayers.items()):
                for name in "qkvo":
                    path = f"{theirs}.layer.{number}.{its}.{name}"
                    rows.append(weight(f"{ours}.{mine}.w_{name}", path))
                rows.append(weight(f"{ours}.{mine}_norm", f"{theirs}.layer.{number}.layer_norm"))
            net = f"{theirs}.layer.{len(sublayers)}"
            rows.append(weight(f"{ours}.ffn_norm", f"{net}.layer_norm"))
            into = {"w_gate": "wi_0", "w_up": "wi_1"} if config.ffn in GATED else {"w_up": "wi"}
            for mine, its in (into | {"w_down": "wo"}).items():
                rows.append(weight(f"{ours}.ffn.{mine}", f"{net}.DenseReluDense.{its}"))
    ignored = (
        *shared.ignored,
        # Early files have an unused table for cross-attention.
        r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
    )
    if alone:
        rows = [replace(row, ours=row.ours.removeprefix("encoder.")) for row in rows]
        return Plan(config, tuple(rows), ignored)
    starts_with = keys.token("decoder_start_token_id", keys.values.get("pad_token_id"))
    return Plan(config, tuple(rows), ignored, starts_with)


def _net(keys: Keys, usual: str) -> str:
    net = keys.values.get("feed_forward_proj", usual)
    if net not in NETS:
        known = ", ".join(NETS)
        raise Refusal("one_of", name="feed_forward_proj", value=repr(net), allowed=known)
    kind, activation = NETS[net]
    keys.only("is_gated_act", kind in GATED)  # written by `transformers`, and preferred
    keys.only("dense_act_fn", activation)
    return kind
