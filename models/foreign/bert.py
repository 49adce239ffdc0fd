"""BERT and models like it: RoBERTa, XLM-R, DistilBERT, MiniLM, ELECTRA, ALBERT, ModernBERT; with or
without a masked-word head. Devlin et al. 2019; Liu et al. 2019; Sanh et al. 2019; Clark et al.
2020; Lan et al. 2020; Warner et al. 2024 (ModernBERT)."""

import re
from functools import partial
from typing import Any

from models.config import ModelConfig
from models.foreign.folds import (
    as_is,
    composed,
    first_row_added,
    less_first_row,
    neighbours,
    only,
    part,
    without_first,
)
from models.foreign.llama import near_layers
from models.foreign.plan import (
    QKV,
    Keys,
    LMHead,
    Plan,
    PlanRow,
    block_rows,
    blocks,
    both,
    sizes,
    weight,
)
from models.foreign.rotation import TABLES, two_turnings

EMBED, DECODER = "embeddings.tok_embeddings", "decoder"
BERT_BLOCK = {
    **{f"attn.w_{name}": f"attention.self.{stored}" for name, stored in QKV.items()},
    "attn.w_o": "attention.output.dense",
    "attn_norm": "attention.output.LayerNorm",
    "ffn.w_up": "intermediate.dense",
    "ffn.w_down": "output.dense",
    "ffn_norm": "output.LayerNorm",
}
ALBERT_BLOCK = {
    **{f"attn.w_{name}": f"attention.{stored}" for name, stored in QKV.items()},
    "attn.w_o": "attention.dense",
    "attn_norm": "attention.LayerNorm",
    "ffn.w_up": "ffn",
    "ffn.w_down": "ffn_output",
    "ffn_norm": "full_layer_layer_norm",
}
DISTILBERT_BLOCK = {
    **{f"attn.w_{name}": f"attention.{name}_lin" for name in "qkv"},
    "attn.w_o": "attention.out_lin",
    "attn_norm": "sa_layer_norm",
    "ffn.w_up": "ffn.lin1",
    "ffn.w_down": "ffn.lin2",
    "ffn_norm": "output_layer_norm",
}
IGNORED = (
    r"embeddings\.position_ids",
    # Heads of other tasks: the encoder is opened without them.
    r"pooler\.dense\..*",
    r"cls\.seq_relationship\..*",
    r"(pre_)?classifier\..*",
    r"qa_outputs\..*",
    r"discriminator_predictions\..*",
    r"pooler\.(weight|bias)",
    r"sop_classifier\..*",
)


def bert(keys: Keys) -> Plan:
    """BERT and MiniLM. The first token type is added to the positions."""
    keys.only("is_decoder", False)
    keys.only("position_embedding_type", "absolute")
    head = _head(
        keys,
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        "cls.predictions.decoder",
        "cls.predictions.bias",
    )
    config = _config(keys, head, n_types=keys.size("type_vocab_size", 2))
    rows = (
        *_embedded(config, first=0),
        *block_rows(config.n_layers, BERT_BLOCK, "encoder.layer"),
        *head.rows,
    )
    return Plan(config, rows, (*IGNORED, *head.ignored))


def roberta(keys: Keys) -> Plan:
    """RoBERTa and XLM-R: the position table starts with unused rows, up to the padding's id."""
    keys.only("is_decoder", False)
    keys.only("position_embedding_type", "absolute")
    first = keys.token("pad_token_id", 1) + 1
    head = _head(keys, "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias")
    config = _config(keys, head, first=first, unplaced=(first - 1,))
    if config.lm_head:
        keys.only("hidden_act", "gelu")  # its head always uses this activation
    rows = (
        *_embedded(config, first),
        *block_rows(config.n_layers, BERT_BLOCK, "encoder.layer"),
        *head.rows,
    )
    return Plan(config, rows, (*IGNORED, *head.ignored))


def electra(keys: Keys) -> Plan:
    """ELECTRA, generator or discriminator: BERT with embeddings of another width. What the
    discriminator says of each token, real or replaced, is not shown."""
    keys.only("is_decoder", False)
    keys.only("position_embedding_type", "absolute")
    names = ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head")
    head = _head(keys, *names, "generator_lm_head.bias")
    width = keys.size("embedding_size", 128)
    mapped = width != keys.size("hidden_size", 256)
    types = keys.size("type_vocab_size", 2)
    config = _config(keys, head, d_embed=width if mapped else None, n_types=types)
    if config.lm_head:
        keys.only("hidden_act", "gelu")  # its head always uses this activation
    rows = [
        *_embedded(config, first=0),
        *block_rows(config.n_layers, BERT_BLOCK, "encoder.layer"),
        *head.rows,
    ]
    if mapped:
        rows += both("embed_map", "embeddings_project")
    return Plan(config, tuple(rows), (*IGNORED, *head.ignored))


def albert(keys: Keys) -> Plan:
    """ALBERT: embeddings of another width, and one block that is applied in every layer."""
    keys.only("position_embedding_type", "absolute")
    keys.only("num_hidden_groups", 1)
    keys.only("inner_group_num", 1)
    names = ("predictions.dense", "predictions.LayerNorm", "predictions.decoder")
    head = _head(keys, *names, "predictions.bias")
    width = keys.size("embedding_size", 128)
    more: dict[str, Any] = {"shared_layers": True, "n_types": keys.size("type_vocab_size", 2)}
    config = _config(keys, head, "gelu_new", d_embed=width, **more)
    rows = [*_embedded(config, first=0), *both("embed_map", "encoder.embedding_hidden_mapping_in")]
    rows += block_rows(1, ALBERT_BLOCK, "encoder.albert_layer_groups.0.albert_layers")
    return Plan(config, (*rows, *head.rows), (*IGNORED, *head.ignored))


