"""Translators and summarisers with one design: Marian, BART, mBART, M2M-100 with NLLB, Pegasus;
and T5, T5 v1.1 and mT5.

Junczys-Dowmunt et al. 2018 and Tiedemann & Thottingal 2020 (Marian); Lewis et al. 2020; Liu et al.
2020; Fan et al. 2021 and NLLB team 2022; Zhang et al. 2020 (Pegasus); Raffel et al. 2020;
Shazeer 2020; Xue et al. 2021 (mT5).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from models.checkpoint import MOST_COMPUTED
from models.config import ModelConfig
from models.feedforward import GATED
from models.foreign.folds import Fold, as_is, only, sines_then_cosines, times, without_first, zeros
from models.foreign.plan import (
    Keys,
    Plan,
    PlanRow,
    block_rows,
    blocks,
    both,
    own_output,
    shared_output,
    weight,
)
from models.positions import T5Bias
from models.refusals import Refusal

OFFSET = 2  # unused first rows of BART's position table


def _attention(ours: str, theirs: str) -> dict[str, str]:
    """The stored names of fairseq's attention and its norm, by ours."""
    names = zip("qkvo", ("q", "k", "v", "out"), strict=True)
    matrices = {f"{ours}.w_{name}": f"{theirs}.{stored}_proj" for name, stored in names}
    return matrices | {f"{ours}_norm": f"{theirs}_layer_norm"}


BART_BLOCK = {
    **_attention("attn", "self_attn"),
    "ffn.w_up": "fc1",
    "ffn.w_down": "fc2",
    "ffn_norm": "final_layer_norm",
}
BART_CROSS = _attention("cross_attn", "encoder_attn")


def marian(keys: Keys) -> Plan:
    """The 2017 design, post-norm, with an output bias per token and its own sinusoidal table.

    Sines and cosines fill one half of the columns each instead of alternating, so the table is
    treated as learned positions; a stored table is used if there is one.
    """
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        keys.only(name, False)
    keys.only("add_bias_logits", False)
    keys.only("static_position_embeddings", True)
    if keys.flag("share_encoder_decoder_embeddings", True):
        keys.only("decoder_vocab_size", keys.size("vocab_size"), None)
        return _plan(keys, table=sines_then_cosines, pre=False)
    return _plan(keys, table=sines_then_cosines, pre=False, apart=True)


def bart(keys: Keys) -> Plan:
    """BART: post-norm, learned positions, a norm on the embedding."""
    for name, value in (("normalize_before", False), ("normalize_embedding", True)):
        keys.only(name, value)
    keys.only("add_final_layer_norm", False)
    keys.only("static_position_embeddings", False)
    return _plan(keys, table=None, pre=False, embed_norm=True)


def mbart(keys: Keys) -> Plan:
    """BART with pre-norm; the decoder starts with the target language's code."""
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        keys.only(name, True)
    keys.only("static_position_embeddings", False)
    return _plan(keys, table=None, pre=True, embed_norm=True)


