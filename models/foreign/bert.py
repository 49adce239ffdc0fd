"""BERT and what is built like it: RoBERTa, XLM-R, DistilBERT, MiniLM; with a masked-word head or
without. Devlin et al. 2019; Liu et al. 2019; Sanh et al. 2019.
"""

from typing import Any

from models.config import ModelConfig
from models.foreign.folds import as_is, first_row_added, in_turn, without_first
from models.foreign.plan import Keys, Plan, Row, blocks, both, weight

IGNORED = (
    r"embeddings\.position_ids",
    # Heads of other tasks: the encoder below them is shown without one.
    r"pooler\.dense\..*",
    r"cls\.seq_relationship\..*",
    r"(pre_)?classifier\..*",
    r"qa_outputs\..*",
)


def bert(keys: Keys) -> Plan:
    """BERT and MiniLM. Every text is one segment, so the first token type joins its positions."""
    keys.only("is_decoder", False)
    keys.only("position_embedding_type", "absolute")
    config = _config(keys, "cls.predictions.transform.dense.weight")
    rows = [*_embedded(config, first=0), *_encoder(config)]
    if config.lm_head:
        rows += [
            *both("head.linear", "cls.predictions.transform.dense"),
            *both("head.norm", "cls.predictions.transform.LayerNorm"),
            Row("unembed.bias", ("cls.predictions.bias",)),
        ]
    return Plan(config, tuple(rows), (*IGNORED, r"cls\.predictions\.decoder\..*"))


def roberta(keys: Keys) -> Plan:
    """RoBERTa and XLM-R: the first rows of the table, up to the padding's id, are no positions."""
    keys.only("is_decoder", False)
    keys.only("position_embedding_type", "absolute")
    first = keys.token("pad_token_id", 1) + 1
    config = _config(keys, "lm_head.dense.weight", first)
    rows = [*_embedded(config, first), *_encoder(config)]
    if config.lm_head:
        keys.only("hidden_act", "gelu")  # its head has this one, whatever the config says
        rows += [
            *both("head.linear", "lm_head.dense"),
            *both("head.norm", "lm_head.layer_norm"),
            Row("unembed.bias", ("lm_head.bias",)),
        ]
    return Plan(config, tuple(rows), (*IGNORED, r"lm_head\.decoder\..*"))


def distilbert(keys: Keys) -> Plan:
    """DistilBERT: no token types, and names of its own."""
    keys.only("sinusoidal_pos_embds", False)
    has_head = keys.stores("vocab_transform.weight")
    config = ModelConfig(
        family="encoder-only",
        vocab_size=keys.size("vocab_size"),
        d_model=keys.size("dim"),
        n_layers=keys.layers("n_layers"),
        n_heads=keys.size("n_heads"),
        d_ff=keys.size("hidden_dim"),
        n_ctx=keys.size("max_position_embeddings", 512),
        norm_eps=1e-12,
        positions="learned",
        ffn=keys.activation("activation", "gelu"),  # type: ignore[arg-type]
        **_shared(keys, has_head),
    )
    if has_head:
        keys.only("activation", "gelu", "relu")
    rows = [
        weight("embed", "embeddings.word_embeddings"),
        weight("positions", "embeddings.position_embeddings"),
        *both("embed_norm", "embeddings.LayerNorm"),
    ]
    for ours, theirs in blocks(config.n_layers, theirs="transformer.layer"):
        for name, stored in zip("qkvo", ("q", "k", "v", "out"), strict=True):
            rows += both(f"{ours}.attn.w_{name}", f"{theirs}.attention.{stored}_lin")
        rows += both(f"{ours}.attn_norm", f"{theirs}.sa_layer_norm")
        rows += both(f"{ours}.ffn.w_up", f"{theirs}.ffn.lin1")
        rows += both(f"{ours}.ffn.w_down", f"{theirs}.ffn.lin2")
        rows += both(f"{ours}.ffn_norm", f"{theirs}.output_layer_norm")
    if has_head:
        rows += both("head.linear", "vocab_transform") + both("head.norm", "vocab_layer_norm")
        rows.append(Row("unembed.bias", ("vocab_projector.bias",)))
    return Plan(config, tuple(rows), (*IGNORED, r"vocab_projector\.weight"))


def _shared(keys: Keys, has_head: bool) -> dict[str, Any]:
    keys.only("tie_word_embeddings", True)
    return {
        "embed_norm": True,
        "scale_embeddings": False,
        "lm_head": has_head,
        "head_net": has_head,
        "unembed_bias": has_head,
        "dropout": 0.0,
    }


def _config(keys: Keys, head: str, first: int = 0) -> ModelConfig:
    """BERT's config; `head` is a tensor that only the masked-word head has."""
    return ModelConfig(
        family="encoder-only",
        vocab_size=keys.size("vocab_size"),
        d_model=keys.size("hidden_size"),
        n_layers=keys.layers("num_hidden_layers"),
        n_heads=keys.size("num_attention_heads"),
        d_ff=keys.size("intermediate_size"),
        n_ctx=keys.size("max_position_embeddings") - first,
        norm_eps=keys.number("layer_norm_eps", 1e-12),
        positions="learned",
        ffn=keys.activation("hidden_act", "gelu"),  # type: ignore[arg-type]
        **_shared(keys, keys.stores(head)),
    )


def _embedded(config: ModelConfig, first: int) -> list[Row]:
    fold = in_turn(first_row_added, without_first(first)) if first else first_row_added
    tables = ("embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight")
    return [
        weight("embed", "embeddings.word_embeddings", as_is),
        Row("positions.weight", tables, fold),
        *both("embed_norm", "embeddings.LayerNorm"),
    ]


def _encoder(config: ModelConfig) -> list[Row]:
    rows = []
    for ours, theirs in blocks(config.n_layers, theirs="encoder.layer"):
        for name, stored in zip("qkv", ("query", "key", "value"), strict=True):
            rows += both(f"{ours}.attn.w_{name}", f"{theirs}.attention.self.{stored}")
        rows += both(f"{ours}.attn.w_o", f"{theirs}.attention.output.dense")
        rows += both(f"{ours}.attn_norm", f"{theirs}.attention.output.LayerNorm")
        rows += both(f"{ours}.ffn.w_up", f"{theirs}.intermediate.dense")
        rows += both(f"{ours}.ffn.w_down", f"{theirs}.output.dense")
        rows += both(f"{ours}.ffn_norm", f"{theirs}.output.LayerNorm")
    return rows