def distilbert(keys: Keys) -> Plan:
    """DistilBERT: no token types, and different tensor names."""
    keys.only("sinusoidal_pos_embds", False)
    names = ("vocab_transform", "vocab_layer_norm", "vocab_projector", "vocab_projector.bias")
    head = _head(keys, *names)
    config = ModelConfig(
        family="encoder-only",
        **sizes(keys, "dim", "n_layers", "n_heads"),
        d_ff=keys.size("hidden_dim"),
        n_ctx=keys.size("max_position_embeddings", 512),
        norm_eps=1e-12,
        positions="learned",
        ffn=keys.activation("activation", "gelu"),
        **_SHARED,
        **head.settings,
    )
    if config.lm_head:
        keys.only("activation", "gelu", "relu")
    rows = [
        weight("embed", "embeddings.word_embeddings"),
        weight("positions", "embeddings.position_embeddings"),
        *both("embed_norm", "embeddings.LayerNorm"),
        *block_rows(config.n_layers, DISTILBERT_BLOCK, "transformer.layer"),
    ]
    return Plan(config, (*rows, *head.rows), (*IGNORED, *head.ignored))


_SHARED: dict[str, Any] = {"embed_norm": True, "scale_embeddings": False, "dropout": 0.0}


def _head(keys: Keys, net: str, norm: str, decoder: str, bias: str) -> LMHead:
    """The masked-word head, if stored: a linear map, a norm, the output matrix and its bias.

    The matrix is tied to the embedding unless a different one is stored; files store the bias under
    one or two names.
    """
    if not keys.stores(f"{net}.weight"):
        return LMHead({"lm_head": False}, (), (re.escape(decoder) + r"\..*",))
    matrix, own_bias = f"{decoder}.weight", f"{decoder}.bias"
    tied = keys.flag("tie_word_embeddings", True)
    tied = tied and not keys.differs(matrix, "embeddings.word_embeddings.weight")
    rows = [*both("head.linear", net), *both("head.norm", norm)]
    rows.append(PlanRow("unembed.bias", (own_bias if keys.stores(own_bias) else bias,)))
    if not tied:
        rows.append(PlanRow("unembed.weight", (matrix,)))
    settings = {"head_net": True, "unembed_bias": True, "tie_embeddings": tied}
    return LMHead(settings, tuple(rows), tuple(map(re.escape, (matrix, own_bias, bias))))


def _config(
    keys: Keys, head: LMHead, activation: str = "gelu", first: int = 0, **more: Any
) -> ModelConfig:
    return ModelConfig(
        family="encoder-only",
        vocab_size=keys.size("vocab_size"),
        d_model=keys.size("hidden_size"),
        n_layers=keys.layers("num_hidden_layers", 12),
        n_heads=keys.size("num_attention_heads"),
        d_ff=keys.size("intermediate_size"),
        n_ctx=keys.size("max_position_embeddings") - first,
        norm_eps=keys.number("layer_norm_eps", 1e-12),
        positions="learned",
        ffn=keys.activation("hidden_act", activation),
        **_SHARED,
        **more,
        **head.settings,
    )


def _embedded(config: ModelConfig, first: int) -> list[PlanRow]:
    fold = composed(first_row_added, without_first(first)) if first else first_row_added
    tables = ("embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight")
    typed = [PlanRow("positions.types", tables[1:], less_first_row)] if config.n_types > 1 else []
    if first:
        row = composed(first_row_added, only(first - 1))
        typed.append(PlanRow("positions.unplaced", tables, row))
    return [
        *typed,
        weight("embed", "embeddings.word_embeddings", as_is),
        PlanRow("positions.weight", tables, fold),
        *both("embed_norm", "embeddings.LayerNorm"),
    ]


def modernbert(keys: Keys) -> Plan:
    """ModernBERT: RoPE, GEGLU, pre-norm, and windows in two of three layers. The embeddings have a
    norm, so the first attention has none.

    Only the output has a bias. `local_attention` counts the tokens on both sides of a query.
    """
    for name in ("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"):
        keys.only(name, False)
    for name in ("hidden_activation", "classifier_activation"):
        keys.only(name, "gelu")
    keys.only("decoder_bias", True)
    keys.only("rope_scaling", None)
    shape = sizes(keys)
    d_model, n_layers, n_heads = (shape[name] for name in ("d_model", "n_layers", "n_heads"))
    every, d_head = keys.size("global_attn_every_n_layers", 3), max(1, d_model // n_heads)
    turn, near = two_turnings(keys, d_head, 160_000.0, "global_rope_theta", "local_rope_theta")
    has_head = keys.stores(f"{DECODER}.bias") or keys.says_head()
    tied = keys.flag("tie_word_embeddings", True)
    tied = tied and not keys.differs(f"{DECODER}.weight", f"{EMBED}.weight")
    config = ModelConfig(
        family="encoder-only",
        **shape,
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

    norm = partial(both, zero=d_model)
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
        rows += [*norm("head.linear", "head.dense"), *norm("head.norm", "head.norm")]
        rows.append(PlanRow("unembed.bias", (f"{DECODER}.bias",)))
        rows += [] if tied else [weight("unembed", DECODER)]
    ignored = () if has_head else (r"head\..*", r"classifier\..*")
    return Plan(config, tuple(rows), (*TABLES, r"decoder\.weight", *ignored))