def m2m(keys: Keys) -> Plan:
    """M2M-100 and NLLB: pre-norm, tensor2tensor's sinusoids, positions offset by the padding id."""
    first = keys.token("pad_token_id", 1) + 1

    def table(n_ctx: int, d_model: int) -> Fold:
        return sines_then_cosines(n_ctx, d_model, first, d_model // 2 - 1)

    more: dict[str, Any] = {"stored_table": False, "biased": False, "skipped": first - 1}
    return _plan(keys, table=table, pre=True, activation="relu", scales=True, **more)


def pegasus(keys: Keys) -> Plan:
    """Pegasus: pre-norm with Marian's sinusoidal table."""
    for name in ("normalize_before", "add_final_layer_norm", "static_position_embeddings"):
        keys.only(name, True)
    keys.only("normalize_embedding", False)
    return _plan(keys, table=sines_then_cosines, pre=True)


def _plan(
    keys: Keys,
    *,
    table: Callable[[int, int], Fold] | None,
    pre: bool,
    embed_norm: bool = False,
    stored_table: bool = True,
    biased: bool = True,
    apart: bool = False,
    skipped: int | None = None,
    activation: str = "gelu",
    scales: bool = False,
) -> Plan:
    """`table` computes the positions, [n_ctx, d_model], if none are stored; None: they are learned,
    after OFFSET unused rows. `biased`: each token has an output bias. `apart`: the target has a
    vocabulary of its own. `skipped` is a token without a position; `activation` and `scales` are
    defaults. Norms use the default eps."""
    for name in ("attention_heads", "ffn_dim"):
        if (value := keys.size(f"decoder_{name}")) != (size := keys.size(f"encoder_{name}")):
            allowed = f"encoder_{name} = {size}"
            raise Refusal("not_exact", name=f"decoder_{name}", value=value, allowed=allowed)
    d_model, n_ctx = keys.size("d_model"), keys.size("max_position_embeddings", 1024)
    if table is not None and 4 * n_ctx * d_model > MOST_COMPUTED:
        limit = f"{MOST_COMPUTED:,}"
        raise Refusal("long_table", name="max_position_embeddings", value=n_ctx, limit=limit)
    tied, size = keys.flag("tie_word_embeddings", True), keys.size("vocab_size")
    shared = (own_output if apart else shared_output)(keys, tied)
    has_head = shared.settings.get("lm_head", True)
    if biased:
        has_head = keys.stores("final_logits_bias") or keys.says_head()
    config = ModelConfig(
        family="encoder-decoder",
        vocab_size=keys.size("decoder_vocab_size", size) if apart else size,
        src_vocab_size=size if apart else None,
        d_model=d_model,
        n_layers=keys.layers("decoder_layers"),
        n_encoder_layers=keys.layers("encoder_layers"),
        n_heads=keys.size("encoder_attention_heads"),
        d_ff=keys.size("encoder_ffn_dim"),
        n_ctx=n_ctx,
        unplaced=None if skipped is None else (skipped,),
        norm_placement="pre" if pre else "post",
        final_norm=pre,
        embed_norm=embed_norm,
        positions="learned",
        ffn=keys.activation("activation_function", activation),
        scale_embeddings=keys.flag("scale_embedding", scales),
        dropout=0.0,
        **shared.settings | {"lm_head": has_head, "unembed_bias": biased and has_head},
    )
    rows = [row for row in shared.rows if has_head or row.ours != "unembed.weight"]
    if config.unembed_bias:
        rows.append(PlanRow("unembed.bias", ("final_logits_bias",), only(0)))
    for stack, n_layers in (("encoder", config.encoder_layers), ("decoder", config.n_layers)):
        name = f"{stack}.embed_positions.weight"
        stored: tuple[str, ...] = (name,)
        fold = as_is if table else without_first(OFFSET)
        if table and not (stored_table and keys.stores(name)):
            stored, fold = (), table(n_ctx, d_model)
        rows.append(PlanRow(f"{stack}.positions.weight", stored, fold))
        if skipped is not None:
            rows.append(PlanRow(f"{stack}.positions.unplaced", (), zeros(d_model)))
        if embed_norm:
            rows += both(f"{stack}.embed_norm", f"{stack}.layernorm_embedding")
        if pre:
            rows += both(f"{stack}.final_norm", f"{stack}.layer_norm")
        names = BART_BLOCK if stack == "encoder" else BART_BLOCK | BART_CROSS
        rows += block_rows(n_layers, names, f"{stack}.layers", f"{stack}.blocks")
    usual = keys.values.get("pad_token_id" if table is sines_then_cosines else "eos_token_id")
    starts_with = keys.token("decoder_start_token_id", usual)
    recomputed = () if stored_table else (r"(encoder|decoder)\.embed_positions\.weights?",)
    return Plan(config, tuple(rows), (*recomputed, *shared.ignored), starts_with)


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
