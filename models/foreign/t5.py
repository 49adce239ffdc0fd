"""T5, T5 v1.1 and mT5. Raffel et al. 2020; Shazeer 2020; Xue et al. 2021."""

from models.config import ModelConfig
from models.feedforward import GATED, FeedForwardKind
from models.foreign.folds import as_is, times
from models.foreign.plan import Keys, Plan, blocks, weight
from models.positions import T5Bias
from models.refusals import Refusal

NETS: dict[str, FeedForwardKind] = {"relu": "relu", "gated-gelu": "geglu_tanh"}


def mt5(keys: Keys) -> Plan:
    """As T5 v1.1: the decoder's output is never scaled."""
    return t5(keys, scales=False)


def t5(keys: Keys, scales: bool = True) -> Plan:
    """Pre-norm without biases; a number per distance joins the scores, in all layers the same.

    Its scores are not divided. The first T5 divides the decoder's output by √d_model: that goes
    into its last norm.
    """
    keys.only("relative_attention_num_buckets", T5Bias.n_buckets)
    keys.only("relative_attention_max_distance", 128)
    # Files with an unembedding of their own have one, whatever newer configs say about ties.
    says_tied = keys.flag("tie_word_embeddings", True)
    tied = says_tied and not keys.stores("lm_head.weight")
    scales = scales and keys.flag("scale_decoder_outputs", says_tied)
    d_model, d_head = keys.size("d_model"), keys.size("d_kv")
    n_layers = keys.layers("num_layers")
    config = ModelConfig(
        family="encoder-decoder",
        vocab_size=keys.size("vocab_size"),
        d_model=d_model,
        n_encoder_layers=n_layers,
        n_layers=keys.layers("num_decoder_layers", n_layers),
        n_heads=keys.size("num_heads"),
        head_dim=d_head,
        d_ff=keys.size("d_ff"),
        n_ctx=keys.size("n_positions", 512),
        norm="rmsnorm",
        norm_eps=keys.number("layer_norm_epsilon", 1e-6),
        norm_placement="pre",
        final_norm=True,
        positions="t5",
        ffn=_net(keys),
        score_divisor=1.0,
        bias=False,
        scale_embeddings=False,
        tie_embeddings=tied,
        dropout=0.0,
    )
    rows = [weight("encoder.embed", "shared")]
    if not tied:
        rows += [weight("decoder.embed", "shared"), weight("unembed", "lm_head")]
    for stack, n in (("encoder", config.encoder_layers), ("decoder", config.n_layers)):
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
        r"(encoder|decoder)\.embed_tokens\.weight",
        # The first files had a table for cross-attention as well, which was never read.
        r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
    )
    starts_with = keys.token("decoder_start_token_id", keys.values.get("pad_token_id"))
    return Plan(config, tuple(rows), ignored, starts_with)


def _net(keys: Keys) -> FeedForwardKind:
    said = keys.values.get("feed_forward_proj", "relu")
    if said not in NETS:
        known = ", ".join(NETS)
        raise Refusal("one_of", name="feed_forward_proj", value=repr(said), allowed=known)
    return NETS[said]
